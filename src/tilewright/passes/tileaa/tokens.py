"""Helpers for rewriting token dependences."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.analysis.tileaa import is_token
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.hints import CreateMemTokenOp, JoinMemTokenOp
from tilewright.passes.base import inherit_location


def token_in(op: Operation) -> SSAValue | None:
    """Return the token that an effect waits for, or None."""
    return next(filter(is_token, op.operands), None)


def token_out(op: Operation) -> SSAValue | None:
    """Return the token that an effect produces, or None."""
    return next(filter(is_token, op.results), None)


def parts_of(token: SSAValue) -> list[SSAValue]:
    """Return the tokens that a token stands for: joins are flattened, fresh tokens dropped."""
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
    """Return a token that waits for all the given ones, inserting a join or a fresh token if needed."""
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
    """Replace the token that an effect waits for; one that waits for none stays as it is."""
    for index, operand in enumerate(op.operands):
        if is_token(operand):
            op.operands[index] = token


def also_wait(op: Operation, token: SSAValue) -> None:
    """Make all users of an effect's token wait for ``token`` as well, which must dominate them."""
    own = token_out(op)
    assert own is not None
    users = list(own.uses)
    if users:
        both = joined([own, token], InsertPoint.after(op), op)
        for use in users:
            use.operation.operands[use.index] = both
