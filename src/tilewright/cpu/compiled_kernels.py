"""Compiled kernels as data, without the code generator.

Kernels that come from the disk cache need no more, which is why this stands apart from ``compile``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewright.cpu.abi import Site
from tilewright.cpu.target import HOST, CpuTarget
from tilewright.launching.assertions import OperationSource

if TYPE_CHECKING:
    from xdsl.ir import Attribute

    from tilewright.passes.tileas.remarks import Remark


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How kernels become code.

    ``cpu``: the name of a target (``target.cpu_target``). ``checked``: every access is checked; one
    outside of the memory of its view stops the run. ``distinct_arguments``: an array that the kernel
    may write to shares no memory with those of other pointer arguments, as launches check it; without
    it, loads and stores through different arguments keep their order. ``plugins``: the names of the functions that launches have for
    external functions.
    """

    cpu: str = HOST
    checked: bool = False
    distinct_arguments: bool = True
    plugins: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """A text that is the same for options that make the same code, for the names of cached
        objects."""
        return (
            f"{self.cpu} checked={self.checked} distinct={self.distinct_arguments} "
            f"plugins={sorted(self.plugins)}"
        )


DEFAULT_COMPILING = CompileOptions()


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """A kernel as LLVM IR, with what the runtime must know to run it (see ``abi``).

    ``parameters`` are the types of the kernel's parameters; none for code from the disk. ``may_wait``: its blocks can wait for one
    another, so that all of them must make progress. ``asks_for_memory``: it wants the table of memory.
    ``has_agents``: it calls the scheduler of agents. ``takes_over``: its blocks take over the work of
    others.
    """

    llvm_ir: str
    symbol: str
    arena_bytes: int
    parameters: tuple[Attribute, ...]
    sites: tuple[Site, ...]
    may_wait: bool
    target: CpuTarget
    asks_for_memory: bool = False
    has_agents: bool = False
    takes_over: bool = False
    globals: tuple[str, ...] = field(default=())
    """Names of the globals that the code uses; ``symbol_of`` says which symbol stands for each."""
    updates: bool = False
    """Whether it has atomic operations."""
    may_be_alone: bool = False
    """Whether some of them need not be atomic where one thread runs the launch (``abi``)."""
    has_keys: bool = False
    """Whether it has a function that tells which of its blocks may wait for one another (``abi``)."""
    loops: tuple[OperationSource, ...] | None = None
    """Where its loops stand, by their numbers; None for code from the disk, where it is not kept. The sources of its
    ``sites`` are not kept there, either."""
    remarks: tuple[Remark, ...] = ()
    """What was decided and why; none for code from the disk."""

    @property
    def is_from_disk(self) -> bool:
        """Whether it is known from a record (``runtime.records``), which has no positions."""
        return self.loops is None
