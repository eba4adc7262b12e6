"""The pass ``fuse-fma``: products with a sum become one operation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from tilewright.dialects.cuda_tile.ops.floating_point import AddFOp, FmaOp, MulFOp, NegFOp, SubFOp
from tilewright.passes.base import TilePass, functions, insert_before, replace_op
from tilewright.passes.canonicalize import Rule, apply_rules
from tilewright.passes.rules_values import product_to_the_left

_MODES = ("rounding_mode", "flush_to_zero")


def fuse_sum(op: AddFOp, rewriter: PatternRewriter) -> None:
    """``addf(mulf(a, b), c) = fma(a, b, c)`` but for one rounding.

    The product has no other use and the same rounding and flush_to_zero.
    """
    if (product := _fusible_product(op)) is not None:
        replace_op(rewriter, op, _fma(op, product, op.rhs))


def fuse_difference(op: SubFOp, rewriter: PatternRewriter) -> None:
    """``subf(mulf(a, b), c) = fma(a, b, negf(c))`` but for one rounding; conditions as for sums."""
    if (product := _fusible_product(op)) is not None:
        negated = NegFOp.create(operands=[op.rhs], result_types=[op.rhs.type])
        insert_before(rewriter, op, negated)
        replace_op(rewriter, op, _fma(op, product, negated.result))


def _fusible_product(op: AddFOp | SubFOp) -> MulFOp | None:
    product = op.lhs.owner
    if not isinstance(product, MulFOp) or not product.result.has_one_use():
        return None
    same = all(product.properties.get(mode) == op.properties.get(mode) for mode in _MODES)
    return product if same else None


def _fma(op: AddFOp | SubFOp, product: MulFOp, addend: SSAValue) -> FmaOp:
    return FmaOp.create(
        operands=[product.lhs, product.rhs, addend],
        result_types=[op.result.type],
        properties={mode: op.properties[mode] for mode in _MODES if mode in op.properties},
        attributes=dict(op.attributes),
    )


RULES: dict[type[Operation], tuple[Rule, ...]] = {
    AddFOp: (fuse_sum, product_to_the_left),
    SubFOp: (fuse_difference,),
}


@dataclass(frozen=True)
class FuseFma(TilePass):
    """Turns ``a * b + c`` and ``a * b - c`` into ``fma``. Changes results.

    An fma rounds once where mulf and addf round twice, so the result can differ in the last
    place; therefore no pipeline holds this pass, and users ask for it. The product must have no
    other use and the same rounding mode and flush_to_zero; ``c - a * b`` is left alone. A product
    on the right of a sum goes to the left first. Cost: near-linear.
    """

    name: ClassVar[str] = "fuse-fma"

    def rewrite(self, root: Operation) -> None:
        for function in functions(root):
            apply_rules(function, RULES)
