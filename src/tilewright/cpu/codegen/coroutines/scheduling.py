"""Strands of execution in a tile block: the block itself, and its agents, as coroutines of LLVM.

A strand that has to wait, or that starts another, gives way. The tile block then calls the scheduler;
an agent suspends, which brings the scheduler back (``abi``, ``runtime.strands``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from llvmlite import ir
from xdsl.ir import Operation

from tilewright.analysis.tileaa import consumer_of, consumers_of
from tilewright.cpu.abi import (
    ALL_WAIT,
    CAN_GO_ON,
    END_STRANDS,
    LIST_STRANDS,
    LOOKED,
    RUN_STRANDS,
    STARTS,
    STRAND_BYTES,
    WENT_ON,
    DeadlockSite,
    Site,
)
from tilewright.cpu.codegen.analysis.arena import Arena
from tilewright.cpu.codegen.coroutines.coroutine import Coroutine, call
from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.host.callbacks import call_host
from tilewright.cpu.codegen.ir.elements import I1, I8, I32, I64, PTR, VOID
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.dialects.nv_tileaa.ops.functions import ExecuteOp
from tilewright.dialects.nv_tileaa.ops.queues import CreateQueueOp, QueueGetOp
from tilewright.launching.assertions import OperationSource

#: Where the fields of a strand begin.
_NEXT, _PREVIOUS, _KIND, _PLACE, _OBJECT, _CONSUMER, _ENDED, _EVENT, _NAME = (
    *(8, 16, 24, 28, 32, 40, 48, 52, 56),
)
FOREVER = 1 << 40
"""A position behind all operations."""


class _InMemory(ir.Constant):
    """How far behind the start of a thread's arena a place in the memory of an agent lies; known when
    the code of the whole kernel is made."""

    def __init__(self, memory: AgentMemory, offset: int) -> None:
        self.type = I64
        self._memory, self._offset = memory, offset

    def get_reference(self) -> str:
        assert self._memory.base is not None
        return str(self._memory.base + self._offset)


@dataclass(slots=True, eq=False)
class AgentMemory:
    """Part of a thread's arena that only one agent places buffers in."""

    arena: Arena = field(default_factory=Arena)
    base: int | None = None

    def at(self, offset: int) -> Value:
        return _InMemory(self, offset)


@dataclass(slots=True)
class Strands:
    """The strands of a kernel."""

    consumers: tuple[int, ...]
    """The numbers under which tuples of queues are taken, in the order in which queues count them."""
    site: int
    board: AgentMemory = field(default_factory=AgentMemory)
    """Where the strands themselves lie."""
    waiting: AgentMemory = field(default_factory=AgentMemory)
    """Room for a report of who waits where."""
    rings: AgentMemory = field(default_factory=AgentMemory)
    """Where queues lie that outlive the round of a loop that makes them."""
    memories: list[AgentMemory] = field(default_factory=list)
    report: DeadlockSite = field(default_factory=lambda: DeadlockSite([], []))
    """Their names, and the places where they wait."""

    def add(self, name: str) -> int:
        """A strand's number."""
        for memory in (self.board, self.waiting):
            memory.arena.place(STRAND_BYTES, 0, FOREVER)
        self.report.names.append(name)
        return len(self.report.names) - 1

    def place(self, op: Operation, what: str) -> int:
        """The number of a place where something is waited for."""
        self.report.places.append((what, OperationSource.of(op)))
        return len(self.report.places) - 1

    def settle(self, behind: int) -> int:
        """Put all memory of agents behind that of the tile block; where it ends."""
        for memory in (self.board, self.waiting, self.rings, *self.memories):
            memory.base, behind = behind, behind + memory.arena.size
        return behind


class Strand(Protocol):
    """What code is made for: the tile block, or an agent."""

    record: Value

    def give_way(self, f: FunctionEmitter, event: int = 0) -> None:
        """Let others go on. ``event`` tells the scheduler why; for a wait, what ``record`` says."""
        ...


def find_strands(ops: Sequence[Operation], sites: list[Site]) -> Strands | None:
    """The strands of a kernel that has agents or queues."""
    if not any(isinstance(op, ExecuteOp | CreateQueueOp) for op in ops):
        return None
    queues = [op for op in ops if isinstance(op, CreateQueueOp)]
    consumers = {consumer for op in queues for consumer in consumers_of(op.result)}
    consumers |= {consumer_of(op) for op in ops if isinstance(op, QueueGetOp)}
    strands = Strands(tuple(sorted(consumers)), len(sites))
    sites.append(strands.report)
    return strands


def field_of(b: Builder, record: Value, at: int) -> Value:
    return b.gep(record, [ir.Constant(I64, at)], source_etype=I8)


def _set(b: Builder, record: Value, at: int, value: Value) -> None:
    b.store(value, field_of(b, record, at))


class TileBlock:
    """The strand of the tile block, which calls the scheduler on its own stack."""

    def __init__(self, f: FunctionEmitter) -> None:
        """Where the kernel begins: no agent lives."""
        strands = f.unit.strands
        assert strands is not None
        strands.add("the tile block")
        b = f.builder
        self.record = b.gep(f.frame.arena, [strands.board.at(0)], source_etype=I8)
        for at in (_NEXT, _PREVIOUS):
            _set(b, self.record, at, self.record)
        _set(b, self.record, _KIND, ir.Constant(I32, 0))
        _set(b, self.record, _NAME, ir.Constant(I64, 0))

    def give_way(self, f: FunctionEmitter, event: int = 0) -> None:
        b = f.builder
        at = _PREVIOUS if event == STARTS else _NEXT
        first = b.load(field_of(b, self.record, at), typ=PTR)
        stop = b.load(b.gep(f.frame.runtime, [ir.Constant(I32, 3)], source_etype=PTR), typ=PTR)
        before = b.block
        again, on, halt, dead, out = (
            b.append_basic_block(name) for name in ("again", "on", "halt", "deadlock", "leave")
        )
        b.branch(again)
        b.position_at_end(again)
        wanted = b.phi(PTR)
        wanted.add_incoming(first, before)
        outcome = call(b, RUN_STRANDS, I32, [self.record, wanted, stop])
        choice = b.switch(outcome, halt)
        choice.add_case(ir.Constant(I32, WENT_ON), on)
        if f.waiting is not None:
            looked = b.append_basic_block("looked")
            choice.add_case(ir.Constant(I32, LOOKED), looked)
            b.position_at_end(looked)
            f.waiting.give_way(b)
            wanted.add_incoming(b.load(field_of(b, self.record, _ENDED), typ=PTR), b.block)
            b.branch(again)
        b.position_at_end(halt)
        b.cbranch(b.icmp_signed("==", outcome, ir.Constant(I32, ALL_WAIT)), dead, out)
        b.position_at_end(dead)
        self._report(f)
        b.branch(out)
        b.position_at_end(out)
        f.leave()
        b.position_at_end(on)

    def _report(self, f: FunctionEmitter) -> None:
        """Tell the host who waits for what, which ends the run."""
        strands, b = f.unit.strands, f.builder
        assert strands is not None
        payload = b.gep(f.frame.root, [strands.waiting.at(0)], source_etype=I8)
        count = call(b, LIST_STRANDS, I64, [self.record, payload])
        call_host(f, strands.site, payload, count)

    def end_all(self, b: Builder) -> None:
        """End the agents that still live."""
        call(b, END_STRANDS, VOID, [self.record])


class Agent:
    """The strand of an agent: its function is a coroutine, which this opens and closes."""

    def __init__(self, b: Builder, record: Value) -> None:
        """Where the function begins; the coroutine suspends at once."""
        self.record = record
        self._coroutine = Coroutine(b)

    def give_way(self, f: FunctionEmitter, event: int = 0) -> None:
        b = f.builder
        _set(b, self.record, _EVENT, ir.Constant(I32, event))
        self._coroutine.suspend(b)

    @contextmanager
    def stopping(self, f: FunctionEmitter) -> Iterator[None]:
        """While code is made, ``f.stopped`` is where the agent stays for good."""
        f.stopped = stopped = f.builder.append_basic_block("stay")
        yield
        with f.builder.goto_block(stopped):
            self._coroutine.suspend(f.builder)
            f.builder.branch(stopped)

    def close(self, b: Builder) -> None:
        """The end of the function: the agent has ended, and its frame is given back."""
        self._coroutine.close(b)


def start(f: FunctionEmitter, number: int, handle: Value) -> Value:
    """Put a strand behind all others, and let it run; the record of the strand."""
    strands, strand, b = f.unit.strands, f.strand, f.builder
    assert strands is not None and strand is not None
    block = b.gep(f.frame.root, [strands.board.at(0)], source_etype=I8)
    record = b.gep(f.frame.root, [strands.board.at(number * STRAND_BYTES)], source_etype=I8)
    last = b.load(field_of(b, block, _PREVIOUS), typ=PTR)
    b.store(handle, record)
    for at, value in ((_NEXT, block), (_PREVIOUS, last)):
        _set(b, record, at, value)
    for at in (_KIND, _ENDED):
        _set(b, record, at, ir.Constant(I32, 0))
    _set(b, record, _NAME, ir.Constant(I64, number))
    _set(b, last, _NEXT, record)
    _set(b, block, _PREVIOUS, record)
    strand.give_way(f, STARTS)
    return record


def wait(
    f: FunctionEmitter, op: Operation, kind: int, what: str, target: Value, consumer: int = 0
) -> None:
    """Go on when what a strand waits for has come; ``what`` names it in reports."""
    f.flush()
    strands, strand, b = f.unit.strands, f.strand, f.builder
    assert strands is not None and strand is not None
    record = strand.record
    place = strands.place(op, what)
    for at, value in (
        (_KIND, ir.Constant(I32, kind)),
        (_PLACE, ir.Constant(I32, place)),
        (_OBJECT, target),
        (_CONSUMER, ir.Constant(I64, consumer)),
    ):
        _set(b, record, at, value)
    hold, ahead = b.append_basic_block("hold"), b.append_basic_block("ahead")
    b.cbranch(call(b, CAN_GO_ON, I1, [record]), ahead, hold)
    b.position_at_end(hold)
    strand.give_way(f)
    b.branch(ahead)
    b.position_at_end(ahead)
    _set(b, record, _KIND, ir.Constant(I32, 0))
