"""The agents of one tile block, as coroutines.

A coroutine yields the operation of a switch point, after which other tile blocks may run as well; ``PAUSE``, after
which only other coroutines of its block may run; a :class:`Wait`, until which it cannot continue; or a
:class:`Started` coroutine.

Without a seed the order is fixed: a started coroutine runs at once, and each coroutine runs until it ends, waits, or
reaches a second switch point without a change of memory. With a seed every such point is a coin toss.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, Final

from xdsl.ir import Operation

from tilewright.diagnostics import Note
from tilewright.dialects.source_map import location_of
from tilewright.launching.agents import deadlock_message, waits_here
from tilewright.launching.codes import AGENT_DEADLOCK
from tilewright.machine.compile import CompiledBlock, Nested, Signal, Step, Translator
from tilewright.machine.faults import Fault
from tilewright.machine.state import Machine
from tilewright.machine.values import Registers


@dataclass(frozen=True, slots=True)
class Wait:
    """A condition that a coroutine waits for, in words; ``is_over`` tells whether it holds."""

    is_over: Callable[[], bool]
    what: str
    op: Operation


class _Pause:
    def __repr__(self) -> str:
        return "PAUSE"


PAUSE: Final = _Pause()


@dataclass(slots=True, eq=False)
class AgentCoroutine:
    """An agent, or the tile block itself, with the name used in reports."""

    name: str
    body: Generator[Any, None, Signal]
    has_ended: bool = False
    wait: Wait | None = None
    seen_version: int = -1

    @property
    def can_run(self) -> bool:
        """Whether it waits for nothing, or for a condition that holds."""
        return self.wait is None or self.wait.is_over()


@dataclass(frozen=True, slots=True)
class Started:
    """Yielded by the body of a block to start an agent."""

    coroutine: AgentCoroutine


@dataclass(slots=True)
class Coroutines:
    """The live coroutines of a tile block; the block's own comes first."""

    machine: Machine
    living: list[AgentCoroutine] = field(default_factory=list[AgentCoroutine])

    def run(self, main: AgentCoroutine) -> Generator[Operation, None, Signal]:
        """Run the block's own coroutine, and the agents it starts, until it ends.

        Yields the operations at which another tile block may run. Raises ``Fault`` where one of them faults, and
        where all wait.
        """
        self.living.append(main)
        current = main
        while True:
            current.wait = None
            try:
                event = next(current.body)
            except StopIteration as end:
                current.has_ended = True
                if current is main:
                    return end.value
                self.moved()
                position = self.living.index(current)
                self.living.remove(current)
                current = self._next(position)
                continue
            except Fault as fault:
                if current is not main:
                    fault.notes = (*fault.notes, Note(f"in {current.name}"))
                raise
            if isinstance(event, Operation):
                yield event
            current = self._after(current, event)

    def moved(self) -> None:
        """Record progress, which counts as a change of memory for the schedule."""
        self.machine.memory.version += 1

    def _after(self, current: AgentCoroutine, event: object) -> AgentCoroutine:
        """Return the coroutine that continues after one has yielded."""
        position = self.living.index(current)
        random = self.machine.random
        if isinstance(event, Started):
            self.living.append(event.coroutine)
            if random is None:
                return event.coroutine
        if isinstance(event, Wait):
            current.wait = event
            return self._next(position + 1)
        if random is not None:
            return self._next(position) if random.random() < 0.5 else current
        if isinstance(event, Operation):
            version, current.seen_version = current.seen_version, self.machine.memory.version
            if version == current.seen_version:
                return self._next(position + 1)
        return current

    def _next(self, position: int) -> AgentCoroutine:
        """Return a coroutine that can run: the first from a position on, or a random one."""
        order = [*self.living[position:], *self.living[:position]]
        ready = [coroutine for coroutine in order if coroutine.can_run]
        if not ready:
            raise self._deadlock()
        random = self.machine.random
        return ready[0] if random is None else ready[random.randrange(len(ready))]

    def _deadlock(self) -> Fault:
        waits = [
            (coroutine.name, coroutine.wait)
            for coroutine in self.living
            if coroutine.wait is not None
        ]
        fault = Fault(
            AGENT_DEADLOCK,
            deadlock_message([(name, wait.what) for name, wait in waits]),
            notes=[Note(waits_here(name), location_of(wait.op)) for name, wait in waits],
        )
        fault.op = waits[0][1].op
        return fault


def with_coroutines(t: Translator, body: CompiledBlock) -> CompiledBlock:
    """Return the body of a kernel whose agents take turns."""
    slot, machine = t.agents, t.machine
    assert slot is not None
    if not body.suspends:
        return body

    def start(regs: Registers) -> Generator[Operation, None, Signal]:
        coroutines = regs[slot] = Coroutines(machine)
        return (yield from coroutines.run(AgentCoroutine("the tile block", body.start(regs))))

    return CompiledBlock(body.run, start, True)


def pausing(t: Translator, step: Step) -> Step | Nested:
    """Return a step after which another agent may run, if there is any."""
    if t.agents is None:
        return step

    def start(regs: Registers) -> Generator[Any, None, Signal]:
        step(regs)
        yield PAUSE
        return None

    return Nested(start)


def waiting(wait: Wait) -> Generator[Any, None, None]:
    """Yield until the wait is over."""
    while not wait.is_over():
        yield wait
