"""Rows that numbers from memory tell where to find, as those of a table: each is looked at when its loop begins.

No formula says where all rows of such a tile lie, or whether they are in their array. Along one of them it is only the column
that changes: what the numbers of the row are is known by then, and whole vectors go without checks from one column to another,
as in rows of which formulas tell (``loops.row_spans``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from llvmlite import ir

from tilewright.cpu.codegen.ir.elements import I64
from tilewright.cpu.codegen.ir.types import Value
from tilewright.cpu.codegen.loops.indices import Coords, Index, Lane, lanes_in
from tilewright.cpu.codegen.loops.lane_strides import along_last
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.row_spans import RowPart, RowSpans, part_of_row
from tilewright.cpu.codegen.loops.tiles import (
    Elementwise,
    Mapped,
    PointerAccess,
    Tile,
    Uniform,
    Written,
    guards,
    walk,
)
from tilewright.cpu.codegen.loops.value_ranges import (
    Span,
    Unknown,
    bits_of,
)

REMARK = (
    "rows that numbers from memory choose: vectors that reach no end of theirs go without checks"
)
#: Rows of fewer vectors are not worth looking at.
_FEWEST_VECTORS = 4

Limits = Sequence[Value | None]


@dataclass(frozen=True, slots=True)
class SingleRows:
    """What a nest reads, and writes ``through`` pointers, with the limits of views that it writes to."""

    tiles: Sequence[Tile]
    through: Sequence[PointerAccess]
    ends: Sequence[Limits]
    axis: int
    width: int
    rounds: int

    def part(
        self, nest: LoopNest, dims: Sequence[int], coords: Coords
    ) -> tuple[RowPart, frozenset[tuple[int, int]]] | None:
        """Where the row at these positions, along ``axis``, needs no checks, and the accesses through pointers that are certain
        there (``LoopNest``); None where there are none."""
        row = Index(Lane(ir.Constant(I64, 0)), tuple(range(self.width)))
        at = tuple(row if axis == self.axis else index for axis, index in enumerate(coords))
        found = _Found(nest, row, dims[self.axis])
        try:
            for access in self.through:
                found.store(access, at)
            for tile in self.tiles:
                found.visit(tile, at)
            for limits in self.ends:
                found.limit(limits, at)
        except Unknown:
            return None
        if not found.certain:
            return None
        part = part_of_row(nest.inner, found.spans, found.along, (), self.width, tail=False)
        return part, frozenset(found.certain)


def single_rows(
    tiles: Sequence[Tile],
    through: Sequence[PointerAccess],
    ends: Sequence[Limits] | None,
    shape: tuple[Sequence[int], int, int],
    rounds: int,
) -> SingleRows | None:
    """What to ask of each row of a nest of this shape (extents, the axis of vectors, their length), so many of which are an
    iteration without checks; None where nothing needs it, and where rows are short. ``ends``: the
    limits of views that are written to, None where there is more to check."""
    dims, axis, width = shape
    if ends is None or width == 1 or not dims:
        return None
    if dims[axis] // width < _FEWEST_VECTORS:
        return None
    accesses = [tile.through_pointers for tile in walk(*tiles)]
    if not any(each is not None and asks_rows(each) for each in (*accesses, *through)):
        return None
    return SingleRows(tiles, through, ends, axis, width, min(rounds, dims[axis] // width // 2))


def asks_rows(access: PointerAccess) -> bool:
    """Whether an access of which no formula tells asks something of each vector, though these follow a formula."""
    if not access.asks:
        return False
    strides = along_last(access.pointers, frozenset())
    return strides is not None and (access.whole_mask is not None or not strides.exact)


@dataclass(slots=True)
class _RowSpans(RowSpans):
    """Spans along one row, of whose other positions numbers are known."""

    nest: LoopNest = field(default_factory=lambda: LoopNest(None))

    def positions(self) -> LoopNest:
        return self.nest

    def _compute(self, tile: Tile) -> Span:
        if lanes_in(self.coords) or isinstance(tile, Uniform):
            return RowSpans._compute(self, tile)
        return self.uniform(self.nest.eval(tile, self.coords).value, bits_of(tile))

    def quotient(self, tile: Tile, number: Value) -> Tile | None:
        """None: it is known in the nest."""
        return None

    def all_on(self, mask: Tile) -> None:
        """Add conditions under which a mask is on. Raises ``Unknown`` where no formula tells."""
        if lanes_in(self.coords):
            RowSpans.all_on(self, mask)
        else:
            self.conditions.append(self.nest.eval(mask, self.coords).value)


class _Found:
    """What decides on one row: its spans, how far views go, and under which conditions."""

    def __init__(self, nest: LoopNest, row: Index, extent: int) -> None:
        self.nest, self.row = nest, row
        self.spans = _RowSpans(nest.inner, row=row, extent=extent, nest=nest)
        self.along: list[Value] = []
        self.certain: set[tuple[int, int]] = set()
        self._seen: set[tuple[int, ...]] = set()
        self._kept: list[Coords] = []

    def visit(self, tile: Tile, coords: Coords) -> None:
        """A tile that is read at these positions. Raises ``Unknown`` where it needs checks of which nothing tells."""
        key = (id(tile), *map(id, coords))
        if key in self._seen:
            return
        self._seen.add(key)
        self._kept.append(coords)
        if not lanes_in(coords):
            # With the checks that it needs; it is not read again.
            self.nest.eval(tile, coords)
            return
        if isinstance(tile, Mapped):
            inner = tile.mapping(self.nest, coords)
            if inner is None:
                self._need(guards(tile))
            else:
                self.visit(tile.source, inner)
            return
        if tile.through_pointers is not None:
            self._access(tile.through_pointers, coords)
        elif tile.limits is not None:
            self.limit(tile.limits, coords)
        elif not isinstance(tile, Elementwise | Written):
            self._need(guards(tile))
            return
        for source in tile.sources:
            self.visit(source, coords)

    def _need(self, conditions: Sequence[Value]) -> None:
        """Conditions of tiles that need no checks then."""
        if self.nest.masked:
            self.spans.conditions += conditions

    def limit(self, limits: Limits, coords: Coords) -> None:
        """A tile in memory that ends there. Raises ``Unknown`` for positions that are neither the row's nor known."""
        if not self.nest.masked:
            return
        for limit, index in zip(limits, coords, strict=True):
            if limit is None:
                continue
            if index is self.row:
                self.along.append(limit)
            elif index.offsets is None:
                place = self.nest.position(index)
                self._need([self.nest.inner.icmp_unsigned("<", place.value, limit)])
            else:
                raise Unknown

    def store(self, access: PointerAccess, coords: Coords) -> None:
        """What is written through pointers, before all else."""
        if not self._look(access, coords, self.spans.store):
            self.spans.store_anywhere()

    def _access(self, access: PointerAccess, coords: Coords) -> None:
        off = list(self.spans.off)
        self._look(access, coords, self.spans.access)
        self.spans.off = off

    def _look(
        self, access: PointerAccess, coords: Coords, ask: Callable[[Tile, Tile | None], None]
    ) -> bool:
        """What an access asks; one whose elements ask goes on so where no formula tells. Raises ``Unknown`` for others. Whether
        it is known then."""
        spans, needed = self.spans, self.nest.masked and access.guard is not None
        if not access.asks and not needed:
            return False
        before = [list(each) for each in (spans.begins, spans.ends, spans.off, spans.exact)]
        spans.coords = coords
        if spans.attempt(lambda: ask(access.pointers, access.whole_mask)):
            self.certain.add((id(access.pointers), id(access.whole_mask)))
            return True
        if needed:
            raise Unknown
        spans.begins, spans.ends, spans.off, spans.exact = before
        return False
