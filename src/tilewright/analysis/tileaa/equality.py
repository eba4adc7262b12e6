"""Structural equality of values."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Attribute, Block, OpResult, SSAValue
from xdsl.traits import is_side_effect_free

from tilewright.dialects.nv_tileaa.ops.shapes import BlockTileOp

_PADDING = "padding_value"
#: The depth to which operand trees are compared.
_DEPTH = 8


def same_value(
    one: SSAValue,
    other: SSAValue,
    depth: int = _DEPTH,
    pairs: Mapping[SSAValue, SSAValue] | None = None,
) -> bool:
    """Whether two values are identical, or computed by equal operations from such values.

    Frontends build a new view for each access. ``pairs`` maps values of ``one`` to further values that count as equal.
    """
    if one is other or (pairs is not None and pairs.get(one) is other):
        return True
    first, second = one.owner, other.owner
    if isinstance(first, Block) or isinstance(second, Block) or not depth:
        return False
    return (
        first.name == second.name
        and not first.regions
        and is_side_effect_free(first)
        and first.properties == second.properties
        and [r.type for r in first.results] == [r.type for r in second.results]
        and len(first.operands) == len(second.operands)
        and isinstance(one, OpResult)
        and isinstance(other, OpResult)
        and one.index == other.index
        and all(
            same_value(a, b, depth - 1, pairs)
            for a, b in zip(first.operands, second.operands, strict=True)
        )
    )


def same_places(one: SSAValue, other: SSAValue) -> bool:
    """Whether two pointers, memrefs or views have each element at the same place in memory. What a view reads outside of its memref,
    where nothing is written, makes no difference: frontends give a padding to what they load through, and none to what they store
    through.
    """
    first, second = one.owner, other.owner
    if not (isinstance(first, BlockTileOp) and isinstance(second, BlockTileOp)):
        return same_value(one, other)
    return (
        one.type == other.type
        and _without_padding(first) == _without_padding(second)
        and all(map(same_value, first.operands, second.operands))
    )


def _without_padding(view: BlockTileOp) -> dict[str, Attribute]:
    return {name: each for name, each in view.properties.items() if name != _PADDING}
