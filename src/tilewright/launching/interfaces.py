"""The interfaces of modules and kernels as data: what usual launches need of them, without operations."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.launching.global_memory import GlobalMemory
from tilewright.numerics.arrays import PTR

INDEX_ELEMENT = "i64"
"""The element type of ``index``."""


@dataclass(frozen=True, slots=True)
class PassedType:
    """The type of a parameter: the element type by name (``ptr`` for pointers), the extents of a tile that is passed by
    value, and the element type of a pointee."""

    element: str
    dims: tuple[int, ...] = ()
    pointee: str = ""

    @property
    def is_pointer(self) -> bool:
        """Whether it takes an array or an address."""
        return self.element == PTR


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a kernel; the name is "" where its text has none."""

    name: str
    type: PassedType


@dataclass(frozen=True, slots=True)
class KernelInterface:
    """What launches need of a kernel.

    ``written``: the numbers of the parameters that it may write through, with None if it may write to any memory.
    ``promised_grid``: the only grid that it may be launched over, if it was lowered for one.
    """

    symbol: str
    parameters: tuple[Parameter, ...]
    written: frozenset[int | None]
    promised_grid: tuple[int, ...] | None = None

    def may_write(self, number: int) -> bool:
        """Whether it may write through the parameter of that number."""
        return None in self.written or number in self.written


@dataclass(frozen=True, slots=True)
class ModuleInterface:
    """What launches need of a module. ``digest`` is the same for modules whose kernels have the same code."""

    digest: str
    kernels: tuple[KernelInterface, ...]
    globals: tuple[GlobalMemory, ...]

    def kernel(self, name: str | None) -> KernelInterface | None:
        """The kernel of that name; for None the only one. None if there is no such kernel."""
        found = [each for each in self.kernels if name is None or each.symbol == name]
        return found[0] if len(found) == 1 else None
