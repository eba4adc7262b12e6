"""Folding rules that remove unused queue values and pragma results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.functions import ExecuteOp
from tilewright.dialects.nv_tileaa.ops.hints import MarkForReuseOp, PragmaOp
from tilewright.dialects.nv_tileaa.ops.queues import CreateQueueOp, QueueGetOp, QueuePutOp
from tilewright.passes.base import insert_before
from tilewright.passes.canonicalize import Rule
from tilewright.passes.tileaa.matching import replace_with


def unused_pragma_results(op: PragmaOp, rewriter: PatternRewriter) -> None:
    """Remove pragma results that nothing uses."""
    used = [index for index, result in enumerate(op.results) if result.uses]
    if not used or len(used) == len(op.results):
        return
    made = _rebuilt(
        op, [op.operands[i] for i in used], [op.results[i].type for i in used], rewriter
    )
    kept = dict(zip(used, made.results, strict=True))
    replace_with(rewriter, op, [kept.get(i, value) for i, value in enumerate(op.operands)])


@dataclass
class _Reach:
    """The values that hold one queue, and the operations that put into it and get from it."""

    handles: list[SSAValue] = field(default_factory=list)
    puts: list[QueuePutOp] = field(default_factory=list)
    gets: list[QueueGetOp] = field(default_factory=list)

    @classmethod
    def of(cls, queue: SSAValue) -> _Reach | None:
        """Return everything that a queue reaches, or None if it goes somewhere it cannot be followed."""
        reach, pending = cls(), [queue]
        while pending:
            handle = pending.pop()
            reach.handles.append(handle)
            for use in handle.uses:
                match use.operation:
                    case QueuePutOp() as put:
                        reach.puts.append(put)
                    case QueueGetOp() as get:
                        reach.gets.append(get)
                    case MarkForReuseOp():
                        pass
                    case ExecuteOp() as execute if execute.body.blocks:
                        pending.append(execute.body.block.args[use.index])
                    case _:
                        return None
        return reach

    def used(self) -> set[int]:
        """Return the indices of the tuple elements that are used."""
        return {i for op in self.gets for i, value in enumerate(_received(op)) if value.uses}


def _received(op: QueueGetOp) -> Sequence[SSAValue]:
    return op.body.block.args if op.body.blocks else op.results


def unused_queue_values(op: CreateQueueOp, rewriter: PatternRewriter) -> None:
    """Drop tuple elements that no consumer uses. The last one stays: consumers wait for it."""
    ty = op.result.type
    assert isinstance(ty, T.QueueType)
    reach = _Reach.of(op.result) if len(ty.item_types) > 1 else None
    if reach is None:
        return
    kept = sorted(reach.used()) or [0]
    if len(kept) == len(ty.item_types):
        return
    narrow = T.QueueType([ty.item_types[i] for i in kept], ty.is_isolated)
    for put in reach.puts:
        _put_fewer(put, kept, rewriter)
    for get in reach.gets:
        _get_fewer(get, kept, rewriter)
    for handle in reach.handles:
        rewriter.replace_value_with_new_type(handle, narrow)


def _put_fewer(op: QueuePutOp, kept: Sequence[int], rewriter: PatternRewriter) -> None:
    if op.body.blocks:
        end = op.body.block.last_op
        assert end is not None
        _keep_operands(end, kept, rewriter)
    else:
        _keep_operands(op, [0, *(i + 1 for i in kept)], rewriter)


def _keep_operands(op: Operation, kept: Sequence[int], rewriter: PatternRewriter) -> None:
    dropped = [v.owner for i, v in enumerate(op.operands) if i not in kept]
    op.operands = [op.operands[i] for i in kept]
    rewriter.notify_op_modified(op)
    for owner in dropped:
        if isinstance(owner, Operation):
            rewriter.notify_op_modified(owner)


def _get_fewer(op: QueueGetOp, kept: Sequence[int], rewriter: PatternRewriter) -> None:
    if op.body.blocks:
        for index in reversed(range(len(op.body.block.args))):
            if index not in kept:
                rewriter.erase_block_argument(op.body.block.args[index])
        return
    made = _rebuilt(op, op.operands, [op.results[i].type for i in kept], rewriter)
    kept_results = dict(zip(kept, made.results, strict=True))
    rewriter.replace(op, (), [kept_results.get(i) for i in range(len(op.results))])


def unused_get_results(op: QueueGetOp, rewriter: PatternRewriter) -> None:
    """Drop results of a ``queue.get`` with a region that nothing uses."""
    used = [index for index, result in enumerate(op.results) if result.uses]
    if not op.body.blocks or len(used) == len(op.results):
        return
    end = op.body.block.last_op
    assert end is not None
    _keep_operands(end, used, rewriter)
    made = _rebuilt(op, op.operands, [op.results[i].type for i in used], rewriter)
    kept = dict(zip(used, made.results, strict=True))
    rewriter.replace(op, (), [kept.get(i) for i in range(len(op.results))])


def _rebuilt(
    op: Operation,
    operands: Sequence[SSAValue],
    types: Sequence[Attribute],
    rewriter: PatternRewriter,
) -> Operation:
    """Return the operation with other operands and result types, inserted before the old one. It
    takes over the regions."""
    made = type(op).create(
        operands=operands,
        result_types=types,
        properties=dict(op.properties),
        attributes=dict(op.attributes),
        regions=[op.detach_region(region) for region in list(op.regions)],
    )
    insert_before(rewriter, op, made)
    return made


QUEUE_RULES: dict[type[Operation], tuple[Rule, ...]] = {
    PragmaOp: (unused_pragma_results,),
    CreateQueueOp: (unused_queue_values,),
    QueueGetOp: (unused_get_results,),
}
