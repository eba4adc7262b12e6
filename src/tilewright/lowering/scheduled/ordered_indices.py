"""Reductions that carry an index beside the value, such as argmin: skips index comparisons whose outcome is known because a thread
combines its own elements in ascending order."""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import arith
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import ReduceOp
from tilewright.dialects.nv_tileaa.ops.shapes import (
    BroadcastOp,
    ExpandDimsOp,
    MakeRangeOp,
    ViewOp,
)
from tilewright.dialects.nv_tileas.ops import ConvertLayoutOp
from tilewright.dialects.upstream.arith.syntax import INTEGER_PREDICATES

#: What the relations of integers say of a greater one beside a lesser one, if both have no sign.
_OF_GREATER = {name: name in ("ne", "sgt", "sge", "ugt", "uge") for name in INTEGER_PREDICATES}


def known_comparisons(op: ReduceOp) -> dict[Operation, bool]:
    """What the comparisons of places in the body of a reduction give, where all of the elements come behind all that is
    accumulated. Places are an operand that grows along the reduced axis, of which the body passes one on."""
    body = op.regions[0].blocks[0]
    found: dict[Operation, bool] = {}
    for number, operand in enumerate(op.operands):
        earlier, later = body.args[2 * number : 2 * number + 2]
        if not _grows(operand, int_property(op, "axis")) or not _is_chosen(body, number):
            continue
        for inner in body.ops:
            if not isinstance(inner, arith.CmpiOp):
                continue
            answer = _OF_GREATER[inner.predicate_name]
            if (inner.operands[0], inner.operands[1]) == (later, earlier):
                found[inner] = answer
            elif (inner.operands[0], inner.operands[1]) == (earlier, later):
                found[inner] = answer if inner.predicate_name in ("eq", "ne") else not answer
    return found


def _is_chosen(body: Block, number: int) -> bool:
    """Whether a body yields one of its two arguments of an operand."""
    end = body.last_op
    assert end is not None
    both = set(body.args[2 * number : 2 * number + 2])
    value = end.operands[number]
    if isinstance(value.owner, arith.SelectOp):
        return {value.owner.true_value, value.owner.false_value} <= both
    return value in both


def _grows(value: SSAValue, axis: int) -> bool:
    """Whether the elements of a tile are numbers from 0 on that are greater, the farther they lie along an axis."""
    while isinstance(op := value.owner, BroadcastOp | ExpandDimsOp | ViewOp | ConvertLayoutOp):
        dims, source = T.dims_of(value.type), T.dims_of(op.operands[0].type)
        if isinstance(op, BroadcastOp | ConvertLayoutOp):
            if source[axis] != dims[axis]:
                return False
        else:
            long = [number for number, extent in enumerate(dims) if extent > 1]
            whole = [number for number, extent in enumerate(source) if extent > 1]
            if [dims[at] for at in long] != [source[at] for at in whole] or axis not in long:
                return False
            axis = whole[long.index(axis)]
        value = op.operands[0]
    return isinstance(op, MakeRangeOp) and not op.bounds and int_property(op, "start") >= 0
