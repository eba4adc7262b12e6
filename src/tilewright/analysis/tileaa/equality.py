"""Structural equality of values."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Block, OpResult, SSAValue
from xdsl.traits import is_side_effect_free

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
