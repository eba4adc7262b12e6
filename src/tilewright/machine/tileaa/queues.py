"""Queues: bounded channels of tuples between the agents of a tile block.

A tuple leaves the queue when every consumer has received it. The consumers are the indices used by any get from the
queue, wherever the queue is passed.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from tilewright.analysis.tileaa.agents import consumer_of, consumers_of
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa.ops import queues
from tilewright.machine.compile import (
    CompiledBlock,
    Nested,
    Scope,
    Step,
    Translator,
    implements,
)
from tilewright.machine.tileaa.coroutines import PAUSE, Coroutines, Wait, waiting
from tilewright.machine.values import Registers

Tuple = tuple[object, ...]


@dataclass(slots=True, eq=False)
class Queue:
    """The contents of a queue. ``taken`` counts the entries each consumer has received so far."""

    depth: int
    consumers: tuple[int, ...]
    held: deque[Tuple] = field(default_factory=deque[Tuple])
    put_count: int = 0
    taken: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.taken = dict.fromkeys(self.consumers, 0)

    def has_room(self) -> bool:
        """Whether a producer can put: fewer than ``depth`` entries wait for some consumer."""
        return len(self.held) < self.depth

    def has_more(self, consumer: int) -> bool:
        """Whether there is an entry that a consumer has not received."""
        return self.taken[consumer] < self.put_count

    def put(self, values: Tuple) -> None:
        """Append an entry. The caller must have checked ``has_room``."""
        self.held.append(values)
        self.put_count += 1

    def get(self, consumer: int) -> Tuple:
        """Return the next entry of a consumer, and remove entries that all consumers have received."""
        first = self.put_count - len(self.held)
        found = self.held[self.taken[consumer] - first]
        self.taken[consumer] += 1
        while self.held and min(self.taken.values()) > self.put_count - len(self.held):
            self.held.popleft()
        return found


@implements(queues.CreateQueueOp)
def _create_queue(op: queues.CreateQueueOp, t: Translator) -> Step:
    depth, consumers, result = int_property(op, "depth"), consumers_of(op.result), t.slot(op.result)

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
def _put(op: queues.QueuePutOp, t: Translator) -> Nested:
    """A region computes the tuple before waiting for room."""
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
        coroutines: Coroutines = regs[agents]
        coroutines.moved()
        yield PAUSE
        return None

    return Nested(start)


@implements(queues.QueueGetOp)
def _get(op: queues.QueueGetOp, t: Translator) -> Nested:
    """A region runs on the tuple after it has left the queue."""
    queue_slot, consumer = t.slot(op.queue), consumer_of(op)
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
        coroutines: Coroutines = regs[agents]
        coroutines.moved()
        if body is not None:
            yield from _run(body, regs)
        yield PAUSE
        return None

    return Nested(start)
