"""Queues: bounded channels of tuples between the agents of a tile block.

A tuple leaves the queue when every consumer has had it. The consumers are the indices with which
anything gets from the queue, wherever it is handed on to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue
from xdsl.traits import IsTerminator

from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa.ops import functions, hints, queues
from tilewright.dialects.nv_tileaa.ops.symbols import reference, symbols_around
from tilewright.machine.compile import (
    CompiledBlock,
    Nested,
    Scope,
    Step,
    Translator,
    implements,
)
from tilewright.machine.ops.control_flow import copy_slots
from tilewright.machine.tileaa.strands import PAUSE, Strands, Wait, waiting
from tilewright.machine.values import Registers

Tuple = tuple[object, ...]


@dataclass(slots=True, eq=False)
class Queue:
    """What is in a queue; ``taken`` counts what each consumer has had since the beginning."""

    depth: int
    consumers: tuple[int, ...]
    held: deque[Tuple] = field(default_factory=deque)
    put_count: int = 0
    taken: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.taken = dict.fromkeys(self.consumers, 0)

    def has_room(self) -> bool:
        return len(self.held) < self.depth

    def has_more(self, consumer: int) -> bool:
        return self.taken[consumer] < self.put_count

    def put(self, values: Tuple) -> None:
        self.held.append(values)
        self.put_count += 1

    def get(self, consumer: int) -> Tuple:
        first = self.put_count - len(self.held)
        found = self.held[self.taken[consumer] - first]
        self.taken[consumer] += 1
        while self.held and min(self.taken.values()) > self.put_count - len(self.held):
            self.held.popleft()
        return found


def _consumer(op: queues.QueueGetOp) -> int:
    index = op.properties.get("consumer_index")
    return index.value.data if isinstance(index, IntegerAttr) else 0


def _consumers(queue: SSAValue) -> tuple[int, ...]:
    """The consumers that a queue reaches; consumer 0 where it reaches none."""
    seen, pending = {queue}, [queue]
    found: set[int] = set()
    while pending:
        for use in pending.pop().uses:
            if isinstance(use.operation, queues.QueueGetOp):
                found.add(_consumer(use.operation))
            new = [value for value in _handed_on(use.operation, use.index) if value not in seen]
            seen.update(new)
            pending += new
    return tuple(sorted(found)) or (0,)


def _handed_on(op: Operation, index: int) -> Iterator[SSAValue]:
    """The values that hold what an operation takes as its operand of that number."""
    if isinstance(op, hints.OptimizationBarrierOp | hints.PragmaOp | hints.AssumeOp):
        yield op.results[index]
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
    """Where a value goes that a terminator hands over."""
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


@implements(queues.CreateQueueOp)
def create_queue(op: queues.CreateQueueOp, t: Translator) -> Step:
    depth, consumers, result = int_property(op, "depth"), _consumers(op.result), t.slot(op.result)

    def step(regs: Registers) -> None:
        regs[result] = Queue(depth, consumers)

    return step


def _body(
    t: Translator, op: queues.QueueGetOp | queues.QueuePutOp, results: tuple[int, ...]
) -> CompiledBlock:
    t.yields.append(Scope(results=results))
    body = t.block(op.body.blocks[0])
    t.yields.pop()
    return body


def _run(body: CompiledBlock, regs: Registers) -> Any:
    if body.suspends:
        yield from body.start(regs)
    else:
        body.run(regs)


@implements(queues.QueuePutOp)
def put(op: queues.QueuePutOp, t: Translator) -> Nested:
    """A region computes the tuple before the queue is asked for room."""
    queue_slot, values = t.slot(op.queue), t.slots(op.values)
    body: CompiledBlock | None = None
    if op.body.blocks:
        last = op.body.blocks[0].last_op
        assert last is not None
        values = tuple(t.new_slot() for _ in last.operands)
        body = _body(t, op, values)
    agents = t.agents
    assert agents is not None

    def start(regs: Registers) -> Any:
        if body is not None:
            yield from _run(body, regs)
        queue: Queue = regs[queue_slot]
        what = f"room in a queue of depth {queue.depth}"
        yield from waiting(Wait(queue.has_room, what, op))
        queue.put(tuple([regs[slot] for slot in values]))
        strands: Strands = regs[agents]
        strands.moved()
        yield PAUSE
        return None

    return Nested(start)


@implements(queues.QueueGetOp)
def get(op: queues.QueueGetOp, t: Translator) -> Nested:
    """A region works on the tuple when it has left the queue."""
    queue_slot, consumer = t.slot(op.queue), _consumer(op)
    targets, results = t.slots(op.results), t.slots(op.results)
    body: CompiledBlock | None = None
    if op.body.blocks:
        targets = t.slots(op.body.blocks[0].args)
        body = _body(t, op, results)
    agents = t.agents
    assert agents is not None
    what = f"a tuple for consumer {consumer} of an empty queue"

    def start(regs: Registers) -> Any:
        queue: Queue = regs[queue_slot]
        yield from waiting(Wait(lambda: queue.has_more(consumer), what, op))
        for slot, value in zip(targets, queue.get(consumer), strict=True):
            regs[slot] = value
        strands: Strands = regs[agents]
        strands.moved()
        if body is not None:
            yield from _run(body, regs)
        yield PAUSE
        return None

    return Nested(start)


@implements(queues.QueueYieldOp)
def queue_yield(op: queues.QueueYieldOp, t: Translator) -> Step | None:
    if not op.operands:
        return None
    return copy_slots(t.flow(op.operands), t.yields[-1].results)
