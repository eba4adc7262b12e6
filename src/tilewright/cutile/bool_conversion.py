"""Floats as truth values: ``tile.astype(ct.bool_)``.

cuTile writes ``ftoi`` to i1, which to the letter of Tile IR truncates, so that 0.5 is false, and leaves
open what 2.0, -1.0 and NaN are. NVIDIA's compiler compares with zero, as Python and NumPy do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.dialects.cuda_tile.enums import (
    ComparisonOrdering,
    ComparisonOrderingAttr,
    ComparisonPredicate,
    ComparisonPredicateAttr,
    RoundingMode,
    RoundingModeAttr,
)
from tilewright.dialects.cuda_tile.ops.conversions import FToFOp, FToIOp
from tilewright.dialects.cuda_tile.ops.floating_point import CmpFOp
from tilewright.dialects.cuda_tile.types import BASE_FLOAT_NAMES, ELEMENT_TYPES, TileType
from tilewright.passes.matching import make_constant

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from tilewright.dialects.cuda_tile.ops.module import ModuleOp

# Holds every number of the element types that cannot be compared.
_WIDER = ELEMENT_TYPES["f32"]


def compare_with_zero(module: ModuleOp) -> None:
    """Replace conversions of floats to i1 by comparisons with zero; NaN is true."""
    for op in list(module.walk()):
        if isinstance(op, FToIOp):
            ty = op.to.type
            assert isinstance(ty, TileType)
            if ty.element == "i1":
                _replace(op)


def _replace(op: FToIOp) -> None:
    made: list[Operation] = []
    value, ty = op.from_, op.from_.type
    assert isinstance(ty, TileType)
    if ty.element not in BASE_FLOAT_NAMES:
        ty = ty.with_element(_WIDER)
        rounding = RoundingModeAttr(RoundingMode.NEAREST_EVEN)
        wider = FToFOp.create(
            operands=[value], result_types=[ty], properties={"rounding_mode": rounding}
        )
        made.append(wider)
        value = wider.to
    zero = make_constant(ty, 0.0)
    comparison = CmpFOp.create(
        operands=[value, zero.result],
        result_types=[op.to.type],
        properties={
            "comparison_predicate": ComparisonPredicateAttr(ComparisonPredicate.NOT_EQUAL),
            "comparison_ordering": ComparisonOrderingAttr(ComparisonOrdering.UNORDERED),
        },
    )
    made += [zero, comparison]
    for new in made:
        new.location = op.location
    block = op.parent
    assert block is not None
    block.insert_ops_before(made, op)
    op.to.replace_all_uses_with(comparison.result)
    op.detach()
    op.erase()
