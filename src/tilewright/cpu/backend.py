"""Registers the CPU machine with ``launching.machine``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.cpu.runtime import ready
from tilewright.cpu.runtime.launch import Program
from tilewright.cpu.runtime.module_records import find_module
from tilewright.cpu.runtime.modules import LaunchedModule
from tilewright.launching.disk_cache import disk_cache
from tilewright.launching.interfaces import KernelInterface, ModuleInterface
from tilewright.launching.machine import Program as AnyProgram
from tilewright.launching.machine import unsupported_level
from tilewright.launching.options import LaunchOptions
from tilewright.launching.sources import Source

if TYPE_CHECKING:
    from xdsl.ir import Operation


def check(variant: str) -> None:
    """It is there wherever llvmlite is, without which this module cannot be imported."""


def load(module: Operation, variant: str, options: LaunchOptions) -> Program:
    """A module of ``cuda_tile`` or ``nv_tileaa``. Raises ``TileIRError`` (``unsupported-level``) for one of
    ``nvgpu``.
    """
    from tilewright.launching.modules import is_tile_ir

    if not is_tile_ir(module):
        raise unsupported_level("cpu")
    return Program(module, options)


def get_ready() -> None:
    """See ``ready``."""
    ready.get_ready()


@dataclass(frozen=True, slots=True)
class KnownModule:
    """A module that was loaded before, maybe by another process; as ``launching.machine.KnownModule``."""

    source: Source
    record: ModuleInterface

    def interface(self, entry: str | None) -> KernelInterface | None:
        """The interface of the kernel of that name, for None of the only one; None if there is no such kernel."""
        return self.record.kernel(entry)

    def load(self, options: LaunchOptions) -> Program:
        """A program that reads the module when it needs more than what is known of it."""
        return Program(LaunchedModule(self.source.read, self.record), options)


def find(source: Source) -> KnownModule | None:
    """The module of this source, if it is known from the disk cache."""
    cache = disk_cache()
    record = None if cache is None else find_module(cache, source.identity)
    return None if record is None else KnownModule(source, record)


def remember(source: Source, program: AnyProgram) -> None:
    """Make the module of a program, which comes from this source, known to later processes."""
    assert isinstance(program, Program)
    program.remember(source.identity)
