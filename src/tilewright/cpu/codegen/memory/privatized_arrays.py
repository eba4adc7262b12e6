"""The private copies of an array, as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

from tilewright.cpu.codegen.ir.elements import I8, I64, Element
from tilewright.cpu.codegen.ir.types import Builder, Constant, Value
from tilewright.cpu.codegen.memory.locks import PageLocks

COPIES = 4
"""Several copies are used in turn where they are small together: one update need not wait for the one before, to
the same element."""

IDENTITY: dict[str, Callable[[int], int]] = {
    "add": lambda bits: 0,
    "or": lambda bits: 0,
    "xor": lambda bits: 0,
    "umax": lambda bits: 0,
    "and": lambda bits: (1 << bits) - 1,
    "umin": lambda bits: (1 << bits) - 1,
    "min": lambda bits: (1 << bits - 1) - 1,
    "max": lambda bits: 1 << bits - 1,
    "addf": lambda bits: 1 << bits - 1,  # -0.0: 0.0 would change it
}
"""For each kind of update the bits that change nothing, by the width of the element."""


@dataclass(frozen=True, slots=True)
class Target:
    """An array with private copies: the parameter that points to it, and how it is updated. ``by_rows``: some of its updates go to
    elements side by side."""

    parameter: int
    mode: str
    element: Element
    by_rows: bool = False

    @property
    def identity(self) -> Constant:
        """What each element of a thread's own copy begins with: combined with it, a number stays as
        it is."""
        bits = self.element.buffer_bytes * 8
        ty = self.element.register
        return ir.Constant(ty, IDENTITY[self.mode](bits) if isinstance(ty, ir.IntType) else -0.0)


@dataclass(frozen=True, slots=True)
class Copies:
    """The copies of one call: how many bytes each holds (0: there are none), and how far apart they
    lie; all in the same place if by 0."""

    target: Target
    base: Value
    """The address of the array, as a number."""
    memory: Value
    size: Value
    stride: Value
    locks: PageLocks | None = None
    """Those of an array that is updated by rows: where there are no copies in a closed launch, all of its updates take them."""


def in_copy(b: Builder, held: Copies, copy: int, offset: Value) -> Value:
    """The address of what lies so many bytes behind the beginning of a copy."""
    start = b.mul(held.stride, ir.Constant(I64, copy))
    return b.gep(b.gep(held.memory, [start], source_etype=I8), [offset], source_etype=I8)
