"""``single-reductions``: takes reductions of single elements for what they are, views."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import ReduceOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.shapes import ViewOp
from tilewright.passes.base import inherit_location
from tilewright.passes.tileaa.base import TileAAPass


@dataclass(frozen=True)
class SingleReductions(TileAAPass):
    """Replaces a reduction along an axis of one element by a view of each of its tiles without that axis.

    The sum over a whole tile of one row, as tile programs have it, reduces along the axis of one element first. The code
    generators would fill a buffer with what is there already.

    Proof. A reduction combines elements and nothing else; a single one is the result as it is. So the body never runs, and has no
    effects. Row-major order is the same without an axis of one element. Cost: one walk.
    """

    name: ClassVar[str] = "single-reductions"

    def rewrite_function(self, function: FuncOp) -> None:
        single_reductions(function)


def of_single_elements(function: FuncOp) -> list[Operation]:
    """Return the reductions of a function along axes of one element, whose results are tiles."""
    return [op for op in function.walk() if isinstance(op, ReduceOp) and _is_single(op)]


def single_reductions(function: FuncOp) -> None:
    """Replace the reductions that ``of_single_elements`` names in place."""
    for op in of_single_elements(function):
        for operand, result in zip(op.operands, op.results, strict=True):
            made = ViewOp.create(operands=[operand], result_types=[result.type])
            inherit_location(made, op)
            Rewriter.insert_op(made, InsertPoint.before(op))
            result.replace_all_uses_with(made.result)
            made.result.name_hint = result.name_hint
        Rewriter.erase_op(op)


def _is_single(op: ReduceOp) -> bool:
    axis = int_property(op, "axis")
    return (
        op.atom is None
        and all(isinstance(result.type, T.TileType) for result in op.results)
        and all(T.dims_of(operand.type)[axis] == 1 for operand in op.operands)
    )
