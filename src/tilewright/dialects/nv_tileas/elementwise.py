"""Which layouts the tiles of an operation can have together."""

from __future__ import annotations

from xdsl.ir import Operation

from tilewright.dialects import facts
from tilewright.dialects.facts import Elements
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import int_list
from tilewright.dialects.nv_tileaa.ops.pointers import BitcastOp
from tilewright.dialects.nv_tileaa.ops.shapes import BroadcastOp, PermuteOp
from tilewright.dialects.nv_tileas.types import layout_of
from tilewright.layouts.broadcasts import broadcast_registers


def is_elementwise(op: Operation) -> bool:
    """Whether each element of the results comes from those at its place, so that one layout holds
    for all of the operation's tiles."""
    if facts.elements(op) is not Elements.SAME_POSITION:
        return False
    if isinstance(op, BitcastOp):  # it may pack several elements into one
        return T.dims_of(op.source.type) == T.dims_of(op.result.type)
    return True


def has_mixed_layouts(op: Operation) -> bool:
    """Whether the tiles of an operation on elements have different layouts, or only some have one."""
    found = [
        value.type.layout
        for value in (*op.operands, *op.results)
        if isinstance(value.type, T.TileType)
    ]
    return any(layout != found[0] for layout in found) and is_elementwise(op)


def has_other_source(op: Operation) -> bool:
    """Whether an operation that only gives elements other places gets them in a layout in which threads do
    not hold what they are to hold in the result's."""
    if len(op.operands) != 1 or len(op.results) != 1:
        return False
    source, result = op.operands[0].type, op.results[0].type
    if not isinstance(source, T.TileType) or not isinstance(result, T.TileType):
        return False
    own, layout = layout_of(source), layout_of(result)
    if facts.elements(op) is Elements.RESHAPED:
        return own != layout
    if not isinstance(op, BroadcastOp | PermuteOp):
        return False
    if own is None or layout is None:
        return True
    if isinstance(op, BroadcastOp):
        return broadcast_registers(own, layout, source.dims, result.dims) is None
    return own.permuted(source.dims, int_list(op.permutation)) != layout
