"""Rows in pieces: flat indices, whose quotients change along the row.

``flat // width`` is one number for ``width`` elements, and then the next. A row of such places is taken piece by piece: at the place where
a piece begins the quotients are computed once, with the place up to which they stay, and whole vectors up to there go without checks.
What is left of a piece has a mask, where memory is reached through pointers alone, and else the vector in which a piece ends is looked at
by its elements, as are pieces shorter than a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I32, I64
from tilewright.cpu.codegen.ir.types import Value
from tilewright.cpu.codegen.loops.indices import Coords, Index, Lane, fixed
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.row_spans import RowPart

#: Rows of fewer vectors are not taken in pieces.
FEWEST_VECTORS = 8


@dataclass(frozen=True, slots=True)
class RowPieces:
    """``part(nest, place)``: what needs no checks of a row around a place, asked where code of the innermost level goes."""

    part: Callable[[LoopNest, Value], RowPart]
    exact: bool = False
    """Whether lanes may be left out: all memory that is written, and all that is read but buffers, is behind pointers."""


def loops_by_pieces(
    nest: LoopNest,
    dims: Sequence[int],
    axis: int,
    lanes: int,
    body: Callable[[LoopNest, Coords], None],
    pieces: RowPieces,
) -> None:
    """Run the body for all vectors of the only row of a shape, piece by piece."""
    row = _Row(nest, [fixed(0)] * len(dims), axis, lanes, dims[axis], body)
    # A piece has a vector at least.
    nest.loop(dims[axis], lanes)
    place = nest.carried(ir.Constant(I64, 0))
    part = pieces.part(nest, place)
    following = (_exact_piece if pieces.exact else _whole_vectors)(row, part, place)
    done = nest.inner.icmp_signed(">=", following, part.total)
    nest.close([(place, following)], until=done)


@dataclass(frozen=True, slots=True)
class _Row:
    """The row of a nest, of ``extent`` elements, and what is done with its vectors."""

    nest: LoopNest
    coords: list[Index]
    axis: int
    lanes: int
    extent: int
    body: Callable[[LoopNest, Coords], None]

    def vector(self, index: Index) -> None:
        """Run the body for the vector that begins there."""
        self.coords[self.axis] = Index(index.base, tuple(range(self.lanes)), index.align)
        self.body(self.nest, tuple(self.coords))

    def vectors(self, part: RowPart, place: Value, count: Value, align: int) -> None:
        """Run it for all vectors of so many elements from a place on, which need no checks."""
        nest, depth = self.nest, self.nest.depth
        with self._without_checks(part):
            start = nest.loop(self.extent, self.lanes, limit=count)
            self.vector(nest.plus(start, Lane(place, depth), align))
            nest.close()

    def rest(self, part: RowPart, begin: Value, end: Value) -> None:
        """Run it for the elements between two places less than a vector apart, which need no checks."""
        with self._without_checks(part):
            self.some(begin, end)

    def some(self, begin: Value, end: Value) -> None:
        """Run it for the elements between two places, a vector at most: lanes before and behind them are off."""
        nest, b = self.nest, self.nest.inner
        last = ir.Constant(I64, self.extent - self.lanes)
        at = llvm.intrinsic(b, "smin", [begin, last])
        steps = llvm.int_lanes(range(self.lanes), I32)
        ends = (llvm.splat(b, b.trunc(b.sub(each, at), I32), self.lanes) for each in (begin, end))
        first, behind = ends
        on = b.and_(b.icmp_signed(">=", steps, first), b.icmp_signed("<", steps, behind))
        nest.on = Lane(on, nest.depth)
        self.vector(Index(Lane(at, nest.depth), None))
        nest.on = None

    @contextmanager
    def _without_checks(self, part: RowPart) -> Iterator[None]:
        nest, masked = self.nest, self.nest.masked
        nest.masked, nest.instead = False, part.instead
        yield
        nest.masked, nest.instead = masked, None


def _whole_vectors(row: _Row, part: RowPart, place: Value) -> Value:
    """Go to the end of a piece, which is in a vector that is looked at by its elements. Where the next one begins."""
    nest, lanes, b, zero = row.nest, row.lanes, row.nest.inner, ir.Constant(I64, 0)
    assert part.reached is not None
    inside = b.and_(b.icmp_unsigned("<=", part.begin, place), b.icmp_unsigned("<", place, part.end))
    behind = b.select(inside, part.end, place)
    with nest.where(inside):
        row.vectors(part, place, b.sub(part.end, place), lanes)
    ends = b.icmp_signed(">", part.reached, part.end)
    cut = b.and_(b.or_(b.not_(inside), ends), b.icmp_signed("<", behind, part.total))
    with nest.where(cut):
        row.vector(Index(Lane(behind, nest.depth), None, lanes))
    return b.add(behind, b.select(cut, ir.Constant(I64, lanes), zero))


def _exact_piece(row: _Row, part: RowPart, place: Value) -> Value:
    """Go to the end of a piece of a vector or more, or over the vector of elements from its place on. Where the next one begins."""
    nest, b, lanes = row.nest, row.nest.inner, ir.Constant(I64, row.lanes)
    assert part.first is not None and part.reached is not None
    end = llvm.intrinsic(b, "smin", [part.reached, part.total])
    inside = b.icmp_signed("<=", part.first, place)
    inside = b.and_(inside, b.icmp_signed(">=", b.sub(end, place), lanes))
    with nest.where(inside):
        count = b.sub(end, place)
        whole = b.and_(count, ir.Constant(I64, -row.lanes))
        row.vectors(part, place, whole, 1)
        b = nest.inner
        begin = b.add(place, whole)
        with nest.where(b.icmp_signed("<", begin, end)):
            row.rest(part, begin, end)
    b = nest.inner
    behind = llvm.intrinsic(b, "smin", [b.add(place, lanes), part.total])
    with nest.where(b.not_(inside)):
        row.some(place, behind)
    return nest.inner.select(inside, end, behind)
