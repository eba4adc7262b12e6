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
from tilewright.passes.cse import any_equal, merge_equal
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
    """Erases effect-free operations and weak loads whose results nothing uses.

    The token of an erased load is replaced by the token it waited for. Cost: one walk from the last
    operation to the first.
    """

    name: ClassVar[str] = "tileaa-dce"

    def rewrite_function(self, function: FuncOp) -> None:
        erase_dead(function)


def erase_dead(function: FuncOp) -> None:
    """Erase the dead operations of a function, and those that become dead as a result.

    Idle loads go, too: what waits for their tokens waits for what they waited for.
    """
    for block in reversed(blocks_below(function)):
        for op in reversed(block.ops):
            if (is_idle_load(op) and _bypass(op)) or is_dead(op):
                block.erase_op(op)


def _bypass(load: Operation) -> bool:
    """Reroute token users around a load. Returns whether nothing uses the load's token afterwards."""
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

    Fresh tokens are equal to each other, as are joins of the same tokens. Accesses, barriers and
    other operations with effects stay; ``forward-memory`` merges loads. Cost: linear in
    the number of operations, times the nesting depth for those with bodies.
    """

    name: ClassVar[str] = "tileaa-cse"

    def rewrite_function(self, function: FuncOp) -> None:
        erase_dead(function)
        merge_equal(function, is_removable)


@dataclass(frozen=True)
class MergeEqual(TileAAPass):
    """Replaces an effect-free operation by an equal one that dominates it.

    That is what ``tileaa-cse`` does, too, which erases dead operations as well: the CPU machine tells of the errors of a load that
    nothing reads. Cost: as there.
    """

    name: ClassVar[str] = "merge-equal"

    def rewrite_function(self, function: FuncOp) -> None:
        merge_equal(function, is_removable)


def has_equal(function: FuncOp) -> bool:
    """Whether ``merge-equal`` has anything to do."""
    return any_equal(function, is_removable)


@dataclass(frozen=True)
class TileAALoopInvariantCodeMotion(TileAAPass):
    """Moves loop-invariant operations to before the loop.

    Moves effect-free operations that cannot be undefined behaviour. From loops that certainly run,
    also moves weak loads if nothing in the loop may write the memory and the load waits for no token
    of the loop; run ``relax-tokens`` first. Inner loops come first. Cost: linear in the number of
    operations times the depth of loops.
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
    """Whether a load that waits for nothing in the loop reads the same value in every iteration."""
    if synchronises(op) or _needs_body(op, loop):
        return False
    inside = [other for other in loop.walk() if other is not op]
    return not any(
        isinstance(other, scf.WhileOp)
        or (is_effect(other) and synchronises(other))
        or (is_effect(other) and writes(other) and facts.aliases.may_alias(other, op))
        for other in inside
    )
