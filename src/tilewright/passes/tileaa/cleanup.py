"""``tileaa-cse``, ``tileaa-dce`` and ``tileaa-licm``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import scf
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from tilewright.analysis.tileaa import Facts, Ranges, is_effect, synchronises
from tilewright.analysis.tileaa.order import writes
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.memory import Load
from tilewright.passes.base import blocks_below
from tilewright.passes.cse import merge_equal
from tilewright.passes.matching import is_defined_in
from tilewright.passes.tileaa.base import TileAAPass
from tilewright.passes.tileaa.effects import (
    is_dead,
    is_idle_load,
    is_removable,
    may_run_early,
)
from tilewright.passes.tileaa.tokens import token_in, token_out


@dataclass(frozen=True)
class TileAADeadCodeElimination(TileAAPass):
    """Erases what nothing uses: effect-free operations, and weak loads.

    The token of an erased load becomes the one that it waited for. Cost: one walk from the last
    operation to the first.
    """

    name: ClassVar[str] = "tileaa-dce"

    def rewrite_function(self, function: FuncOp) -> None:
        erase_dead(function)


def erase_dead(function: FuncOp) -> None:
    """Erase the operations of a function that are dead, and those that die with them."""
    for block in reversed(blocks_below(function)):
        for op in reversed(block.ops):
            if (is_idle_load(op) and _bypass(op)) or is_dead(op):
                block.erase_op(op)


def _bypass(load: Operation) -> bool:
    """Lead tokens around a load; whether nothing waits for it afterwards."""
    before, own = token_in(load), token_out(load)
    if own is None or not own.uses:
        return True
    if before is None:
        return False
    own.replace_all_uses_with(before)
    return True


@dataclass(frozen=True)
class TileAACommonSubexpressionElimination(TileAAPass):
    """Replaces an effect-free operation by an equal one that dominates it.

    Fresh tokens are equal, and so are joins of the same tokens. Accesses, barriers and what has
    effects otherwise stay; ``forward-memory`` merges loads. Cost: linear in operations, times the
    depth of regions for those with bodies.
    """

    name: ClassVar[str] = "tileaa-cse"

    def rewrite_function(self, function: FuncOp) -> None:
        erase_dead(function)
        merge_equal(function, is_removable)


@dataclass(frozen=True)
class TileAALoopInvariantCodeMotion(TileAAPass):
    """Moves what does not change in a loop to before the loop.

    Effect-free operations that cannot be undefined behaviour; and from loops that surely run, weak
    loads of memory that nothing in the loop may write and that wait for nothing in it, as
    ``relax-tokens`` leaves them. Inner loops first. Cost: linear in operations times the depth of
    loops.
    """

    name: ClassVar[str] = "tileaa-licm"

    def rewrite_function(self, function: FuncOp) -> None:
        facts = Facts(function)
        loops = [op for op in function.walk() if isinstance(op, scf.ForOp)]
        for loop in reversed(loops):
            _hoist(loop, facts)


def _hoist(loop: scf.ForOp, facts: Facts) -> None:
    rewriter = PatternRewriter(InsertPoint.before(loop))
    body = loop.body.block
    runs = _surely_runs(loop, facts.ranges)
    for op in list(body.ops):
        if isinstance(op, Load):
            movable = runs and _is_steady_load(op, loop, facts)
        else:
            movable = may_run_early(op, facts.ranges) and not _needs_body(op, loop)
        if movable:
            op.detach()
            rewriter.insert(op, InsertPoint.before(loop))


def _needs_body(op: Operation, loop: scf.ForOp) -> bool:
    return any(is_defined_in(operand, loop.body.block) for operand in op.operands)


def _surely_runs(loop: scf.ForOp, ranges: Ranges) -> bool:
    return "unsignedCmp" not in loop.attributes and (
        ranges.of(loop.lb).high < ranges.of(loop.ub).low
    )


def _is_steady_load(op: Load, loop: scf.ForOp, facts: Facts) -> bool:
    """Whether a load that waits for nothing in the loop reads the same in all iterations."""
    if synchronises(op) or _needs_body(op, loop):
        return False
    inside = [other for other in loop.walk() if other is not op]
    return not any(
        isinstance(other, scf.WhileOp)
        or (is_effect(other) and synchronises(other))
        or (is_effect(other) and writes(other) and facts.aliases.may_alias(other, op))
        for other in inside
    )
