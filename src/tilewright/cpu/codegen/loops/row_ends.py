"""Rows of tiles that end behind their arrays: whole vectors without checks, then the rest with them.

Kernels written for GPUs round the length of a row up to a power of two. Most vectors of such a tile lie inside its array
as a whole; only those around the end of the row need a mask, if all other axes are inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I64
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import (
    Coords,
    Index,
    Lane,
    alignment,
    fixed,
    lanes_in,
)
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.row_spans import RowPart, RowSpans, part_of_row
from tilewright.cpu.codegen.loops.tiles import (
    Elementwise,
    Loose,
    Mapped,
    PointerAccess,
    Range,
    Strided,
    Tile,
    Uniform,
    Written,
    guards,
    walk,
)
from tilewright.cpu.codegen.loops.value_ranges import Unknown, needs_free

Limits = Sequence[Value | None]
"""How many elements of a tile lie inside its array along each axis; None where all do."""

#: What is told of a nest that goes this way.
REMARK = (
    "where only rows end behind their array, whole vectors go without checks, the rest with them"
)
#: The same where accesses go through pointers.
PART_REMARK = (
    "vectors of a row that reach no end and no limit go without checks, the rest with them"
)
RANGE_REMARK = "of tiles at an edge, rows in which no mask is off go without checks"
PIECES_REMARK = "rows of flat indices go without checks in pieces within which their quotients stay"
#: What is told of reductions of padded rows in buffers.
PADDING_REMARK = "reductions end in the padding of rows where more of it changes nothing"
#: Rows of fewer vectors are not worth more code, of the first kind and of the second.
_FEWEST_VECTORS, _FEWEST_PARTS = 4, 2
_ANY = 1 << 62


@dataclass(frozen=True, slots=True)
class Into:
    """The memory that a nest writes to: ``non_temporal``: whether stores bypass the caches, where they may;
    ``limits``: behind which nothing is written, along each axis; ``loose``: where elements may lie at
    distances; ``strided``: whether there is code for such; ``ends``: the limits of each tile that is written, None where there
    is more to check; ``through``: the pointers of stores, if the guard asks nothing else; ``fits``: what holds where lanes follow the formulas of
    addresses; ``buffers``: those that are filled."""

    non_temporal: Value | None
    limits: Sequence[Value | None]
    loose: Sequence[Loose] = ()
    strided: bool = True
    ends: Sequence[Limits | None] = ()
    through: Sequence[PointerAccess] = ()
    fits: Sequence[Value] = ()
    buffers: Sequence[Strided] = ()

    def all_ends(self, guard: Sequence[Value]) -> list[Limits] | None:
        """The limits of what is written; None where something else is asked by the guard of the nest."""
        found = [limits for limits in self.ends if limits is not None]
        if len(found) < max(len(self.ends), len(guard)):
            return None
        return [*found, self.limits] if self.limits else found


@dataclass(frozen=True, slots=True)
class RowEnd:
    """``only``: whether nothing else ends behind its array than rows, which have more than ``step`` elements, what an
    iteration without checks takes. So many go there: ``whole``, a multiple of that, with one element left at least.
    ``same``: from which element on all are the same, as padding is; None where that is not known."""

    only: Value
    whole: Value
    step: int
    same: Value | None = None


@dataclass(frozen=True, slots=True)
class RowRange:
    """The rows of a tile, along an axis that is not that of vectors, of which a ``part`` needs no checks."""

    axis: int
    part: RowPart


@dataclass(slots=True)
class _Found:
    """What decides: conditions, and how far rows go."""

    builder: Builder
    along: list[Value] = field(default_factory=list)
    conditions: list[Value] = field(default_factory=list)
    seen: dict[tuple[int, ...], Coords] = field(default_factory=dict)
    """Where tiles have been looked at: operands are shared, so that looking again and again may never end."""
    spans: RowSpans | None = None
    """What accesses through pointers ask along the row, if that is looked at."""
    only_pointers: bool = True
    """Whether nothing else reads memory than these, and buffers."""

    def add(self, limits: Limits, dims: Sequence[int], coords: Coords, row: Index) -> None:
        """A tile in memory, read or written at these positions; ``row``: those along the vectors."""
        for limit, extent, index in zip(limits, dims, coords, strict=True):
            if limit is None:
                continue
            if index is row:
                self.along.append(limit)
            else:
                whole = ir.Constant(I64, extent)
                self.conditions.append(self.builder.icmp_unsigned(">=", limit, whole))

    def visit(self, tile: Tile, coords: Coords, row: Index) -> None:
        """A tile that is read. What is not understood must need no checks at all."""
        key = (id(tile), *map(id, coords))
        if key in self.seen:
            return
        self.seen[key] = coords
        if isinstance(tile, Mapped):
            inner = tile.mapping(LoopNest(self.builder), coords)
            if inner is not None:
                self.visit(tile.source, inner, row)
                return
        elif isinstance(tile, Elementwise | Written):
            for source in tile.sources:
                self.visit(source, coords, row)
            return
        elif self.spans is not None and tile.through_pointers is not None:
            self.access(tile.through_pointers, coords)
            for source in tile.sources:
                self.visit(source, coords, row)
            return
        elif tile.limits is not None:
            self.only_pointers = False
            self.add(tile.limits, tile.dims, coords, row)
            for source in tile.sources:
                self.visit(source, coords, row)
            return
        self.only_pointers &= isinstance(tile, Range | Strided | Uniform)
        self.conditions += guards(tile)

    def access(self, access: PointerAccess, coords: Coords) -> None:
        """An access through pointers at these positions. Raises ``Unknown`` where no formula tells what it asks."""
        assert self.spans is not None
        if access.guard is None:
            self.only_pointers = False
        else:
            self.spans.coords = coords
            key = id(access.pointers), id(access.whole_mask)
            self.spans.read(key, access.pointers, access.mask)


@dataclass(frozen=True, slots=True)
class Rows:
    """What a nest reads (``tiles``) and writes, to views with these limits (``written``) and ``through`` pointers; its extents, the axis
    of vectors, and their length (``width``)."""

    tiles: Sequence[Tile]
    written: Sequence[Limits]
    through: Sequence[PointerAccess]
    dims: Sequence[int]
    axis: int
    width: int

    @property
    def are_short(self) -> bool:
        """Whether rows have fewer vectors than are worth more code."""
        vectors = self.dims[self.axis] // self.width if self.dims else 0
        return self.width == 1 or vectors < _FEWEST_PARTS

    @property
    def reach_limits(self) -> bool:
        """Whether lanes of some access through pointers follow a pattern only where no limit is reached."""
        read = [tile.through_pointers for tile in walk(*self.tiles)]
        found = (each for each in (*read, *self.through) if each is not None)
        return any(needs_free(each.pointers) for each in found)


def row_part(b: Builder, rows: Rows, place: tuple[Value, int] | None = None) -> RowPart | None:
    """Where rows need no checks, by the formulas of what is read and written through pointers; None where they do not tell, or nothing
    asks for checks along the row. ``place``: around which, known within so many loops; None: the middle."""
    if rows.are_short:
        return None
    where, level = (None, 0) if place is None else place
    spans = partial(RowSpans, place=where, level=level)
    part = _part(b, rows, rows.axis, rows.width, spans)
    if part is None:
        return None
    return replace(part, limited=part.exact and rows.reach_limits)


def rows_inside(b: Builder, rows: Rows) -> RowRange | None:
    """Which rows of several vectors need no checks at all, of a shape with one long axis beside that of vectors; None where there is
    none such, where formulas do not tell, and where all rows need the same."""
    others = [at for at, extent in enumerate(rows.dims) if extent > 1 and at != rows.axis]
    if len(others) != 1 or rows.are_short:
        return None
    spans = partial(RowSpans, ranges=True, patterns=rows.reach_limits)
    part = _part(b, rows, others[0], 1, spans)
    return None if part is None else RowRange(others[0], part)


def _part(
    b: Builder, rows: Rows, axis: int, width: int, make: Callable[..., RowSpans]
) -> RowPart | None:
    dims = rows.dims
    coords = tuple(Index(0, None, _ANY) for _ in dims)
    row = coords[axis]
    others = [index for index in coords if index is not row]
    spans = make(b, row=row, axes=others, extent=dims[axis])
    found = _Found(b, spans=spans)
    try:
        for access in rows.through:
            spans.coords = coords
            if access.guard is None:
                spans.store_anywhere()
            else:
                spans.store(access.pointers, access.mask)
        for tile in rows.tiles:
            found.visit(tile, coords, row)
    except Unknown:
        return None
    if not spans.begins and not spans.ends:
        return None
    for limits in rows.written:
        found.add(limits, dims, coords, row)
    tail = found.only_pointers
    part = part_of_row(b, spans, found.along, found.conditions, width, tail=tail)
    return replace(part, only_pointers=tail, exact=tail and bool(rows.through))


def end_of_part(b: Builder, part: RowPart, extent: int, width: int, rounds: int) -> RowEnd:
    """The end of rows of so many elements of which a part needs no checks, if that begins with the row. Vectors have ``width``
    elements, ``rounds`` of them are an iteration."""
    step = width * min(rounds, extent // width // 2)
    size = ir.Constant(I64, step)
    begins = b.icmp_unsigned("==", part.begin, ir.Constant(I64, 0))
    only = b.and_(begins, b.icmp_unsigned(">", part.end, size))
    last = b.sub(part.end, ir.Constant(I64, 1))
    return RowEnd(only, b.sub(last, b.urem(last, size)), step)


def row_end(
    b: Builder,
    tiles: Sequence[Tile],
    written: Sequence[Limits],
    dims: Sequence[int],
    axis: int,
    width: int,
    rounds: int,
) -> RowEnd | None:
    """Where rows of a shape end that tiles are read for, and that are written to tiles with these limits; None where that
    is not worth asking. Vectors have ``width`` elements, ``rounds`` of them are an iteration."""
    vectors = dims[axis] // width if dims else 0
    if width == 1 or vectors < _FEWEST_VECTORS:
        return None
    step = width * min(rounds, vectors // 2)
    coords = tuple(Index(0, None, _ANY) for _ in dims)
    found = _Found(b)
    for tile in tiles:
        found.visit(tile, coords, coords[axis])
    for limits in written:
        found.add(limits, dims, coords, coords[axis])
    if not found.along:
        return None
    least: Value = ir.Constant(I64, dims[axis])
    for limit in found.along:
        least = llvm.intrinsic(b, "umin", [least, limit])
    size = ir.Constant(I64, step)
    only = llvm.all_of(b, [b.icmp_unsigned(">", least, size), *found.conditions])
    assert only is not None
    last = b.sub(least, ir.Constant(I64, 1))
    return RowEnd(only, b.sub(last, b.urem(last, size)), step, same_from(b, tiles, dims, axis))


def row_padding(
    b: Builder, tiles: Sequence[Tile], dims: Sequence[int], axis: int, width: int, rounds: int
) -> RowEnd | None:
    """Where the padding of rows begins that buffers hold, which need no checks; None where that is not known, or not worth asking.
    Vectors have ``width`` elements, ``rounds`` of them are an iteration."""
    vectors = dims[axis] // width if dims else 0
    padded = any(isinstance(tile, Strided) and tile.same_from is not None for tile in walk(*tiles))
    if width == 1 or vectors < _FEWEST_VECTORS or not padded:
        return None
    step = width * min(rounds, vectors // 2)
    same = same_from(b, tiles, dims, axis)
    if same is None:
        return None
    most, size = ir.Constant(I64, dims[axis] - step), ir.Constant(I64, step)
    only = b.and_(b.icmp_unsigned(">=", same, size), b.icmp_unsigned("<=", same, most))
    return RowEnd(only, b.sub(same, b.urem(same, size)), step, same)


def same_from(b: Builder, tiles: Sequence[Tile], dims: Sequence[int], axis: int) -> Value | None:
    """From which place of a row on all elements of each tile are the same; None where that is not known."""
    row = Index(Lane(ir.Constant(I64, 0)), (0, 1))
    limits: list[Value] = []
    seen: set[tuple[int, ...]] = set()
    pending = [
        (tile, tuple(row if n == axis else fixed(0) for n in range(len(dims)))) for tile in tiles
    ]
    kept = list(pending)
    while pending:
        tile, coords = pending.pop()
        if (key := (id(tile), *map(id, coords))) in seen or not lanes_in(coords):
            continue
        seen.add(key)
        sources = [(source, coords) for source in tile.sources]
        if isinstance(tile, Mapped):
            inner = tile.mapping(LoopNest(b), coords)
            if inner is None:
                return None
            sources = [(tile.source, inner)]
        elif tile.limits is not None:
            ends = [end for end, index in zip(tile.limits, coords, strict=True) if index is row]
            if len(ends) != 1 or ends[0] is None or sum(i.offsets is not None for i in coords) > 1:
                return None
            limits.append(ends[0])
        elif isinstance(tile, Strided) and tile.same_from is not None:
            if coords[-1] is not row or any(index.offsets for index in coords[:-1]):
                return None
            limits.append(tile.same_from)
        elif not isinstance(tile, Elementwise | Uniform | Written):
            return None
        kept += sources
        pending += sources
    most: Value = ir.Constant(I64, 0)
    for limit in limits:
        most = llvm.intrinsic(b, "umax", [most, limit])
    return most


def rest_of_row(nest: LoopNest, extent: int, end: RowEnd, width: int, limit: Value | None) -> Index:
    """Open the loop over the vectors that are left, which have checks; ``limit``: behind which nothing is to be done."""
    nest.masked = True
    total = ir.Constant(I64, extent) if limit is None else limit
    left = nest.emit([], lambda b: b.sub(total, end.whole))
    start = nest.loop(extent, width, limit=left.value)
    return nest.plus(start, Lane(end.whole), alignment(end.step))
