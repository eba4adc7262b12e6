"""Loops over the elements of a shape, by vectors along one axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from math import prod
from typing import NamedTuple

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I32, I64
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import Coords, Index, Lane, fixed
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.row_ends import RowEnd, RowRange, rest_of_row
from tilewright.cpu.codegen.loops.row_pieces import RowPieces, loops_by_pieces
from tilewright.cpu.codegen.loops.row_spans import RowPart
from tilewright.cpu.codegen.loops.single_rows import SingleRows

#: Vectors of so many elements have several of indices, and are taken by so many shorter ones where some elements need checks.
_LONG_VECTOR, _SHORTER = 32, 8

Body = Callable[[LoopNest, Coords], None]
"""What a nest does with the elements at some positions."""


class Shape(NamedTuple):
    """The shape of a nest: its extents, the axis of vectors, their length, and how many an iteration handles; ``short``: it
    is written out; ``columns``: what has checks goes down columns of vectors."""

    dims: Sequence[int]
    axis: int
    width: int
    at_once: int
    short: bool
    columns: bool = False


def over(
    nest: LoopNest,
    shape: Shape,
    body: Body,
    limits: Sequence[Value | None],
    *,
    end: RowEnd | None = None,
    part: RowPart | RowPieces | RowRange | None = None,
    rows: SingleRows | None = None,
) -> None:
    """Run the body for all vectors of a shape; ``limits``, where there are checks: behind which nothing is to be done.
    ``end``, ``part``: where rows go without checks; ``rows``: what is to be asked of each."""
    dims, along, width, at_once, short, columns = shape
    if isinstance(part, RowPieces):
        loops_by_pieces(nest, dims, along, width, body, part)
    elif isinstance(part, RowRange):
        loops_by_row_range(nest, shape, body, part, limits)
    elif part is not None and short:
        written_out_by_parts(nest, dims, along, width, body, part)
    elif part is not None:
        limited = part.limited and not (columns or nest.in_words)
        narrow = width // _SHORTER if limited and width >= _LONG_VECTOR else 0
        _Parts(nest, dims, along, width, body, part, columns, narrow).make()
    elif short or (end is None and dims and prod(dims) <= at_once * width):
        written_out(dims, along, width, partial(body, nest))
    elif rows is not None and end is None:
        loops_by_rows(nest, dims, along, width, body, rows, limits if nest.masked else ())
    else:
        behind = limits if nest.masked or end else ()
        loops(nest, dims, along, width, at_once, body, behind, end)


def loops(
    nest: LoopNest,
    dims: Sequence[int],
    axis: int,
    lanes: int,
    unroll: int,
    body: Body,
    limits: Sequence[Value | None] = (),
    end: RowEnd | None = None,
) -> None:
    """Open loops over a shape, the one along ``axis`` last and by vectors, and run the body; ``limits``: behind
    which nothing is to be done along each axis; ``end``: only rows end there, and the rest of a row has a loop of its own."""
    coords: list[Index] = [fixed(0)] * len(dims)
    limits = limits or [None] * len(dims)
    for position, extent in enumerate(dims):
        if position != axis:
            coords[position] = nest.loop(extent, limit=limits[position] if end is None else None)
    if not dims:
        body(nest, ())
        return
    vectors = max(dims[axis] // lanes, 1)
    rounds = min(unroll, vectors) if end is None else end.step // lanes
    limit = limits[axis] if end is None else end.whole
    start = nest.loop(dims[axis], lanes * rounds, limit=limit)
    offsets = tuple(range(lanes)) if lanes > 1 else None

    def one(index: Index) -> None:
        coords[axis] = Index(index.base, offsets, index.align)
        body(nest, tuple(coords))

    for number in range(rounds):
        one(nest.shift(start, number * lanes))
    if end is not None:
        nest.close()
        one(rest_of_row(nest, dims[axis], end, lanes, limits[axis]))


@dataclass(slots=True)
class _Parts:
    """Loops over a shape whose rows need no checks in a part of them. ``columns``: what has checks goes down columns of vectors, so
    that lanes are looked at once for each; ``narrow``: how long vectors are that have checks of some elements, 0: as
    others; ``depth``: how many loops stay open behind a part."""

    nest: LoopNest
    dims: Sequence[int]
    axis: int
    lanes: int
    body: Body
    part: RowPart
    columns: bool
    narrow: int = 0
    coords: list[Index] = field(init=False)
    depth: int = 0

    def __post_init__(self) -> None:
        self.coords = [fixed(0)] * len(self.dims)

    def make(self) -> None:
        """Open loops, the one along ``axis`` last and by vectors, and run the body: first without checks for the part of each row that
        needs none, then with them for what is before it and behind it. What is behind it may need no other check than for
        where the row ends, and nothing may be read any more from some place on."""
        nest, part = self.nest, self.part
        depth = nest.depth
        self._over_rows()
        b, zero = nest.levels[0], ir.Constant(I64, 0)
        inside = b.sub(part.end, part.begin)
        others = b.sub(part.total if part.idle_from is None else part.idle_from, inside)
        if part.tail is not None:
            others = b.select(part.tail, part.begin, others)
        with nest.where(b.icmp_unsigned(">", inside, zero)):
            self._run(self._loop(inside), Lane(part.begin), masked=False)
        if self.narrow:
            self._others_by_elements(inside)
            return
        if part.tail is not None:
            rest = b.sub(part.total, part.end)
            with nest.where(b.and_(part.tail, b.icmp_signed(">", rest, zero))):
                self._run(self._loop(rest), Lane(part.end), masked=False, ends=True)
        if self.columns:
            while nest.depth > depth:
                nest.close()
            self.depth, b = nest.depth, nest.inner
        with nest.where(b.icmp_signed(">", others, zero)):
            start = self._loop(others)
            gap = _over_gap(nest, start, Lane(part.begin), Lane(inside))
            self._run(start, gap, masked=True)
        if part.idle_from is not None:
            b = nest.inner if self.columns else b
            rest = b.sub(part.total, part.idle_from)
            with nest.where(b.icmp_signed(">", rest, zero)):
                nest.idle = part.idle
                self._run(self._loop(rest), Lane(part.idle_from), masked=True)
                nest.idle = frozenset()

    def _others_by_elements(self, inside: Value) -> None:
        """Run the body for vectors of which a part needs checks: without them for the other elements, and with them, by shorter
        vectors, for that part."""
        nest, part, lanes, zero = self.nest, self.part, self.lanes, ir.Constant(I64, 0)
        others = nest.inner.sub(part.total, inside)
        assert part.first is not None and part.reached is not None
        with nest.where(nest.inner.icmp_signed(">", others, zero)):
            start = self._loop(others)
            index = nest.plus(start, _over_gap(nest, start, Lane(part.begin), Lane(inside)), lanes)
            b, at = nest.inner, nest.position(index).value
            end = llvm.intrinsic(b, "smin", [b.add(at, ir.Constant(I64, lanes)), part.total])
            ends: list[Value] = []
            for place in (part.first, part.reached):
                place = llvm.intrinsic(b, "smin", [place, end])
                ends.append(llvm.intrinsic(b, "smax", [place, ends[0] if ends else at]))
            with nest.where(b.icmp_signed("<", *ends)):
                nest.masked, nest.instead = False, part.instead
                self._some(index, lanes, ends)
            nest.masked, nest.instead = True, None
            rest = nest.inner.sub(end, at)
            inner = nest.loop(lanes, self.narrow, limit=rest)
            index = nest.plus(index, Lane(nest.position(inner).value, nest.depth), self.narrow)
            b, at = nest.inner, nest.position(index).value
            last = b.add(at, ir.Constant(I64, self.narrow))
            done = b.and_(b.icmp_signed("<=", ends[0], at), b.icmp_signed(">=", ends[1], last))
            with nest.where(b.not_(done)):
                self._some(index, self.narrow, ends, outside=True)
            while nest.depth > self.depth:
                nest.close()

    def _some(
        self, index: Index, lanes: int, ends: Sequence[Value], *, outside: bool = False
    ) -> None:
        """Run the body for the elements of a vector that lie between two places, or ``outside``."""
        nest = self.nest
        first, behind = (_before(nest, index, end, lanes) for end in ends)
        nest.on = nest.emit([first, behind], lambda b, x, y: b.and_(b.not_(x), y))
        if outside:
            nest.on = nest.emit([nest.on], lambda b, inside: b.not_(inside))
        self.coords[self.axis] = Index(index.base, tuple(range(lanes)), index.align)
        self.body(nest, tuple(self.coords))
        nest.on = None

    def _loop(self, limit: Value) -> Index:
        return self.nest.loop(self.dims[self.axis], self.lanes, limit=limit)

    def _over_rows(self) -> None:
        for position, extent in enumerate(self.dims):
            if position != self.axis:
                self.coords[position] = self.nest.loop(extent)
        self.depth = self.nest.depth

    def _run(self, start: Index, moved: Lane, *, masked: bool, ends: bool = False) -> None:
        """Run the body in a loop over vectors, from ``moved`` on, and close it; ``ends``: its lanes end with the row."""
        nest, lanes, before = self.nest, self.lanes, self.depth
        nest.masked, nest.instead = masked, None if masked else self.part.instead
        index = nest.plus(start, moved, lanes)
        nest.on = _before(nest, index, self.part.total, lanes) if ends else None
        self.coords[self.axis] = Index(index.base, tuple(range(lanes)), index.align)
        if self.columns and masked:
            self._over_rows()
        self.body(nest, tuple(self.coords))
        while nest.depth > before:
            nest.close()
        self.depth = before


def loops_by_row_range(
    nest: LoopNest,
    shape: Shape,
    body: Body,
    rows: RowRange,
    limits: Sequence[Value | None],
) -> None:
    """Run the body for all vectors of a shape: first without checks for the rows that need none, then with them for those before and
    behind. ``limits``: behind which nothing is to be done."""
    dims, along, lanes, at_once, *_ = shape
    part, axis, b, zero = rows.part, rows.axis, nest.inner, ir.Constant(I64, 0)
    limits = limits or [None] * len(dims)
    coords: list[Index] = [fixed(0)] * len(dims)
    begin, inside = Lane(part.begin), Lane(b.sub(part.end, part.begin))
    total = part.total
    if (limit := limits[axis]) is not None:
        total = llvm.intrinsic(b, "umin", [total, limit])

    def row(at: Index, rounds: int, limit: Value | None) -> None:
        coords[axis] = at
        start = nest.loop(dims[along], lanes * rounds, limit=limit)
        for number in range(rounds):
            index = nest.shift(start, number * lanes)
            coords[along] = Index(index.base, tuple(range(lanes)), index.align)
            body(nest, tuple(coords))
        while nest.depth:
            nest.close()

    with nest.where(b.icmp_signed(">", inside.value, zero)):
        nest.masked, nest.instead = False, part.instead
        start = nest.loop(dims[axis], limit=inside.value)
        row(nest.plus(start, begin), min(at_once, max(dims[along] // lanes, 1)), None)
    nest.masked, nest.instead = True, None
    others = nest.inner.sub(total, inside.value)
    with nest.where(nest.inner.icmp_signed(">", others, zero)):
        start = nest.loop(dims[axis], limit=others)
        row(nest.plus(start, _over_gap(nest, start, begin, inside)), 1, limits[along])


def loops_by_rows(
    nest: LoopNest,
    dims: Sequence[int],
    axis: int,
    lanes: int,
    body: Body,
    rows: SingleRows,
    limits: Sequence[Value | None],
) -> None:
    """Open loops over a shape, the one along ``axis`` last and by vectors, and run the body: first for the part of each row
    that turns out to need no checks, or fewer, then for what is before it and behind it. ``limits``: behind which nothing
    is to be done."""
    coords: list[Index] = [fixed(0)] * len(dims)
    limits = limits or [None] * len(dims)
    for position, extent in enumerate(dims):
        if position != axis:
            coords[position] = nest.loop(extent, limit=limits[position])
    offsets = tuple(range(lanes))
    b, depth, masked = nest.inner, nest.depth, nest.masked
    zero, behind = ir.Constant(I64, 0), limits[axis]
    begin, inside, total = (
        Lane(zero),
        Lane(zero),
        ir.Constant(I64, dims[axis]) if behind is None else behind,
    )
    step = lanes * rows.rounds

    def one(index: Index) -> None:
        coords[axis] = Index(index.base, offsets, index.align)
        body(nest, tuple(coords))

    if (found := rows.part(nest, dims, tuple(coords))) is not None:
        part, certain = found
        total = llvm.intrinsic(b, "umin", [total, part.total])
        begin = Lane(part.begin, depth)
        whole = b.sub(part.end, part.begin)
        inside = Lane(b.and_(whole, ir.Constant(I64, -step)), depth)
        with nest.where(b.icmp_signed(">", inside.value, zero)):
            nest.masked, nest.certain, nest.instead = False, certain, part.instead
            start = nest.plus(nest.loop(dims[axis], step, limit=inside.value), begin, lanes)
            for number in range(rows.rounds):
                one(nest.shift(start, number * lanes))
            nest.close()
        nest.masked, nest.certain, nest.instead = masked, frozenset(), None
        total = b.sub(total, inside.value)
    with nest.where(b.icmp_signed(">", total, zero)):
        start = nest.loop(dims[axis], lanes, limit=total)
        if found is not None:
            start = nest.plus(start, _over_gap(nest, start, begin, inside), lanes)
        one(start)
        nest.close()


def _over_gap(nest: LoopNest, start: Index, begin: Lane, size: Lane) -> Lane:
    """How many elements further a place lies if a gap of so many begins there, that loops before this one have done."""

    def make(b: Builder, at: Value, begin: Value, size: Value) -> Value:
        return b.select(b.icmp_unsigned("<", at, begin), ir.Constant(I64, 0), size)

    return nest.emit([nest.position(start), begin, size], make)


def _before(nest: LoopNest, index: Index, end: Value, lanes: int) -> Lane:
    """Which lanes of a vector lie before a place."""

    def make(b: Builder, at: Value) -> Value:
        left = b.trunc(b.sub(end, at), I32)
        return b.icmp_signed("<", llvm.int_lanes(range(lanes), I32), llvm.splat(b, left, lanes))

    return nest.emit([nest.position(index)], make)


def written_out_by_parts(
    nest: LoopNest, dims: Sequence[int], axis: int, lanes: int, body: Body, part: RowPart
) -> None:
    """Run the body for all vectors of a shape without loops, with checks where a vector is not in the part of a row that needs
    none."""

    def one(coords: Coords) -> None:
        at, b = coords[axis].base, nest.levels[0]
        assert isinstance(at, int)
        begins = b.icmp_unsigned("<=", part.begin, ir.Constant(I64, at))
        ends = b.icmp_unsigned(">=", part.end, ir.Constant(I64, at + lanes))
        nest.with_checks_unless(
            b.and_(begins, ends), lambda: body(nest, coords), instead=part.instead
        )

    written_out(dims, axis, lanes, one)


def written_out(dims: Sequence[int], axis: int, lanes: int, body: Callable[[Coords], None]) -> None:
    """Run the body for all vectors of a shape, the ones along ``axis`` first, without loops."""
    steps = [lanes if place == axis else 1 for place in range(len(dims))]
    offsets = tuple(range(lanes)) if lanes > 1 else None
    for place in product(*(range(0, n, step) for n, step in zip(dims, steps, strict=True))):
        coords = [fixed(number) for number in place]
        if dims:
            coords[axis] = Index(place[axis], offsets, coords[axis].align)
        body(tuple(coords))
