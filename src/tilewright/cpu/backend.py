"""Registers the CPU machine with ``launching.machine``."""

from __future__ import annotations

from xdsl.ir import Operation

from tilewright.cpu.runtime import ready
from tilewright.cpu.runtime.launch import Program
from tilewright.launching.machine import unsupported_level
from tilewright.launching.modules import is_tile_ir
from tilewright.launching.options import LaunchOptions


def check(variant: str) -> None:
    """It is there wherever llvmlite is, without which this module cannot be imported."""


def load(module: Operation, variant: str, options: LaunchOptions) -> Program:
    """A module of ``cuda_tile`` or ``nv_tileaa``. Raises ``TileIRError`` (``unsupported-level``) for one of
    ``nvgpu``.
    """
    if not is_tile_ir(module):
        raise unsupported_level("cpu")
    return Program(module, options)


def get_ready() -> None:
    """See ``ready``."""
    ready.get_ready()
