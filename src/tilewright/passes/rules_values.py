"""Canonical forms of assumptions and sums."""

from __future__ import annotations

from xdsl.pattern_rewriter import PatternRewriter

from tilewright.dialects.cuda_tile.ops.floating_point import AddFOp, MulFOp
from tilewright.dialects.cuda_tile.ops.misc import AssumeOp
from tilewright.passes.base import replace_value


def repeated_assumption(op: AssumeOp, rewriter: PatternRewriter) -> None:
    """``assume(p, assume(p, x)) = assume(p, x)``, the predicates being identical."""
    inner = op.value.owner
    if isinstance(inner, AssumeOp) and inner.properties == op.properties:
        replace_value(rewriter, op, inner.result)


def product_to_the_left(op: AddFOp, rewriter: PatternRewriter) -> None:
    """``addf(a, mulf(..)) = addf(mulf(..), a)`` where ``a`` is no product.

    Rounding and flush_to_zero stay. Of two NaN operands the result may be either, in both forms.
    """
    if isinstance(op.rhs.owner, MulFOp) and not isinstance(op.lhs.owner, MulFOp):
        op.operands = (op.rhs, op.lhs)
        rewriter.notify_op_modified(op)
