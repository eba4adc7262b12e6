"""``longer-rows``: reductions across short rows take the axes behind theirs as one."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import ReduceOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.shapes import ViewOp
from tilewright.passes.base import inherit_location
from tilewright.passes.tileaa.base import TileAAPass
from tilewright.passes.tileaa.matching import erase_with_sources

#: Rows of fewer elements are short, and how long they should be.
_SHORT, _LONG = 16, 64


@dataclass(frozen=True)
class LongerRows(TileAAPass):
    """Merges axes behind the one that a reduction runs along, where a view has cut a longer row to short ones.

    The largest of 2 x 2 x 2 is ``max(x.reshape((2, n, 2, m, 2)), (0, 2, 4))``: one reduction after the other, of which the first ones leave rows
    of two elements. Vectors run along rows. ``reduce(view(x, 2 x n x 2 x m x 2), 0)`` becomes a view of ``reduce(view(x, 2 x n x 2 x 2m), 0)``.

    Proof. A view keeps the elements in row-major order, in which neighbouring axes are one. A reduction along another axis combines the
    elements that have the same place on them, in the same order. Cost: one walk.
    """

    name: ClassVar[str] = "longer-rows"

    def rewrite_function(self, function: FuncOp) -> None:
        longer_rows(function)


def across_short_rows(function: FuncOp) -> list[Operation]:
    """Return the reductions of a function whose results have short rows that can be longer."""
    return [op for op in function.walk() if isinstance(op, ReduceOp) and _merged(op)]


def longer_rows(function: FuncOp) -> None:
    """Rewrite the reductions that ``across_short_rows`` names in place, and those of their results."""
    for op in list(function.walk()):
        if not isinstance(op, ReduceOp) or not (dims := _merged(op)):
            continue
        axis = int_property(op, "axis")
        rest = dims[:axis] + dims[axis + 1 :]
        merged = ReduceOp.create(
            operands=[_viewed(op, value, dims) for value in op.operands],
            result_types=[T.TileType(rest, T.element_of(each.type)) for each in op.results],
            properties=op.properties,
            attributes=op.attributes,
            regions=[op.detach_region(region) for region in list(op.regions)],
        )
        inherit_location(merged, op)
        Rewriter.insert_op(merged, InsertPoint.before(op))
        for result, made in zip(op.results, merged.results, strict=True):
            view = ViewOp.create(operands=[made], result_types=[result.type])
            inherit_location(view, op)
            Rewriter.insert_op(view, InsertPoint.before(op))
            view.result.name_hint = result.name_hint
            result.replace_all_uses_with(view.result)
        erase_with_sources(op, lambda each: isinstance(each, ViewOp))


def _viewed(op: Operation, value: SSAValue, dims: tuple[int, ...]) -> SSAValue:
    """The same elements in another shape; of a view those behind it."""
    value = _behind_views(value)
    if T.dims_of(value.type) == dims:
        return value
    view = ViewOp.create(
        operands=[value], result_types=[T.TileType(dims, T.element_of(value.type))]
    )
    inherit_location(view, op)
    Rewriter.insert_op(view, InsertPoint.before(op))
    return view.result


def _behind_views(value: SSAValue) -> SSAValue:
    while isinstance(value.owner, ViewOp):
        value = value.owner.source
    return value


def _row(dims: tuple[int, ...]) -> int:
    """The extent of the last axis of several elements."""
    return next((extent for extent in reversed(dims) if extent > 1), 1)


def _merged(op: ReduceOp) -> tuple[int, ...]:
    """The shape in which a reduction has longer rows; none where it has no shorter ones behind its axis."""
    if op.atom is not None or not op.operands:
        return ()
    dims, axis = T.dims_of(op.operands[0].type), int_property(op, "axis")
    rows = [extent for extent in dims[axis + 1 :] if extent > 1]
    whole = _row(T.dims_of(_behind_views(op.operands[0]).type))
    if len(rows) < 2 or rows[-1] >= min(_SHORT, whole):
        return ()
    first = len(dims)
    while first > axis + 1 and prod(dims[first:]) < min(_LONG, whole):
        first -= 1
    return (*dims[:first], prod(dims[first:]))
