"""``relax-tokens``: drops token order between memory effects that cannot observe it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from tilewright.analysis.tileaa import Facts, TokenGraph, is_effect, must_stay
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.hints import CreateMemTokenOp, JoinMemTokenOp
from tilewright.passes.tileaa.base import TileAAPass
from tilewright.passes.tileaa.tokens import (
    also_wait,
    joined,
    parts_of,
    set_token,
    token_in,
    token_out,
)

#: Effects that wait for more tokens than this are left unchanged.
_MAX_PARTS = 64


@dataclass(frozen=True)
class RelaxTokens(TileAAPass):
    """Makes an effect wait only for the earlier effects that it may conflict with.

    If an effect waits for another although both only read, or never touch the same memory, it waits
    for that one's predecessors instead, and users of its token wait for both. An effect in a loop
    that is independent of all effects of earlier iterations waits for what preceded the loop.
    Effects that other blocks can synchronize with keep their order relative to everything. No order
    is added. Cost: for each effect, the number of tokens it waits for.
    """

    name: ClassVar[str] = "relax-tokens"

    def rewrite_function(self, function: FuncOp) -> None:
        facts = Facts(function)
        for op in facts.tokens.effects:
            if token_in(op) is not None and token_out(op) is not None:
                _relax(op, facts)
        _erase_unused(function)


def _relax(op: Operation, facts: Facts) -> None:
    token = token_in(op)
    assert token is not None
    before = parts_of(token)
    kept: list[SSAValue] = []
    skipped: list[SSAValue] = []
    waiting, seen = list(reversed(before)), set(before)
    while waiting:
        part = waiting.pop()
        passed = _skip(part, op, facts)
        if passed is None:
            kept.append(part)
            continue
        skipped.append(part)
        fresh = [p for p in passed if p not in seen]
        seen.update(fresh)
        waiting += reversed(fresh)
    if not skipped or len(kept) + len(skipped) > _MAX_PARTS:
        return
    for part in skipped:
        if part in before:
            also_wait(op, part)
    set_token(op, joined(_needed(kept), InsertPoint.before(op), op))


def _skip(part: SSAValue, op: Operation, facts: Facts) -> list[SSAValue] | None:
    """Return the tokens that ``op`` may wait for instead of ``part``, or None if it needs ``part``."""
    if isinstance(part, BlockArgument):
        return _skip_iterations(part, op, facts)
    owner = part.owner
    assert isinstance(owner, Operation)
    if not is_effect(owner) or must_stay(owner, op, facts.aliases):
        return None
    token = token_in(owner)
    return [] if token is None else parts_of(token)


def _skip_iterations(part: BlockArgument, op: Operation, facts: Facts) -> list[SSAValue] | None:
    """Return the tokens from before a loop if ``op`` depends on no earlier iteration, else None."""
    block = part.owner
    loop = block.parent_op() if isinstance(block, Block) else None
    if not isinstance(loop, scf.ForOp) or not _is_in(op, block):
        return None
    graph: TokenGraph = facts.tokens
    inside = [other for other in graph.before(op) if _is_in(other, block)]
    if any(must_stay(other, op, facts.aliases) for other in inside):
        return None
    return parts_of(loop.iter_args[part.index - 1])


def _is_in(op: Operation, block: Block) -> bool:
    at: Operation | None = op
    while at is not None:
        if at.parent is block:
            return True
        at = at.parent_op()
    return False


def _needed(tokens: list[SSAValue]) -> list[SSAValue]:
    """Return the tokens without those that another of them already waits for directly."""
    implied: set[SSAValue] = set()
    for token in tokens:
        owner = token.owner
        if isinstance(owner, Operation) and is_effect(owner):
            before = token_in(owner)
            implied.update(() if before is None else parts_of(before))
    return [token for token in tokens if token not in implied]


def _erase_unused(function: FuncOp) -> None:
    """Erase joins and fresh tokens without users."""
    for op in reversed(list(function.walk())):
        if isinstance(op, JoinMemTokenOp | CreateMemTokenOp) and not op.results[0].uses:
            op.detach()
            op.erase()
