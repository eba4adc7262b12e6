"""The state of a run: clusters of blocks of warps, their barriers, and what they wait for."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from xdsl.ir import Operation

from tilewright.launching.time_limits import TIME_LIMIT, over_message
from tilewright.numerics.arrays import Array
from tilewright.simulator.address_space import AddressSpace
from tilewright.simulator.counters import Counters
from tilewright.simulator.faults import DiagnosticCollector
from tilewright.simulator.global_conflicts import GlobalLog
from tilewright.simulator.timeline import TensorCores, Timeline

if TYPE_CHECKING:
    from tilewright.simulator.memory import Buffer
    from tilewright.simulator.polling import Turns
    from tilewright.simulator.proxies import Fence, GlobalProxies
    from tilewright.simulator.recording import Recorder
    from tilewright.simulator.shadow import Shadow

WARP_SIZE = 32
#: A clock that no warp has seen: what carries it is not finished.
NEVER = 1 << 30

Clock = np.ndarray[Any, np.dtype[np.int64]]
"""For each warp and barrier of the cluster, how much of it has been seen."""


class Wait(Protocol):
    """What a warp may wait for; ``time`` is when it happened, in the units of the timeline."""

    op: Operation

    def ready(self) -> bool:
        """Whether the warp can go on; asked again and again, so it changes nothing that others see."""
        ...

    def finish(self, warp: Warp) -> None:
        """Let the warp go on: it sees what it has waited for, and its time is no earlier than that."""
        ...

    def describe(self) -> str:
        """What the warp waits for, and who is missing, for the message of a deadlock."""
        ...


class FallApart:
    """What a group yields where its warps must go on one by one."""


FALL_APART = FallApart()


class Polls:
    """What a warp yields that goes round a loop without changing global memory.

    ``op`` is the loop. ``same``: a turn read what the one before it read, and begins with the same values.
    """

    __slots__ = ("asked", "op", "same")

    def __init__(self, op: Operation, asked: Asked | None, same: bool):
        self.op, self.asked, self.same = op, asked, same


class GiveWay:
    """What a warp yields where another cluster may take over: behind an atomic access.

    ``takes``: it is one by which locks are taken.
    """

    __slots__ = ("takes",)

    def __init__(self, takes: bool):
        self.takes = takes


Asked = tuple["Operation", Any, Any]
"""A read of global memory: the operation, the places, and what was there."""

Coroutine = Generator["Wait | FallApart | Polls | GiveWay | None", None, None]
"""Yields what the warp waits for, or None where another warp may take over."""


@dataclass(slots=True, eq=False)
class Launch:
    """What all blocks of a launch share."""

    arch: Any
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    numerics: Any
    counters: Counters
    findings: DiagnosticCollector
    rng: random.Random
    timeline: Timeline
    max_steps: int
    print_to: Callable[[str], object]
    in_groups: bool = True
    """Whether warps that execute the same go together."""
    printed: int = 0
    addresses: AddressSpace = field(default_factory=AddressSpace)
    """The global memory that pointers reach."""
    time_limit: float | None = None
    """Seconds that it may take."""
    deadline: float | None = None
    proxies: GlobalProxies | None = None
    """What was written to the memory of tensor maps; None where there are none."""
    events: int = 0
    """Numbers stores to that memory and proxy fences."""
    seed: int = 0
    takes_turns: bool = False
    """Whether several clusters take turns although none of them waits."""
    registers: int = 0
    """What each thread has when a block begins."""
    version: int = 0
    """Grows with everything that changes global memory."""
    recorder: Recorder | None = None
    """Told what operations do; only its blocks run, and what cannot be written is not."""

    def __post_init__(self) -> None:
        if self.time_limit is not None:
            self.deadline = monotonic() + self.time_limit

    def gives_way(self, where: GiveWay) -> bool:
        """Whether a cluster lets another one take over behind an atomic access."""
        return self.takes_turns and (where.takes or self.seed % 4 != 1)

    def check_time(self, where: str = "", op: Operation | None = None) -> None:
        """A fault where the time is over."""
        if (
            self.time_limit is not None
            and self.deadline is not None
            and monotonic() > self.deadline
        ):
            from tilewright.simulator.faults import Fault

            raise Fault(TIME_LIMIT, over_message(self.time_limit, where), op)


@dataclass(slots=True, eq=False)
class AsyncCopy:
    """A TMA copy under way. ``land`` does it."""

    op: Operation
    warp: Warp
    land: Callable[[], None]
    end: float


@dataclass(slots=True, eq=False)
class Cluster:
    """Blocks that run together: one, unless the launch has clusters."""

    launch: Launch
    index: tuple[int, int, int]
    blocks: list[Block] = field(default_factory=list)
    copies: list[AsyncCopy] = field(default_factory=list)
    progress: int = 0
    """Grows with everything that may end a wait."""
    fences: dict[int, list[Fence]] = field(default_factory=dict)
    """The proxy fences of global memory, by warp."""
    barrier: ClusterBarrier | None = None

    @property
    def warps(self) -> list[Warp]:
        """The warps of all its blocks."""
        return [warp for block in self.blocks for warp in block.warps]


@dataclass(slots=True, eq=False)
class ClusterBarrier:
    """The barrier of a cluster: generation, who has arrived, what has been seen."""

    generation: int = 0
    arrived: set[int] = field(default_factory=set)
    clock: Clock | None = None
    done_clock: Clock | None = None
    time: float = 0.0


@dataclass(slots=True, eq=False)
class MBarrier:
    """An mbarrier: the logical fields of its 64 bits, and what has been seen by arrivals."""

    clock_index: int
    name: str
    block: Block
    valid: bool = False
    published: bool = False
    """Whether a fence has made its initialization known to the async proxy."""
    init_clock_index: int = 0
    init_clock: int = 0
    phase: int = 0
    expected: int = 0
    pending: int = 0
    tx: int = 0
    clock: Clock | None = None
    fenced: Clock | None = None
    done_clock: Clock | None = None
    done_fenced: Clock | None = None
    init_op: Operation | None = None
    time: float = 0.0
    done_time: float = 0.0
    last_load: tuple[int, Operation] | None = None
    """The youngest phase that a TMA load belongs to, and the load."""
    arrivals: dict[int, int] = field(default_factory=dict)
    """How many arrivals of each warp in the current phase."""

    def settle(self) -> None:
        """End the phase if nothing is missing."""
        if self.pending or self.tx or not self.valid:
            return
        clock = self.clock if self.clock is not None else self.block.new_clock()
        clock[self.clock_index] = self.phase + 1
        fenced = self.fenced if self.fenced is not None else self.block.new_clock()
        self.done_clock, self.done_fenced = clock, fenced
        # What one phase has seen, the next has seen, too.
        self.clock, self.fenced = clock.copy(), fenced.copy()
        self.done_time = self.time
        self.phase += 1
        self.pending = self.expected
        self.arrivals = {}
        self.block.cluster.progress += 1

    def release(self, warp: Warp) -> None:
        """Take in what a warp has seen, which then goes on with a new clock."""
        if self.clock is None:
            self.clock, self.fenced = self.block.new_clock(), self.block.new_clock()
        assert self.fenced is not None
        np.maximum(self.clock, warp.clock, out=self.clock)
        np.maximum(self.fenced, warp.fenced, out=self.fenced)
        self.time = max(self.time, warp.time)
        warp.tick()
        self.block.cluster.progress += 1

    def missing(self) -> str:
        """What the current phase lacks."""
        parts = []
        if self.pending:
            parts.append(f"{self.pending} of {self.expected} arrivals are missing")
        if self.tx > 0:
            parts.append(f"{self.tx} bytes of copies are missing")
        if self.tx < 0:
            parts.append(f"copies brought {-self.tx} bytes more than expected")
        return " and ".join(parts) or "nothing is missing"


@dataclass(slots=True, eq=False)
class NamedBarrier:
    """One of the 16 barriers of a block."""

    number: int
    generation: int = 0
    arrived: int = 0
    wanted: int | None = None
    warps: list[int] = field(default_factory=list)
    clock: Clock | None = None
    fenced: Clock | None = None
    done_clock: Clock | None = None
    done_fenced: Clock | None = None
    time: float = 0.0
    done_time: float = 0.0


@dataclass(slots=True, eq=False)
class Block:
    """A block of threads with its shared memory."""

    cluster: Cluster
    index: tuple[int, int, int]
    rank: int
    shared: Buffer
    shadow: Shadow
    clock_entries: int
    first_clock_index: int
    warps: list[Warp] = field(default_factory=list)
    mbarriers: dict[Any, list[MBarrier]] = field(default_factory=dict)
    named: dict[int, NamedBarrier] = field(default_factory=dict)
    products: dict[int, list[Operation]] = field(default_factory=dict)
    """The products that the warps of each warpgroup have executed, in order."""
    brought: dict[Any, dict[int, Array]] = field(default_factory=dict)
    """What warps brought to a reduction of the block, by its round and their numbers."""
    tensor_cores: TensorCores = field(default_factory=TensorCores)
    global_log: GlobalLog = field(default_factory=GlobalLog)
    registers: list[Any] = field(default_factory=list)
    """Those that every warp begins with."""
    free_registers: int = 0
    """For each lane of a warp: those that its warps have given back."""
    loops: dict[tuple[Operation, int], Turns] = field(default_factory=dict)
    """The loops that may be waiting, by the warp that goes round them (``polling``)."""
    clocks_before_barriers: int = 0
    barriers_made: int = 0

    def new_clock(self) -> Clock:
        """A clock of zeros, one entry for each warp or barrier that orders memory."""
        return np.zeros(self.clock_entries, np.int64)

    def barrier(self, number: int) -> NamedBarrier:
        """The named barrier of that number, 0 to 15, made when it is first asked for."""
        found = self.named.get(number)
        if found is None:
            found = self.named[number] = NamedBarrier(number)
        return found

    @property
    def live_warps(self) -> int:
        """How many warps have not ended."""
        return sum(not warp.ended for warp in self.warps)


@dataclass(slots=True, eq=False)
class AsyncGroups:
    """Asynchronous operations of one kind of a warp, by lane: the group of each, 0 while open."""

    committed: Array
    done: Array
    open: list[Any] = field(default_factory=list)
    closed: list[Any] = field(default_factory=list)
    read: list[Any] = field(default_factory=list)
    """Of stores, those whose source has been read, and whose end has not been waited for."""

    @classmethod
    def new(cls) -> AsyncGroups:
        """No group, closed or done, of any lane."""
        return cls(np.zeros(WARP_SIZE, np.int64), np.zeros(WARP_SIZE, np.int64))


@dataclass(slots=True, eq=False)
class Warp:
    """32 lanes that go together. ``mask`` are those that execute the current operation.

    ``groups.Group`` stands for several warps in the same way; steps that take any number of lanes
    see ``size`` of them.
    """

    launch: Launch
    block: Block
    index: int
    clock_index: int
    regs: list[Any]
    exists: Array
    mask: Array
    active: int
    clock: Clock
    fenced: Clock
    thread: tuple[Any, Any, Any] = (0, 0, 0)
    time: float = 0.0
    steps: int = 0
    ended: bool = False
    spins: int = 0
    waiting: Wait | None = None
    asked: Asked | None = None
    """Its last read of global memory."""
    polls: Polls | None = None
    """What the warp yielded last, if that was one."""
    copies: AsyncGroups = field(default_factory=AsyncGroups.new)
    stores: AsyncGroups = field(default_factory=AsyncGroups.new)
    products: list[Any] = field(default_factory=list)
    product_groups: int = 0
    products_done: int = 0
    products_begun: int = 0
    product_count: int = 0
    """Numbers the asynchronous operations that read shared memory."""
    cluster_generation: int = 0
    weight: float = 1.0
    """How many turns of loops that are recorded the current one stands for."""
    size: int = WARP_SIZE
    members: tuple[Warp, ...] = ()
    register_count: int = 0
    """The registers of each thread, as far as they are traded."""
    trades: list[Operation] = field(default_factory=list)
    """The trades of registers that the warp has made or waits for."""
    version: int = 0
    """Grows whenever ``clock`` changes."""
    path: list[Any] = field(default_factory=list)
    """Where the warp is, from the outermost region in; see ``compile``."""
    passed: tuple[Any, ...] | None = None
    """The barrier of the block that the warp stands behind."""
    _name: str = ""

    def __post_init__(self) -> None:
        self.members = (self,)

    @property
    def full(self) -> bool:
        """Whether all lanes take part."""
        return self.active == self.size

    @property
    def converged(self) -> bool:
        """Whether all lanes that there are take part."""
        return self.active == int(self.exists.sum())

    def tick(self) -> None:
        """Begin a new interval, which nobody has seen."""
        self.clock[self.clock_index] += 1
        self.version += 1

    def acquire(self, clock: Clock | None, fenced: Clock | None) -> None:
        """See what others have released."""
        self.version += 1
        if clock is not None:
            np.maximum(self.clock, clock, out=self.clock)
        if fenced is not None:
            np.maximum(self.fenced, fenced, out=self.fenced)

    def set_mask(self, mask: Array) -> None:
        """Which lanes take part."""
        self.mask = mask
        self.active = int(np.count_nonzero(mask))

    def set_weight(self, weight: float) -> None:
        """How many blocks the warp stands for in counts."""
        self.weight = weight

    def settle(self) -> None:
        """Bring the times of the members up to date."""

    def name(self) -> str:
        """What messages call the warp; with its block where the grid has several."""
        if not self._name:
            block = self.block
            where = ""
            if block.cluster.launch.grid != (1, 1, 1):
                where = f" of block {block.index}"
            self._name = f"warp {self.index}{where}"
        return self._name

    def count_step(self, op: Operation) -> None:
        """A turn of a loop; a fault where there are too many, or the time is over."""
        self.steps += 1
        if self.launch.recorder is not None:
            self.launch.recorder.step(self, op)
        if self.launch.deadline is not None:
            self.launch.check_time(f"{self.name()} was in this loop", op)
        if self.steps > self.launch.max_steps:
            from tilewright.simulator import codes
            from tilewright.simulator.faults import Fault

            raise Fault(
                codes.STEP_LIMIT,
                f"{self.name()} took {self.launch.max_steps} turns of loops without ending",
                op,
            )
