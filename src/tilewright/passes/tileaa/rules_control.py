"""Rules for branches on constants, and for loops that run once or never."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.scf import ForOp, IfOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from tilewright.passes.canonicalize import Rule
from tilewright.passes.tileaa.matching import constant_iterations, integer_of


def known_branch(op: IfOp, rewriter: PatternRewriter) -> None:
    """``if true {A} else {B} = A`` and ``if false {A} else {B} = B``."""
    condition = integer_of(op.cond)
    if condition is None:
        return
    taken = op.true_region if condition else op.false_region
    if taken.blocks:
        _inline(op, taken.block, (), rewriter)
    else:
        rewriter.erase(op)


def single_iteration(op: ForOp, rewriter: PatternRewriter) -> None:
    """``for i in (a to b, step c) {A} = A(a)`` for constants with ``a < b <= a + c``; ``= nothing`` where ``a >= b``."""
    iterations = constant_iterations(op)
    if iterations is None:
        return
    if not iterations:
        for result, value in zip(op.results, op.iter_args, strict=True):
            rewriter.replace_all_uses_with(result, value)
        rewriter.erase(op)
    elif len(iterations) == 1:
        _inline(op, op.body.block, (op.lb, *op.iter_args), rewriter)


def _inline(
    op: Operation, block: Block, values: Sequence[SSAValue], rewriter: PatternRewriter
) -> None:
    """Put what a block does in the place of an operation; ``values`` are those of its arguments."""
    end = block.last_op
    assert end is not None
    moved = list(block.ops)[:-1]
    results = [
        values[value.index] if value.owner is block else value  # pyright: ignore[reportAttributeAccessIssue]
        for value in end.operands
    ]
    rewriter.erase(end)
    rewriter.inline_block(block, InsertPoint.before(op), values)
    for result, value in zip(op.results, results, strict=True):
        rewriter.replace_all_uses_with(result, value)
    for inner in moved:
        rewriter.notify_op_modified(inner)
    rewriter.erase(op)


CONTROL_RULES: dict[type[Operation], tuple[Rule, ...]] = {
    ForOp: (single_iteration,),  # pyright: ignore[reportAssignmentType]
    IfOp: (known_branch,),  # pyright: ignore[reportAssignmentType]
}
