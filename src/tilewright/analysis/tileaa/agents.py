"""Agents of a tile block, and the queues between them.

``execute`` starts an agent, which runs concurrently with the operations after it until something
waits for it. Queues are values; they are followed through calls, regions and loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue
from xdsl.traits import IsTerminator

from tilewright.dialects.arith import SelectOp
from tilewright.dialects.nv_tileaa.ops import functions, hints, queues
from tilewright.dialects.nv_tileaa.ops.functions import ExecuteOp
from tilewright.dialects.nv_tileaa.ops.symbols import reference, symbols_around


def consumer_of(op: queues.QueueGetOp) -> int:
    """Return the consumer number of a get; 0 if unspecified."""
    index = op.properties.get("consumer_index")
    return index.value.data if isinstance(index, IntegerAttr) else 0


def holders_of(queue: SSAValue) -> list[SSAValue]:
    """Return the values that may hold a queue created by one operation, its own result first.

    The queue is followed into agents, through loops and branches.
    """
    found = [queue]
    seen = {queue}
    for value in found:
        for use in value.uses:
            new = [value for value in _handed_on(use.operation, use.index) if value not in seen]
            seen.update(new)
            found += new
    return found


def consumers_of(queue: SSAValue) -> tuple[int, ...]:
    """Return the consumer numbers that a queue reaches, ascending; consumer 0 if it reaches none."""
    users = (use.operation for value in holders_of(queue) for use in value.uses)
    found = {consumer_of(op) for op in users if isinstance(op, queues.QueueGetOp)}
    return tuple(sorted(found)) or (0,)


def _handed_on(op: Operation, index: int) -> Iterator[SSAValue]:
    """Yield the values to which an operation passes its operand at an index."""
    if isinstance(op, hints.OptimizationBarrierOp | hints.PragmaOp | hints.AssumeOp):
        yield op.results[index]
    elif isinstance(op, SelectOp):
        yield op.results[0]
    elif isinstance(op, functions.CallOp | functions.ExecuteOp | functions.PluginOp):
        yield from _arguments_of(op)[index : index + 1]
    elif isinstance(op, scf.ForOp) and index >= 3:
        yield op.results[index - 3]
        yield op.body.block.args[index - 2]
    elif isinstance(op, scf.WhileOp):
        yield op.before_region.block.args[index]
    elif op.has_trait(IsTerminator) and (parent := op.parent_op()) is not None:
        yield from _ended(op, parent, index)


def _arguments_of(op: Operation) -> Sequence[SSAValue]:
    if op.regions and op.regions[0].blocks:
        return op.regions[0].blocks[0].args
    name = "callee" if isinstance(op, functions.CallOp) else "symbol"
    target = (symbols_around(op) or {}).get(reference(op, name)) if name in op.properties else None
    return target.block.args if isinstance(target, functions.FuncOp) else ()


def _ended(op: Operation, parent: Operation, index: int) -> Iterator[SSAValue]:
    """Yield the values to which a terminator passes an operand."""
    if isinstance(op, functions.ReturnOp):
        assert isinstance(parent, functions.FuncOp)
        module = parent.parent_op()
        for user in () if module is None else module.walk():
            if isinstance(user, functions.CallOp | functions.ExecuteOp | functions.PluginOp):
                named = "callee" if isinstance(user, functions.CallOp) else "symbol"
                if named in user.properties and reference(user, named) == parent.symbol:
                    yield user.results[index]
        return
    position = index - 1 if isinstance(op, scf.ConditionOp) else index
    if isinstance(parent, scf.WhileOp) and isinstance(op, scf.YieldOp):
        yield parent.before_region.block.args[position]
        return
    if 0 <= position < len(parent.results):
        yield parent.results[position]
    if isinstance(parent, scf.ForOp):
        yield parent.body.block.args[position + 1]
    if isinstance(op, scf.ConditionOp) and isinstance(parent, scf.WhileOp):
        yield parent.after_region.block.args[position]


def first_user(op: ExecuteOp) -> Operation:
    """Return the operation that waits for an agent: the first after it, in its block, that uses a result, or
    the terminator."""
    block = op.parent_block()
    users: set[Operation] = set()
    for result in op.results:
        for use in result.uses:
            user: Operation | None = use.operation
            while user is not None and user.parent_block() is not block:
                user = user.parent_op()
            assert user is not None
            users.add(user)
    current = op.next_op
    while current is not None and current not in users and current.next_op is not None:
        current = current.next_op
    assert current is not None, "a block ends in a terminator"
    return current
