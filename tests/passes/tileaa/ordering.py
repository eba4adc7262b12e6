"""Lowered programs of which every effect waits for the one before it, and other orders of them."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import is_side_effect_free

from tilewright.analysis.tileaa import is_effect
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.hints import CreateMemTokenOp
from tilewright.passes.base import blocks_below
from tilewright.passes.tileaa.tokens import set_token, token_in, token_out


def put_in_order(module: Operation) -> None:
    """Give effects the order of the text: one chain of tokens, through branches and loops."""
    for function in [op for op in module.walk() if isinstance(op, FuncOp)]:
        block = function.body.block
        start = CreateMemTokenOp.create(result_types=[T.MEM_TOKEN])
        first = block.first_op
        assert first is not None
        Rewriter.insert_op(start, InsertPoint.before(first))
        _chain(block, start.result)


def _chain(block: Block, token: SSAValue) -> SSAValue:
    """Chain what is in a block; gives the token behind it."""
    for op in list(block.ops):
        if is_effect(op):
            set_token(op, token)
            after = token_out(op)
            assert after is not None
            token = after
        elif isinstance(op, scf.IfOp | scf.ForOp | scf.WhileOp):
            token = _through(op, token)
    return token


def _through(op: scf.IfOp | scf.ForOp | scf.WhileOp, token: SSAValue) -> SSAValue:
    """Replace a branch or loop by one that also takes and gives a token; gives that."""
    regions = [op.detach_region(region) for region in list(op.regions)]
    if isinstance(op, scf.IfOp):
        if not regions[1].blocks:
            regions[1] = Region(Block([scf.YieldOp()]))
        for region in regions:
            _append(region.block, _chain(region.block, token))
    elif isinstance(op, scf.ForOp):
        (body,) = regions
        _append(body.block, _chain(body.block, _new_argument(body.block)))
    else:
        for region in regions:
            _append(region.block, _chain(region.block, _new_argument(region.block)))
    made = type(op).create(
        operands=list(op.operands) if isinstance(op, scf.IfOp) else [*op.operands, token],
        result_types=[*op.result_types, T.MEM_TOKEN],
        properties=dict(op.properties),
        attributes=dict(op.attributes),
        regions=regions,
    )
    Rewriter.insert_op(made, InsertPoint.before(op))
    for old, new in zip(op.results, made.results, strict=False):
        old.replace_all_uses_with(new)
    op.detach()
    op.erase()
    return made.results[-1]


def _new_argument(block: Block) -> SSAValue:
    return block.insert_arg(T.MEM_TOKEN, len(block.args))


def _append(block: Block, value: SSAValue) -> None:
    """The block ends with one more value."""
    last = block.last_op
    assert last is not None
    last.operands = [*last.operands, value]


def shuffle(module: Operation, seed: int) -> int:
    """Put the operations of each block into a random order that values and tokens allow.

    Operations with effects and without token keep their order. Gives how many have moved.
    """
    rng = random.Random(seed)
    moved = 0
    for block in blocks_below(module):
        if block.parent_op() is module:
            continue
        old = list(block.ops)
        new = _some_order(block, old, rng)
        moved += sum(a is not b for a, b in zip(old, new, strict=True))
        for op in old:
            op.detach()
        block.add_ops(new)
    return moved


def _some_order(block: Block, ops: Sequence[Operation], rng: random.Random) -> list[Operation]:
    """A random order in which everything follows what it needs; the terminator stays last."""
    needs = {op: _needed(op, block) for op in ops}
    for first, second in pairwise(op for op in ops if _has_its_place(op)):
        needs[second].add(first)
    needs[ops[-1]].update(ops[:-1])
    users: dict[Operation, list[Operation]] = defaultdict(list)
    for op, before in needs.items():
        for other in before:
            users[other].append(op)
    waiting = {op: len(before) for op, before in needs.items()}
    ready = [op for op in ops if not waiting[op]]
    order: list[Operation] = []
    while ready:
        op = ready.pop(rng.randrange(len(ready)))
        order.append(op)
        for user in users[op]:
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    assert len(order) == len(ops)
    return order


def _needed(op: Operation, block: Block) -> set[Operation]:
    """The operations of the block that make what ``op``, or something in it, uses."""
    made = {operand.owner for inner in op.walk() for operand in inner.operands}
    return {o for o in made if isinstance(o, Operation) and o.parent is block and o is not op}


def _has_its_place(op: Operation) -> bool:
    """Whether an operation, or one in it, has effects that no token orders."""
    return any(
        not inner.regions
        and not is_side_effect_free(inner)
        and not (is_effect(inner) and token_in(inner) is not None)
        for inner in op.walk()
    )
