"""Stages of networks (``analysis.networks``) in registers: all stages for one run of elements, then for the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from tilewright.cpu.codegen.loops.indices import Coords, Index, Lane
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import (
    Joined,
    Mapped,
    Strided,
    Tile,
    is_run,
    reshaped,
    store_at,
    walk,
)
from tilewright.cpu.codegen.loops.windows import moved, put_together, windows
from tilewright.numerics.strides import row_major

#: How many vectors are computed at once at least: a stage waits for the one before it.
_VECTORS = 4


@dataclass(frozen=True, slots=True, eq=False)
class Stage(Tile):
    """A joined tile of a network, of which whole vectors are computed, once each; lanes in another order are
    moved there in registers. Runs of ``run`` elements depend on nothing but the same run of the stage before."""

    source: Joined
    run: int
    row: Row = field(init=False)
    """The same elements as one row."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "row", Row(self.element, (prod(self.dims),), self.source))

    @property
    def sources(self) -> tuple[Tile, ...]:
        return (self.source,)

    def at(self, nest: LoopNest, coords: Coords) -> Lane:
        index = nest.linear(coords, row_major(self.dims))
        held = windows(index, prod(self.dims))
        if held is None:
            return nest.eval(self.source, coords)
        parts = [nest.eval(self.row, (window,)) for window in held]
        offsets = index.offsets or ()
        if len(held) == 1 and is_run(offsets):
            return parts[0]
        lanes = len(offsets)
        return nest.emit(
            [nest.widened(part, lanes) for part in parts],
            lambda b, *found: put_together(b, found, held, offsets),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Row(Tile):
    """A joined tile as one row. Vectors are put together of whole vectors of the two halves: what is computed
    with halves has no element twice, and lanes are moved once from stage to stage."""

    source: Joined
    whole: Tile = field(init=False)
    halves: tuple[Tile, Tile] = field(init=False)

    def __post_init__(self) -> None:
        source, (count,) = self.source, self.dims
        whole = Mapped(self.element, self.dims, source, reshaped(source.dims, self.dims))
        object.__setattr__(self, "whole", whole)
        halves = tuple(
            Mapped(self.element, (count // 2,), half, reshaped(half.dims, (count // 2,)))
            for half in (source.lhs, source.rhs)
        )
        object.__setattr__(self, "halves", halves)

    @property
    def sources(self) -> tuple[Tile, ...]:
        return (self.source,)

    def at(self, nest: LoopNest, coords: Coords) -> Lane:
        (index,) = coords
        offsets = index.offsets or (0,)
        lanes = len(offsets)
        step = prod(self.source.lhs.dims[self.source.axis :])
        if step >= lanes or lanes < 2 or 2 * lanes > self.dims[0] or index.align < 2 * lanes:
            return nest.eval(self.whole, coords)
        # Without the bit that tells the halves apart, pairs of vectors become one of each half.
        places = [offset // (2 * step) * step + offset % step for offset in offsets]
        start = places[0] // lanes * lanes
        base = nest.times(nest.high_bits(Index(index.base, None, index.align), 2 * step), step)
        window = Index(base.base, tuple(range(start, start + lanes)), index.align // 2)
        parts = [nest.widened(nest.eval(half, (window,)), lanes) for half in self.halves]
        order = [
            (offset // step % 2, place - start)
            for offset, place in zip(offsets, places, strict=True)
        ]
        return nest.emit(
            parts, lambda b, *found: moved(b, [(found[side], lane) for side, lane in order])
        )


def fill_by_runs(nest: LoopNest, target: Strided, last: Stage, lanes: int) -> None:
    """Write the last stage of a network to a dense buffer; the nest has no loops yet."""
    count = prod(last.dims)
    # Stages end at buffers. The first one is found last.
    stages = [tile for tile in walk(last) if isinstance(tile, Stage)]
    run = min(max(last.run, _VECTORS * lanes), count)
    start = nest.loop(count, run)
    places = range(0, run, lanes)
    for stage in reversed(stages):
        for place in places:
            offsets = tuple(range(place, place + lanes))
            nest.eval(stage.row, (Index(start.base, offsets, start.align),))
    for place in places:
        offsets = tuple(range(place, place + lanes))
        value = nest.vector(last.row, (Index(start.base, offsets, start.align),))
        at = nest.shift(start, place)
        there = Index(at.base, tuple(range(lanes)), at.align)
        store_at(nest, target.pointer, target.element, there, value)
    nest.close_all()
