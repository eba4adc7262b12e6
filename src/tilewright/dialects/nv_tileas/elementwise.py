"""Which operations work element by element, so that one layout holds for all of their tiles."""

from __future__ import annotations

from xdsl.ir import Operation

from tilewright.dialects import facts
from tilewright.dialects.facts import Elements
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.pointers import BitcastOp


def is_elementwise(op: Operation) -> bool:
    """Whether each element of the results comes from those at its place, so that one layout holds
    for all of the operation's tiles."""
    if facts.elements(op) is not Elements.AT_PLACE:
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
