"""Positions of tile elements: along each axis, a base plus known offsets.

A vector of elements lies at ``base + offsets[lane]`` along each axis. The offsets are compile-time constants, so reshapes
cost nothing at run time: all extents are powers of two, and moving a position from shape to shape is shifting and
masking of its base.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.cpu.codegen.ir.types import Value

_NEVER_MISALIGNED = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class Lane:
    """An LLVM value, scalar or vector, that exists from a loop level of a nest on."""

    value: Value
    level: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """The positions along one axis: ``base`` for all lanes, plus ``offsets`` lane by lane.

    ``align`` is a power of two that divides the base.
    """

    base: Lane | int
    offsets: tuple[int, ...] | None = None
    align: int = 1

    @property
    def key(self) -> tuple[object, ...]:
        """What is equal for indices that are the same number in the same code."""
        base = self.base
        return (base if isinstance(base, int) else id(base.value), self.offsets)

    @property
    def splits_bits(self) -> bool:
        """Whether no bit of the base and of an offset coincide, so that shifts go through both."""
        return self.offsets is None or max(self.offsets) < self.align


Coords = tuple[Index, ...]


def fixed(value: int) -> Index:
    """The same known position for all lanes."""
    return Index(value, None, alignment(value))


def alignment(value: int) -> int:
    """The largest power of two that divides a number; a very large one for 0."""
    return value & -value if value else _NEVER_MISALIGNED


def is_vector(coords: Coords) -> bool:
    """Whether the positions are those of several lanes along some axis."""
    return any(index.offsets is not None for index in coords)


def lanes_in(coords: Coords) -> int:
    """The number of lanes; 0 for a single element."""
    return next((len(i.offsets) for i in coords if i.offsets is not None), 0)


def at_lane(coords: Coords, lane: int) -> list[tuple[Index, int]]:
    """Each index without lanes, and what one lane adds to it."""
    return [
        (Index(i.base, None, i.align), 0 if i.offsets is None else i.offsets[lane]) for i in coords
    ]
