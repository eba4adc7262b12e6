"""Rows that come together as many at once as vectors have lanes, instead of each lane by lane on its own.

Each row comes to a vector first, or is one. Neighbours of two vectors are combined to one, and so on, until one is left in which each
lane is a row. That takes one step for each row, where each row by itself takes as many as its lanes can be halved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.emitter.vector_lengths import widest_bits
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import Index
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import Strided, walk
from tilewright.cpu.codegen.reductions.combination import (
    Combination,
    elements_at,
    put_at,
    together,
)

REMARK = "as many short rows as vectors have lanes are reduced together"
#: How many tiles are read at most for short rows that are reduced together, once for each element of a row.
_MOST_IN_SQUARE = 400
#: Of how many bytes what is kept of rows is in the first cache with what they are read from, and of how many vectors a row comes to one
#: in so few steps that its lanes coming together would take as long.
_MOST_KEPT, _LONGEST_KEPT = 8 << 10, 16
#: Shorter rows are taken apart in registers; so many vectors of a row are combined lane by lane, written out.
_SHORTEST, _WRITTEN_OUT = 8, 4


def are_written_out(f: FunctionEmitter, combination: Combination, rest: tuple[int, ...]) -> bool:
    """Whether as many short rows as vectors have lanes are reduced together, written out."""
    extent, tiles = combination.dims[combination.axis], combination.tiles
    if not _are_enough(f, combination, rest, f.lanes(tiles, extent)):
        return False
    few = extent * len(list(walk(*tiles))) <= _MOST_IN_SQUARE
    return few and extent <= f.lanes(tiles, extent) * _WRITTEN_OUT


def come_together_later(
    f: FunctionEmitter, combination: Combination, rest: tuple[int, ...], lanes: int
) -> bool:
    """Whether what rows come to, lane by lane, is kept until as many of them as there are lanes come to numbers together."""
    if combination.neutral is None or not _are_enough(f, combination, rest, lanes):
        return False
    size = prod(rest) * lanes * max(element.buffer_bytes for element in combination.elements)
    return size <= _MOST_KEPT and combination.dims[combination.axis] <= lanes * _LONGEST_KEPT


def _are_enough(
    f: FunctionEmitter, combination: Combination, rest: tuple[int, ...], lanes: int
) -> bool:
    """Whether there are rows enough to have as many as lanes at once."""
    if not rest or combination.is_long or combination.chooses or lanes < _SHORTEST:
        return False
    return rest[-1] >= lanes and not (combination.has_floats and f.unit.reshapes_blocks)


def in_squares(
    f: FunctionEmitter,
    combination: Combination,
    rest: tuple[int, ...],
    targets: Sequence[Strided],
    masked: bool,
) -> list[Value]:
    """As many rows as vectors have lanes come to one vector each, and these to one in which each lane is what a row comes to."""
    nest = LoopNest(f.builder, masked=masked, work=f.now)
    extent = combination.dims[combination.axis]
    lanes = f.lanes(combination.tiles, extent)

    def in_lanes(row: Sequence[Index], place: Index) -> list[Value]:
        places = (nest.shift(place, number) for number in range(0, extent, lanes))
        parts = [elements_at(nest, combination, row, each) for each in places]
        return together(nest, combination, [value for part in parts for value in part])

    def in_order(row: Sequence[Index], place: Index) -> list[Value]:
        return elements_at(nest, combination, row, place)

    if combination.commutes:
        _combine(nest, combination, (*rest, lanes), lanes, targets, in_lanes)
    else:
        _combine(nest, combination, (*rest, extent), lanes, targets, in_order)
    return []


def from_lanes(
    f: FunctionEmitter,
    combination: Combination,
    rest: tuple[int, ...],
    kept: Sequence[Strided],
    targets: Sequence[Strided],
) -> None:
    """What rows come to, of what is kept of them lane by lane."""
    nest, lanes = LoopNest(f.builder, work=f.now), kept[0].dims[-1]

    def kept_at(row: Sequence[Index], place: Index) -> list[Value]:
        return [nest.vector(tile, (*row, place)) for tile in kept]

    _combine(nest, combination, (*rest, lanes), lanes, targets, kept_at)


def _combine(
    nest: LoopNest,
    combination: Combination,
    dims: tuple[int, ...],
    lanes: int,
    targets: Sequence[Strided],
    vector_at: Callable[[Sequence[Index], Index], list[Value]],
) -> None:
    """Combine the vectors of as many rows at once as these have lanes, neighbour with neighbour, to one with a number for each."""
    *outer, rows, extent = dims
    coords = [nest.loop(size) for size in outer]
    first = nest.loop(rows, lanes)

    def elements(at: Index) -> list[Value]:
        row = Index(nest.high_bits(at, extent).base, None, 1)
        return vector_at([*coords, row], nest.low_bits(at, extent))

    row = Row(nest, combination, lanes, elements)
    found = row.combined(nest.times(first, extent), extent, lanes)
    put_at(nest, targets, (*coords, row.vector(first)), found)
    nest.close_all()


@dataclass(frozen=True, slots=True)
class Row:
    """A row that is combined by vectors, neighbour with neighbour."""

    nest: LoopNest
    combination: Combination
    lanes: int
    elements: Callable[[Index], list[Value]]

    def vector(self, index: Index) -> Index:
        """As many places from one on as there are lanes."""
        return Index(index.base, tuple(range(self.lanes)) if self.lanes > 1 else None, index.align)

    def combined(self, base: Index, count: int, apart: int) -> list[Value]:
        """So many vectors, so far apart, as one: what each comes to in as many neighbouring lanes as there are for it."""
        # Lanes move within parts of 128 bits first, which takes one instruction; that leaves what becomes of each vector in
        # its place if there are as many as lanes.
        near = min(128 // max(widest_bits(self.combination.tiles), 8), self.lanes)

        def some(first: int, size: int) -> list[Value]:
            if size == 1:
                return self.elements(self.vector(self.nest.shift(base, first * apart)))
            half = size // 2
            sides = some(first, half), some(first + half, half)
            part = self.lanes if count != self.lanes else near if size <= near else -near
            b = self.nest.inner
            return self.combination.step(b, *_neighbours(b, *sides, part))

        return some(0, count)


def _neighbours(
    b: Builder, first: Sequence[Value], second: Sequence[Value], part: int
) -> tuple[list[Value], list[Value]]:
    """Every other lane of two vectors, part by part of so many lanes: those that come later, and those before them. Every
    other part where it is negative."""
    lanes = llvm.lanes_of(first[0].type)
    if part > 0:
        several = range(0, lanes, part)
        before = [
            vector + at + lane
            for at in several
            for vector in (0, lanes)
            for lane in range(0, part, 2)
        ]
        after = [lane + 1 for lane in before]
    else:
        parts = range(0, 2 * lanes, -2 * part)
        before = [at + lane for at in parts for lane in range(-part)]
        after = [lane - part for lane in before]
    pairs = list(zip(first, second, strict=True))
    later, earlier = (
        [llvm.shuffle(b, *pair, order) for pair in pairs] for order in (after, before)
    )
    return later, earlier
