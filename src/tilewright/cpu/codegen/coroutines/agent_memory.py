"""The memory of a kernel's agents, and their descriptions for the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from llvmlite import ir
from xdsl.ir import Operation

from tilewright.analysis.tileaa import consumer_of, consumers_of
from tilewright.cpu.abi import COROUTINE_BYTES, DeadlockSite, Site
from tilewright.cpu.codegen.analysis.arena import Arena
from tilewright.cpu.codegen.ir.elements import I64
from tilewright.cpu.codegen.ir.types import Value
from tilewright.dialects.nv_tileaa.ops.functions import ExecuteOp
from tilewright.dialects.nv_tileaa.ops.queues import CreateQueueOp, QueueGetOp
from tilewright.launching.assertions import OperationSource

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
        """How far a place in this memory lies behind the start of the thread's arena: a constant
        that is settled when ``base`` is."""
        return _InMemory(self, offset)


@dataclass(slots=True)
class Coroutines:
    """The coroutines of a kernel."""

    consumers: tuple[int, ...]
    """The numbers under which tuples of queues are taken, in the order in which queues count them."""
    site: int
    board: AgentMemory = field(default_factory=AgentMemory)
    """Where the coroutines themselves lie."""
    waiting: AgentMemory = field(default_factory=AgentMemory)
    """Room for a report of who waits where."""
    rings: AgentMemory = field(default_factory=AgentMemory)
    """Where queues lie that outlive the iteration of a loop that makes them."""
    memories: list[AgentMemory] = field(default_factory=list)
    report: DeadlockSite = field(default_factory=lambda: DeadlockSite([], []))
    """Their names, and the places where they wait."""

    def add(self, name: str) -> int:
        """A coroutine's number."""
        for memory in (self.board, self.waiting):
            memory.arena.place(COROUTINE_BYTES, 0, FOREVER)
        self.report.names.append(name)
        return len(self.report.names) - 1

    def place(self, op: Operation, what: str) -> int:
        """The number of a place where something is waited for."""
        self.report.places.append((what, OperationSource.of(op)))
        return len(self.report.places) - 1

    def settle(self, behind: int) -> int:
        """Put all memory of agents behind that of the tile block, which ends at byte ``behind``; where it ends."""
        for memory in (self.board, self.waiting, self.rings, *self.memories):
            memory.base, behind = behind, behind + memory.arena.size
        return behind


def find_coroutines(ops: Sequence[Operation], sites: list[Site]) -> Coroutines | None:
    """The coroutines of a kernel that has agents or queues; None for others. Their report is added to ``sites``."""
    if not any(isinstance(op, ExecuteOp | CreateQueueOp) for op in ops):
        return None
    queues = [op for op in ops if isinstance(op, CreateQueueOp)]
    consumers = {consumer for op in queues for consumer in consumers_of(op.result)}
    consumers |= {consumer_of(op) for op in ops if isinstance(op, QueueGetOp)}
    coroutines = Coroutines(tuple(sorted(consumers)), len(sites))
    sites.append(coroutines.report)
    return coroutines
