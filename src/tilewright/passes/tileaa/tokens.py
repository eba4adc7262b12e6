"""Rewrites token dependences."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.analysis.tileaa import is_token
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.hints import CreateMemTokenOp, JoinMemTokenOp
from tilewright.passes.base import inherit_location


def token_in(op: Operation) -> SSAValue | None:
    """The token that an effect waits for."""
    return next(filter(is_token, op.operands), None)


def token_out(op: Operation) -> SSAValue | None:
    """The token of an effect."""
    return next(filter(is_token, op.results), None)


def parts_of(token: SSAValue) -> list[SSAValue]:
    """The tokens that a token waits for, joins taken apart; fresh ones wait for nothing."""
    found: dict[SSAValue, None] = {}
    waiting = [token]
    while waiting:
        part = waiting.pop()
        if isinstance(part.owner, JoinMemTokenOp):
            waiting += reversed(part.owner.operands)
        elif not isinstance(part.owner, CreateMemTokenOp):
            found[part] = None
    return list(found)


def joined(tokens: Sequence[SSAValue], place: InsertPoint, like: Operation) -> SSAValue:
    """A token that waits for all the given ones, made at a place where there is none."""
    distinct = list(dict.fromkeys(tokens))
    if len(distinct) == 1:
        return distinct[0]
    made = (
        JoinMemTokenOp.create(operands=distinct, result_types=[T.MEM_TOKEN])
        if distinct
        else CreateMemTokenOp.create(result_types=[T.MEM_TOKEN])
    )
    inherit_location(made, like)
    Rewriter.insert_op(made, place)
    return made.results[0]


def set_token(op: Operation, token: SSAValue) -> None:
    """Make an effect wait for another token than it does."""
    for index, operand in enumerate(op.operands):
        if is_token(operand):
            op.operands[index] = token


def also_wait(op: Operation, token: SSAValue) -> None:
    """Make all that waits for an effect wait for ``token``, too, which dominates it."""
    own = token_out(op)
    assert own is not None
    users = list(own.uses)
    if users:
        both = joined([own, token], InsertPoint.after(op), op)
        for use in users:
            use.operation.operands[use.index] = both
