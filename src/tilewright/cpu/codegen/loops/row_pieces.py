"""Rows in pieces: flat indices, whose quotients change along the row.

``flat // width`` is one number for ``width`` elements, and then the next. A row of such places is taken piece by piece: at the place where
a piece begins the quotients are computed once, with the place up to which they stay, and whole vectors up to there go without checks.
The vector in which a piece ends is looked at by its elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llvmlite import ir

from tilewright.cpu.codegen.ir.elements import I64
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


def loops_by_pieces(
    nest: LoopNest,
    dims: Sequence[int],
    axis: int,
    lanes: int,
    body: Callable[[LoopNest, Coords], None],
    pieces: RowPieces,
) -> None:
    """Run the body for all vectors of the only row of a shape, piece by piece."""
    coords: list[Index] = [fixed(0)] * len(dims)
    masked, zero = nest.masked, ir.Constant(I64, 0)

    def one(index: Index) -> None:
        coords[axis] = Index(index.base, tuple(range(lanes)), lanes)
        body(nest, tuple(coords))

    # A piece has a vector at least.
    nest.loop(dims[axis], lanes)
    place = nest.carried(zero)
    b, depth = nest.inner, nest.depth
    part = pieces.part(nest, place)
    assert part.reached is not None
    inside = b.and_(b.icmp_unsigned("<=", part.begin, place), b.icmp_unsigned("<", place, part.end))
    behind = b.select(inside, part.end, place)
    with nest.where(inside):
        nest.masked, nest.instead = False, part.instead
        start = nest.loop(dims[axis], lanes, limit=b.sub(part.end, place))
        one(nest.plus(start, Lane(place, depth), lanes))
        nest.close()
        nest.masked, nest.instead = masked, None
    ends = b.icmp_signed(">", part.reached, part.end)
    cut = b.and_(b.or_(b.not_(inside), ends), b.icmp_signed("<", behind, part.total))
    with nest.where(cut):
        one(Index(Lane(behind, depth), None, lanes))
    following = b.add(behind, b.select(cut, ir.Constant(I64, lanes), zero))
    done = b.icmp_signed(">=", following, part.total)
    nest.close([(place, following)], until=done)
