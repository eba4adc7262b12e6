"""Scans.

Along an inner axis the elements of one row are spread over lanes, some neighbours to each; along an outer axis each lane is a row of
its own. Elements keep their order, in groups as associativity allows. Only elements are combined; the operation's identities
take no part, as on all machines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from llvmlite import ir

from tilewright.cpu.codegen.analysis import cost_model
from tilewright.cpu.codegen.emitter.function import FunctionEmitter, vector_axis
from tilewright.cpu.codegen.emitter.table import lowers
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I1, element_of
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import Coords, Index, fixed
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.over_shapes import loops
from tilewright.cpu.codegen.loops.tiles import (
    Elementwise,
    Mapped,
    Range,
    Strided,
    Tile,
    Uniform,
    walk,
)
from tilewright.cpu.codegen.reductions.combination import (
    Combination,
    combination_of,
    elements_at,
    put_at,
    with_axis,
)
from tilewright.cpu.codegen.reductions.scalar_bodies import combine_each
from tilewright.cpu.codegen.reductions.turned import Turned
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa.base import is_set
from tilewright.dialects.nv_tileaa.ops.contraction import ScanOp

#: How many neighbours of a row each lane takes at once: with more of them registers are used up.
_NEIGHBOURS = 4
#: How many vectors of columns stay in registers, and how many rows are gone along at once where there are more of them.
_AT_ONCE, _ROWS_AT_ONCE = 8, 4
#: What elements are made of that are computed from their places alone.
_COMPUTED = (Uniform, Range, Elementwise, Mapped)


@lowers("scan")
def scan(f: FunctionEmitter, op: ScanOp) -> None:
    """Running results along an axis, from its end where it is reversed; in the order of the elements."""
    reverse = is_set(op, "reverse")
    if not cost_model.is_body_of_elements(op):
        combine_each(f, op, int_property(op, "axis"), reverse=reverse)
        return
    tiles = f.read_once(op)
    dims, axis = tiles[0].dims, int_property(op, "axis")
    targets = [
        f.buffer(element_of(result.type), dims, f.plan.last_use(result)) for result in op.results
    ]
    inner = all(extent == 1 for extent in dims[axis + 1 :])
    along = inner and f.lanes(tiles, dims[axis]) > 1
    combination = combination_of(f, op, tiles, by_keys=along)
    make = _scan_along if along else _scan_across

    def one(masked: bool) -> list[Value]:
        make(f, combination, targets, reverse, masked)
        return []

    f.versions_for(combination.tiles, one)
    for target, result in zip(targets, op.results, strict=True):
        f.values[result] = target
    f.settle()


def _reversed(nest: LoopNest, index: Index, last: int) -> Index:
    """``last - index``."""
    if isinstance(index.base, int):
        return fixed(last - index.base)
    from_end = nest.emit([index.base], lambda b, v: b.sub(ir.Constant(v.type, last), v))
    return Index(from_end, None, 1)


def _scan_across(
    f: FunctionEmitter,
    combination: Combination,
    targets: Sequence[Strided],
    reverse: bool,
    masked: bool,
) -> None:
    """Each lane is a row of its own."""
    nest = LoopNest(f.builder, masked=masked, work=f.now)
    extent, axis = combination.dims[combination.axis], combination.axis
    rest = tuple(e for at, e in enumerate(combination.dims) if at != axis)
    along = vector_axis(rest)
    lanes = f.lanes(combination.tiles, rest[along] if rest else 1)
    at_once = max(_AT_ONCE // len(targets), 1)

    def at(coords: Coords, index: Index) -> Coords:
        return with_axis(coords, axis, _reversed(nest, index, extent - 1) if reverse else index)

    def step(coords: Coords, index: Index, state: Sequence[Value] | None) -> list[Value]:
        found = [nest.vector(tile, at(coords, index)) for tile in combination.tiles]
        if state is not None:
            found = combination.step(nest.inner, found, state, in_order=combination.chooses)
        put_at(nest, targets, at(coords, index), found)
        return found

    if rest and along >= axis and rest[along] > at_once * lanes:
        several = 1 if combination.is_long else _ROWS_AT_ONCE
        _by_rows(nest, (rest, along, lanes), (extent, min(several, extent)), targets, at, step)
        return

    def columns(nest: LoopNest, several: Sequence[Coords]) -> None:
        state = [step(coords, fixed(0), None) for coords in several]
        if extent == 1:
            return
        depth = nest.depth
        index = nest.shift(nest.loop(extent - 1), 1)
        looped = nest.depth > depth
        before: list[list[Any]] = state
        if looped:
            before = [[nest.carried(value) for value in values] for values in state]
        after = [step(coords, index, held) for coords, held in zip(several, before, strict=True)]
        if looped:
            nest.close(list(zip(chain(*before), chain(*after), strict=True)))

    batch: list[Coords] = []

    def collect(inner: LoopNest, coords: Coords) -> None:
        batch.append(coords)
        if len(batch) == rounds:
            columns(inner, batch)

    rounds = min(at_once, max(rest[along] // lanes, 1)) if rest else 1
    loops(nest, rest, along, lanes, rounds, collect)
    nest.close_all()


def _by_rows(
    nest: LoopNest,
    shape: tuple[tuple[int, ...], int, int],
    rows: tuple[int, int],
    targets: Sequence[Strided],
    at: Callable[[Coords, Index], Coords],
    step: Callable[[Coords, Index, Sequence[Value] | None], list[Value]],
) -> None:
    """Some steps are made along whole rows of memory, from one end to the other, before the next ones: what they begin with
    is read from the targets. ``rows``: how many there are, and at once."""
    (rest, along, lanes), (extent, several) = shape, rows
    coords = [nest.loop(n) if axis != along else fixed(0) for axis, n in enumerate(rest)]
    run = tuple(range(lanes)) if lanes > 1 else None

    def group(first: Index, *, begins: bool) -> None:
        column = nest.loop(rest[along], lanes)
        coords[along] = Index(column.base, run, column.align)
        here = tuple(coords)
        state: Sequence[Value] | None = None
        if not begins:
            last = at(here, nest.shift(first, -1))
            state = [nest.vector(target, last) for target in targets]
        for number in range(several):
            state = step(here, nest.shift(first, number), state)
        nest.close()

    group(fixed(0), begins=True)
    if several < extent:
        depth = nest.depth
        first = nest.loop(extent - several, several)
        group(nest.shift(first, several), begins=False)
        if nest.depth > depth:
            nest.close()
    nest.close_all()


def _scan_along(
    f: FunctionEmitter,
    combination: Combination,
    targets: Sequence[Strided],
    reverse: bool,
    masked: bool,
) -> None:
    """Lanes share a row, which is taken block by block."""
    nest = LoopNest(f.builder, masked=masked, work=f.now)
    extent = combination.dims[combination.axis]
    lanes = f.lanes(combination.tiles, extent)
    neighbours = 1 if combination.is_long else _NEIGHBOURS
    count = min(neighbours, lanes, extent // lanes)
    widest = max(*(element.lanes_bits for element in combination.elements), 8)
    part = min(128 // widest, lanes)
    if combination.is_cheap:
        # One instruction costs no more than moving lanes further than within 128 bits.
        count = min(count, part)
    turned = Turned(lanes, count, part)
    size = lanes * count
    rest = tuple(e for axis, e in enumerate(combination.dims) if axis != combination.axis)
    coords = [nest.loop(size) for size in rest]
    blocks = _Blocks(nest, combination, targets, coords, turned, reverse)
    done, state = 0, blocks.begin()
    if state is None:
        # What comes first is combined with nothing.
        done, state = size, blocks.block(fixed(0), None)
    if done < extent:
        depth = nest.depth
        base = nest.loop(extent - done, size)
        looped = nest.depth > depth
        carried: list[Any] = [nest.carried(value) for value in state] if looped else state
        following = blocks.block(nest.shift(base, done), carried)
        if looped:
            nest.close(list(zip(carried, following, strict=True)))
    nest.close_all()


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Blocks of a row: vectors that are turned, so that each lane holds neighbours; these are combined one after the other, then
    lanes with lanes, and what comes before each lane goes to all that it holds."""

    nest: LoopNest
    combination: Combination
    targets: Sequence[Strided]
    coords: Sequence[Index]
    turned: Turned
    reverse: bool

    @property
    def order(self) -> list[int]:
        """Where each lane stands in the order of the scan."""
        order, lanes = self.turned.order, self.turned.lanes
        return [lanes - 1 - number for number in order] if self.reverse else order

    def begin(self) -> list[Value] | None:
        """What may stand before a row, in all lanes; None where nothing may. What selects may meet its first element again."""
        combination, lanes = self.combination, self.turned.lanes
        if combination.neutral is not None:
            return combination.start(lanes)
        if not combination.chooses:
            return None
        first = elements_at(self.nest, combination, self.coords, self._place(fixed(0), 1))
        return [llvm.splat(self.nest.inner, value, lanes) for value in first]

    def block(self, base: Index, state: Sequence[Value] | None) -> list[Value]:
        """Scan a block, behind all that comes to ``state``; what all comes to then, in every lane."""
        b, combination, order = self.nest.inner, self.combination, self.order
        lanes, count = self.turned.lanes, self.turned.count
        place = self._place(base, lanes * count)
        held = [self._turned(tile, place) for tile in combination.tiles]
        # Each in turn, the values of all operands; from here on in the order in which they are combined.
        steps = [list(values) for values in zip(*held, strict=True)]
        if self.reverse:
            steps.reverse()
        for number in range(1, count):
            steps[number] = self._step(steps[number], steps[number - 1])
        sums = self._over_lanes(steps[-1])
        # What the next block begins with, by a combination of its own: from block to block only combinations wait for one
        # another, and no lanes that move.
        last = [order.index(lanes - 1)] * lanes
        following = [llvm.shuffle(b, value, value, last) for value in sums]
        if state is not None:
            following, sums = self._step(following, state), self._step(sums, state)
        before = _before_each(b, sums, sums if state is None else state, order)
        first = llvm.int_lanes([int(not number) for number in order], I1)
        for number, values in enumerate(steps[:-1]):
            found = self._step(values, before)
            if state is None:
                found = [b.select(first, *pair) for pair in zip(values, found, strict=True)]
            steps[number] = found
        steps[-1] = sums
        if self.reverse:
            steps.reverse()
        results = [self.turned.back(b, vectors) for vectors in zip(*steps, strict=True)]
        for number, values in enumerate(zip(*results, strict=True)):
            found = combination.finished(b, values)
            put_at(self.nest, self.targets, self._at(place, number), found)
        return following

    def _place(self, base: Index, size: int) -> Index:
        """Where so many elements lie of which the scan reaches the first one after a number of others."""
        if not self.reverse:
            return base
        back = _reversed(self.nest, base, self.combination.dims[self.combination.axis] - size)
        return Index(back.base, None, min(base.align, size))

    def _at(self, place: Index, number: int) -> Coords:
        """The places of one vector of a block."""
        lanes = self.turned.lanes
        moved = self.nest.shift(place, number * lanes)
        index = Index(moved.base, tuple(range(lanes)), moved.align)
        return with_axis(self.coords, self.combination.axis, index)

    def _turned(self, tile: Tile, place: Index) -> list[Value]:
        """The elements of a block, turned; those that are computed from where they stand at once in this order."""
        turned, numbers = self.turned, range(self.turned.count)
        if not all(isinstance(source, _COMPUTED) for source in walk(tile)):
            loaded = [self.nest.vector(tile, self._at(place, number)) for number in numbers]
            return turned.turn(self.nest.inner, loaded)
        offsets = (tuple(run * turned.count + number for run in turned.order) for number in numbers)
        indices = [Index(place.base, each, place.align) for each in offsets]
        axis = self.combination.axis
        return [self.nest.vector(tile, with_axis(self.coords, axis, index)) for index in indices]

    def _step(self, elements: Sequence[Value], state: Sequence[Value]) -> list[Value]:
        in_order = self.combination.chooses
        return self.combination.step(self.nest.inner, elements, state, in_order=in_order)

    def _over_lanes(self, values: list[Value]) -> list[Value]:
        """Each lane combined with all before it."""
        b, order, distance = self.nest.inner, self.order, 1
        while distance < len(order):
            # The upper half of each group with the last one of the lower half.
            source = [order.index((number | distance) - number % distance - 1) for number in order]
            has = llvm.int_lanes([int(bool(number & distance)) for number in order], I1)
            combined = self._step(values, [llvm.shuffle(b, v, v, source) for v in values])
            values = [b.select(has, c, v) for c, v in zip(combined, values, strict=True)]
            distance *= 2
        return values


def _before_each(
    b: Builder, sums: Sequence[Value], state: Sequence[Value], order: list[int]
) -> list[Value]:
    """What lies before each lane: what comes to the lane before it, and for the first one what comes before all."""
    lanes = len(order)
    source = [order.index(n - 1) if n else lanes + lane for lane, n in enumerate(order)]
    return [llvm.shuffle(b, *pair, source) for pair in zip(sums, state, strict=True)]
