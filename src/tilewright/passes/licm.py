"""The pass ``licm``: moves loop-invariant operations out of loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Block, Operation
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from tilewright.dialects.cuda_tile.ops.control_flow import ForOp, LoopOp
from tilewright.passes.base import TilePass, uses_below
from tilewright.passes.effects import is_pure_throughout, is_speculatable, may_leave_early
from tilewright.passes.matching import is_defined_in, splat_of


@dataclass(frozen=True)
class LoopInvariantCodeMotion(TilePass):
    """Moves pure operations whose operands are defined outside a loop to before the loop.

    Considers the operations directly in the body of ``for`` and ``loop``, inner loops first, so that
    an operation moves out as far as possible. A reduce, scan or if moves as a whole; the bodies of
    reduce and scan do not count as loops, and nothing is moved out of an ``if``. An operation that
    can be undefined behaviour, such as ``remi`` by an unknown divisor or ``addi`` with an overflow
    flag, moves only out of a loop that certainly executes it. ``divi``, get_tensor_shape,
    get_index_space_shape, make_tensor_view and everything with effects stay. Cost: linear in the
    number of operations times the depth of loops.
    """

    name: ClassVar[str] = "licm"

    def rewrite(self, root: Operation) -> None:
        loops = [op for op in root.walk() if isinstance(op, ForOp | LoopOp)]
        # An outer loop precedes its inner loops, so walking backwards visits inner loops first.
        for loop in reversed(loops):
            for block in loop.regions[0].blocks:
                _hoist(loop, block)


def _hoist(loop: ForOp | LoopOp, body: Block) -> None:
    rewriter = PatternRewriter(InsertPoint.before(loop))
    reached = surely_runs(loop)
    for op in list(body.ops):
        movable = is_speculatable(op) or (reached and is_pure_throughout(op))
        if movable and not any(is_defined_in(value, body) for value in uses_below(op)):
            op.detach()
            rewriter.insert(op, InsertPoint.before(loop))
        elif reached:
            reached = not may_leave_early((op,))


def surely_runs(loop: ForOp | LoopOp) -> bool:
    """Whether the body runs at least once whenever the loop is reached."""
    if isinstance(loop, LoopOp):
        return True
    bounds = [splat_of(loop.lowerBound), splat_of(loop.upperBound)]
    if bounds[0] is None or bounds[1] is None:
        return False
    if loop.unsignedCmp is not None:
        # Mapping negative values above the others makes signed order equal to unsigned order.
        bounds = [(value < 0, value) for value in bounds if value is not None]
    return bounds[0] < bounds[1]
