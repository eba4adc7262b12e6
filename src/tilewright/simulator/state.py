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
#: A clock value that no warp reaches, for operations that are still in flight.
NEVER = 1 << 30

Clock = np.ndarray[Any, np.dtype[np.int64]]
"""A vector clock: for each warp and barrier of the cluster, the latest value that is known."""


class Wait(Protocol):
    """A condition that a warp waits for. ``time`` is when it became true, in units of the timeline."""

    op: Operation

    def ready(self) -> bool:
        """Whether the warp can continue. Called repeatedly, so it must not change any state."""
        ...

    def finish(self, warp: Warp) -> None:
        """Complete the wait: the warp acquires the clocks of what it waited for, and its time advances to that of the
        event.
        """
        ...

    def describe(self) -> str:
        """What the warp waits for, and which warps are missing, for the message of a deadlock."""
        ...


class FallApart:
    """Yielded by a group whose warps must continue one by one."""


FALL_APART = FallApart()


class Polls:
    """Yielded by a warp whose loop iterates without a change of global memory.

    ``op`` is the loop. ``same``: the iteration has read what the one before it read, and the next starts from the same
    values.
    """

    __slots__ = ("asked", "op", "same")

    def __init__(self, op: Operation, asked: Asked | None, same: bool):
        self.op, self.asked, self.same = op, asked, same


class GiveWay:
    """Yielded after an atomic access, where another cluster may be scheduled.

    ``takes``: the access is of a kind by which locks are taken.
    """

    __slots__ = ("takes",)

    def __init__(self, takes: bool):
        self.takes = takes


Asked = tuple["Operation", Any, Any]
"""A read of global memory: the operation, the positions, and the values read."""

Coroutine = Generator["Wait | FallApart | Polls | GiveWay | None", None, None]
"""A suspended warp. Yields what it waits for, or None where another warp may be scheduled."""


@dataclass(slots=True, eq=False)
class Launch:
    """State that all blocks of a launch share."""

    arch: Any
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    numerics: Any
    counters: Counters
    collector: DiagnosticCollector
    rng: random.Random
    timeline: Timeline
    max_steps: int
    print_to: Callable[[str], object]
    in_groups: bool = True
    """Whether warps that execute the same steps run as a group."""
    printed: int = 0
    addresses: AddressSpace = field(default_factory=AddressSpace)
    """The global memory that pointers may refer to."""
    time_limit: float | None = None
    """Time limit in seconds."""
    deadline: float | None = None
    proxies: GlobalProxies | None = None
    """Stores to memory that tensor maps cover, for proxy checks; None if there are no tensor maps."""
    events: int = 0
    """Counter of stores to that memory and of proxy fences."""
    seed: int = 0
    takes_turns: bool = False
    """Whether several clusters are interleaved even if none of them waits."""
    registers: int = 0
    """Registers per thread when a block starts."""
    version: int = 0
    """Incremented by each change of global memory."""
    recorder: Recorder | None = None
    """Receives what operations do. Only its blocks run, and stores to read-only memory are dropped."""

    def __post_init__(self) -> None:
        if self.time_limit is not None:
            self.deadline = monotonic() + self.time_limit

    def gives_way(self, where: GiveWay) -> bool:
        """Whether another cluster is scheduled after this atomic access."""
        return self.takes_turns and (where.takes or self.seed % 4 != 1)

    def check_time(self, where: str = "", op: Operation | None = None) -> None:
        """Raise ``Fault`` if the time limit is exceeded, by the wall clock; ``where`` and ``op`` say where the launch
        was.
        """
        if (
            self.time_limit is not None
            and self.deadline is not None
            and monotonic() > self.deadline
        ):
            from tilewright.simulator.faults import Fault

            raise Fault(TIME_LIMIT, over_message(self.time_limit, where), op)


@dataclass(slots=True, eq=False)
class AsyncCopy:
    """A TMA copy in flight. ``land`` performs it."""

    op: Operation
    warp: Warp
    land: Callable[[], None]
    end: float


@dataclass(slots=True, eq=False)
class Cluster:
    """The blocks of a cluster, which run together; one block if the launch has no clusters."""

    launch: Launch
    index: tuple[int, int, int]
    blocks: list[Block] = field(default_factory=list)
    copies: list[AsyncCopy] = field(default_factory=list)
    progress: int = 0
    """Incremented by each event that may end a wait."""
    fences: dict[int, list[Fence]] = field(default_factory=dict)
    """The proxy fences of global memory, by warp."""
    barrier: ClusterBarrier | None = None

    @property
    def warps(self) -> list[Warp]:
        """The warps of all its blocks."""
        return [warp for block in self.blocks for warp in block.warps]


@dataclass(slots=True, eq=False)
class ClusterBarrier:
    """The barrier of a cluster: its generation, the warps that have arrived, and their joined clocks."""

    generation: int = 0
    arrived: set[int] = field(default_factory=set)
    clock: Clock | None = None
    done_clock: Clock | None = None
    time: float = 0.0


@dataclass(slots=True, eq=False)
class MBarrier:
    """An mbarrier: the logical fields of its 64 bits, and the joined clocks of its arrivals."""

    clock_index: int
    name: str
    block: Block
    valid: bool = False
    published: bool = False
    """Whether a fence has made its initialization visible to the async proxy."""
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
    """The latest phase that a TMA load signals, and that load."""
    arrivals: dict[int, int] = field(default_factory=dict)
    """The number of arrivals of each warp in the current phase."""

    def settle(self) -> None:
        """Complete the phase if neither arrivals nor bytes are missing."""
        if self.pending or self.tx or not self.valid:
            return
        clock = self.clock if self.clock is not None else self.block.new_clock()
        clock[self.clock_index] = self.phase + 1
        fenced = self.fenced if self.fenced is not None else self.block.new_clock()
        self.done_clock, self.done_fenced = clock, fenced
        # Clocks are cumulative: a phase includes what earlier phases have released.
        self.clock, self.fenced = clock.copy(), fenced.copy()
        self.done_time = self.time
        self.phase += 1
        self.pending = self.expected
        self.arrivals = {}
        self.block.cluster.progress += 1

    def release(self, warp: Warp) -> None:
        """Join the clock of a warp into the barrier's (release), and advance the warp's own entry."""
        if self.clock is None:
            self.clock, self.fenced = self.block.new_clock(), self.block.new_clock()
        assert self.fenced is not None
        np.maximum(self.clock, warp.clock, out=self.clock)
        np.maximum(self.fenced, warp.fenced, out=self.fenced)
        self.time = max(self.time, warp.time)
        warp.tick()
        self.block.cluster.progress += 1

    def missing(self) -> str:
        """What the current phase is still waiting for."""
        parts = []
        if self.pending:
            parts.append(f"{self.pending} of {self.expected} arrivals are missing")
        if self.tx > 0:
            parts.append(f"{self.tx} bytes of copies are missing")
        if self.tx < 0:
            parts.append(f"copies delivered {-self.tx} bytes more than expected")
        return " and ".join(parts) or "nothing is missing"


@dataclass(slots=True, eq=False)
class NamedBarrier:
    """One of the 16 named barriers of a block."""

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
    """The contributions of warps to a reduction over the block, by reduction and by warp."""
    tensor_cores: TensorCores = field(default_factory=TensorCores)
    global_log: GlobalLog = field(default_factory=GlobalLog)
    registers: list[Any] = field(default_factory=list)
    """The initial registers of every warp."""
    free_registers: int = 0
    """Registers per lane of a warp that its warps have released."""
    loops: dict[tuple[Operation, int], Turns] = field(default_factory=dict)
    """Loops that may be polling, by operation and warp (``polling``)."""
    clocks_before_barriers: int = 0
    barriers_made: int = 0

    def new_clock(self) -> Clock:
        """A vector clock of zeros, with an entry for each warp and barrier."""
        return np.zeros(self.clock_entries, np.int64)

    def barrier(self, number: int) -> NamedBarrier:
        """The named barrier of this number, 0 to 15, created on first use."""
        found = self.named.get(number)
        if found is None:
            found = self.named[number] = NamedBarrier(number)
        return found

    @property
    def live_warps(self) -> int:
        """The number of warps that have not ended."""
        return sum(not warp.ended for warp in self.warps)


@dataclass(slots=True, eq=False)
class AsyncGroups:
    """Asynchronous operations of one kind of a warp. ``committed`` and ``done`` are group numbers by lane."""

    committed: Array
    done: Array
    open: list[Any] = field(default_factory=list)
    closed: list[Any] = field(default_factory=list)
    read: list[Any] = field(default_factory=list)
    """Stores whose source has been read, but whose completion has not been waited for."""

    @classmethod
    def new(cls) -> AsyncGroups:
        """The initial state: no lane has committed a group."""
        return cls(np.zeros(WARP_SIZE, np.int64), np.zeros(WARP_SIZE, np.int64))


@dataclass(slots=True, eq=False)
class Warp:
    """A warp of 32 lanes. ``mask`` selects those that execute the current operation.

    ``groups.Group`` stands for several warps in the same way; steps for any number of lanes see ``size`` of them.
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
    """The last value that the warp yielded, if it was a ``Polls``."""
    copies: AsyncGroups = field(default_factory=AsyncGroups.new)
    stores: AsyncGroups = field(default_factory=AsyncGroups.new)
    products: list[Any] = field(default_factory=list)
    product_groups: int = 0
    products_done: int = 0
    products_begun: int = 0
    product_count: int = 0
    """Counter of asynchronous operations that read shared memory."""
    cluster_generation: int = 0
    weight: float = 1.0
    """The number of iterations of recorded loops that the current one represents."""
    size: int = WARP_SIZE
    members: tuple[Warp, ...] = ()
    register_count: int = 0
    """The registers of each thread, as ``setmaxnreg`` has changed them."""
    trades: list[Operation] = field(default_factory=list)
    """The changes of the register count that the warp has made or waits for."""
    version: int = 0
    """Incremented whenever ``clock`` changes."""
    path: list[Any] = field(default_factory=list)
    """The position of the warp, from the outermost region inward; see ``compile``."""
    passed: tuple[Any, ...] | None = None
    """The barrier of the block that the warp has just passed."""
    _name: str = ""

    def __post_init__(self) -> None:
        self.members = (self,)

    @property
    def full(self) -> bool:
        """Whether all lanes are active."""
        return self.active == self.size

    @property
    def converged(self) -> bool:
        """Whether all existing lanes are active."""
        return self.active == int(self.exists.sum())

    def tick(self) -> None:
        """Advance the warp's own clock entry: what follows has not been released to anyone."""
        self.clock[self.clock_index] += 1
        self.version += 1

    def acquire(self, clock: Clock | None, fenced: Clock | None) -> None:
        """Join clocks that others have released."""
        self.version += 1
        if clock is not None:
            np.maximum(self.clock, clock, out=self.clock)
        if fenced is not None:
            np.maximum(self.fenced, fenced, out=self.fenced)

    def set_mask(self, mask: Array) -> None:
        """Set the active lanes."""
        self.mask = mask
        self.active = int(np.count_nonzero(mask))

    def set_weight(self, weight: float) -> None:
        """Set how many iterations the warp represents in counts."""
        self.weight = weight

    def settle(self) -> None:
        """Add the time of a group to its members; nothing for a single warp."""

    def name(self) -> str:
        """The name of the warp in messages, with its block if the grid has several."""
        if not self._name:
            block = self.block
            where = ""
            if block.cluster.launch.grid != (1, 1, 1):
                where = f" of block {block.index}"
            self._name = f"warp {self.index}{where}"
        return self._name

    def count_step(self, op: Operation) -> None:
        """Count an iteration of a loop. Raises ``Fault`` if there are too many, or the time limit is exceeded."""
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
                f"{self.name()} exceeded {self.launch.max_steps} loop iterations",
                op,
            )
