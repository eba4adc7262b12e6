"""The coroutines of a tile block: the block itself and its agents, as LLVM coroutines.

A coroutine that must wait, or that starts another one, yields. The tile block then calls the scheduler; an agent suspends,
which returns to the scheduler (``abi``, ``runtime.coroutines``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir
from xdsl.ir import Operation

from tilewright.cpu.abi import (
    ALL_WAIT,
    CAN_GO_ON,
    COROUTINE_BYTES,
    END_COROUTINES,
    LIST_COROUTINES,
    LOOKED,
    RUN_COROUTINES,
    STARTS,
    WENT_ON,
)
from tilewright.cpu.codegen.coroutines.coroutine import Coroutine, call
from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.host.callbacks import call_host
from tilewright.cpu.codegen.ir.elements import I1, I8, I32, I64, PTR, VOID
from tilewright.cpu.codegen.ir.types import Builder, Value

#: Where the fields of a coroutine begin.
_NEXT, _PREVIOUS, _KIND, _PLACE, _OBJECT, _CONSUMER, _ENDED, _EVENT, _NAME = (
    *(8, 16, 24, 28, 32, 40, 48, 52, 56),
)


def field_of(b: Builder, record: Value, at: int) -> Value:
    """The address of a field of a coroutine's record, ``at`` bytes behind its beginning."""
    return b.gep(record, [ir.Constant(I64, at)], source_etype=I8)


def _set(b: Builder, record: Value, at: int, value: Value) -> None:
    b.store(value, field_of(b, record, at))


class TileBlock:
    """The coroutine of the tile block, which calls the scheduler on its own stack."""

    def __init__(self, f: FunctionEmitter) -> None:
        """Where the kernel begins: no agent lives."""
        coroutines = f.unit.coroutines
        assert coroutines is not None
        coroutines.add("the tile block")
        b = f.builder
        self.record = b.gep(f.frame.arena, [coroutines.board.at(0)], source_etype=I8)
        for at in (_NEXT, _PREVIOUS):
            _set(b, self.record, at, self.record)
        _set(b, self.record, _KIND, ir.Constant(I32, 0))
        _set(b, self.record, _NAME, ir.Constant(I64, 0))

    def give_way(self, f: FunctionEmitter, event: int = 0) -> None:
        """Run other coroutines until one gives back control; leaves the kernel where the launch stops
        or no coroutine can go on."""
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
        outcome = call(b, RUN_COROUTINES, I32, [self.record, wanted, stop])
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
        coroutines, b = f.unit.coroutines, f.builder
        assert coroutines is not None
        payload = b.gep(f.frame.root, [coroutines.waiting.at(0)], source_etype=I8)
        count = call(b, LIST_COROUTINES, I64, [self.record, payload])
        call_host(f, coroutines.site, payload, count)

    def end_all(self, b: Builder) -> None:
        """End the agents that still live."""
        call(b, END_COROUTINES, VOID, [self.record])


class Agent:
    """The coroutine of an agent: its function is a coroutine, which this opens and closes."""

    def __init__(self, b: Builder, record: Value) -> None:
        """Where the function begins; the coroutine suspends at once."""
        self.record = record
        self._coroutine = Coroutine(b)

    def give_way(self, f: FunctionEmitter, event: int = 0) -> None:
        """Suspend the agent, and tell the scheduler the ``event`` that it has reached."""
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
    """Put a coroutine behind all others, and let it run; the record of the coroutine."""
    coroutines, coroutine, b = f.unit.coroutines, f.coroutine, f.builder
    assert coroutines is not None and coroutine is not None
    block = b.gep(f.frame.root, [coroutines.board.at(0)], source_etype=I8)
    record = b.gep(f.frame.root, [coroutines.board.at(number * COROUTINE_BYTES)], source_etype=I8)
    last = b.load(field_of(b, block, _PREVIOUS), typ=PTR)
    b.store(handle, record)
    for at, value in ((_NEXT, block), (_PREVIOUS, last)):
        _set(b, record, at, value)
    for at in (_KIND, _ENDED):
        _set(b, record, at, ir.Constant(I32, 0))
    _set(b, record, _NAME, ir.Constant(I64, number))
    _set(b, last, _NEXT, record)
    _set(b, block, _PREVIOUS, record)
    coroutine.give_way(f, STARTS)
    return record


def wait(
    f: FunctionEmitter, op: Operation, kind: int, what: str, target: Value, consumer: int = 0
) -> None:
    """Go on when what a coroutine waits for has come; ``what`` names it in reports."""
    f.flush()
    coroutines, coroutine, b = f.unit.coroutines, f.coroutine, f.builder
    assert coroutines is not None and coroutine is not None
    record = coroutine.record
    place = coroutines.place(op, what)
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
    coroutine.give_way(f)
    b.branch(ahead)
    b.position_at_end(ahead)
    _set(b, record, _KIND, ir.Constant(I32, 0))
