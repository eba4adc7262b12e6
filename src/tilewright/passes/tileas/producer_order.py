"""Reorders the fills of the producer agent so that stages are filled in the order in which they are waited for.

A product that starts one iteration ahead needs its operands one iteration before the others. Iteration i of the producer
then fills the stage of that product for iteration i and the remaining stages for iteration i - 1; fills that the prologue
would issue last move into the loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.traits import is_side_effect_free

from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileas import pipelines as P
from tilewright.dialects.nv_tileas.agents import agent_switch
from tilewright.passes.tileas.schedule_builder import ScheduleBuilder, carrying

#: With more stages than this, the copies of an iteration are early enough in any order.
_FEW = 2


def reorder_fills(func: FuncOp, first: Sequence[SSAValue]) -> None:
    """Let producer agents fill the pipelines in ``first`` one iteration before the others of the same loop."""
    switch = agent_switch(func)
    if switch is None:
        return
    if any(P.stages_of(pipeline) > _FEW for pipeline in first):
        return
    for region in switch.agents[1:]:
        for loop in [op for op in region.walk() if isinstance(op, scf.ForOp)]:
            _reorder_fills(loop, set(first))


def _reorder_fills(loop: scf.ForOp, first: set[SSAValue]) -> None:
    fills = [op for op in loop.body.block.ops if _pipelines(op) & first]
    before = loop.prev_op
    while before is not None and not _pipelines(before) & first:
        before = before.prev_op
    if len(fills) != 1 or not isinstance(fill := fills[0], scf.IfOp):
        return
    if not isinstance(before, scf.IfOp) or _pipelines(before) != _pipelines(fill):
        return
    inside, earlier = ([*op.true_region.block.ops] for op in (fill, before))
    if [op.name for op in inside] != [op.name for op in earlier]:
        return
    late = _late(inside, first)
    if not late:
        return
    block = fill.true_region.block
    pairs = {fill.operands[0]: before.operands[0]}
    for mine, other in zip(inside, earlier, strict=True):
        if mine in late:
            pairs |= {
                now: then
                for now, then in zip(mine.operands, other.operands, strict=True)
                if now.owner not in inside and now is not then
            }
    # The delayed fills run in the next iteration, with values of this one.
    body = loop.body.block
    arguments = {value: body.insert_arg(value.type, len(body.args)) for value in pairs}
    delayed = Block()
    builder = ScheduleBuilder(InsertPoint.at_end(delayed), fill)
    values: dict[SSAValue, SSAValue] = dict(arguments)
    for op in inside:
        if op in late:
            builder.add(op.clone(values))
    builder.add(scf.YieldOp.create())
    ScheduleBuilder(InsertPoint.after(fill), fill).add(
        scf.IfOp.create(
            operands=(arguments[fill.operands[0]],),
            regions=[Region(delayed), Region(Block([scf.YieldOp.create()]))],
        )
    )
    for mine, other in reversed([*zip(inside, earlier, strict=True)]):
        if mine in late and (mine.parent is block) and not is_side_effect_free(mine):
            for dead in (mine, other):
                dead.detach()
                dead.erase()
    end = body.last_op
    assert end is not None
    end.operands = [*end.operands, *pairs]
    carrying(loop, list(pairs.values()))


def _pipelines(op: Operation) -> set[SSAValue]:
    """Return the pipelines that a guarded fill acquires stages of."""
    if not isinstance(op, scf.IfOp):
        return set()
    return {inner.pipeline for inner in op.walk() if isinstance(inner, P.ProducerAcquireOp)}


def _late(ops: Sequence[Operation], first: set[SSAValue]) -> set[Operation]:
    """Return the operations that fill pipelines other than ``first``, and what they depend on."""
    found: set[Operation] = set()
    for op in ops:
        if isinstance(op, P.ProducerAcquireOp) and op.pipeline not in first:
            found.add(op)
            found |= {use.operation for use in op.result.uses}
    for op in reversed(ops):
        results = [use.operation for result in op.results for use in result.uses]
        if any(user in found for user in results) and is_side_effect_free(op):
            found.add(op)
    return found
