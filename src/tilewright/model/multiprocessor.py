"""Event-driven simulation of a block alone on a multiprocessor.

Each warp executes its path in order. It waits for scoreboards, for units in use, for block barriers, for phases of
mbarriers until all arrivals and bytes are there, and for groups of copies and of products. Units serve in order of
arrival: issue, pipes and tensor unit of each quarter, banks of shared memory, L1, bytes from L2, and one
multiprocessor's share of DRAM bandwidth. A wait that nothing in the code would end is taken to end at once, and counted
(``Result.forced``).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from tilewright.model.micro_ops import ISSUE, QUARTER, TENSOR, Step
from tilewright.model.traces import Event
from tilewright.model.work import PARTITIONS

#: A wait: the waiting instruction, the one waited for, and the busy unit, if it is one.
WaitKey = tuple[int, int, str]
#: The word of an mbarrier for n arrivals is this minus 2 n.
_COUNTER = 1 << 21
_WARP = 32


@dataclass(frozen=True, slots=True)
class Rates:
    """The shared resources of warps.

    Bytes per clock from L2, from memory, and to shared memory; the shares of loaded and of stored bytes that miss L2;
    the latency of a bulk copy; and how many clocks a warp may run ahead of pipes, of the banks and L1, and of L2 and
    memory.
    """

    l2: float
    memory: float
    shared: float
    load_misses: float
    store_misses: float
    bulk_latency: float
    pipe_queue: float
    bank_queue: float
    memory_queue: float


@dataclass(frozen=True, slots=True)
class Route:
    """The path of a warp: basic blocks, and its events at barriers and copy units."""

    blocks: Sequence[int]
    events: Sequence[Event]


@dataclass(frozen=True, slots=True)
class BlockProgram:
    """A block: the steps of each basic block, and the routes of its warps."""

    steps: Sequence[Sequence[Step]]
    routes: Sequence[Route]

    def size(self) -> int:
        """The number of steps that its warps execute."""
        lengths = [len(steps) for steps in self.steps]
        return sum(lengths[number] for route in self.routes for number in route.blocks)


@dataclass(slots=True)
class LogEntry:
    """A log entry: a basic block started at ``start``, or a wait lasted until ``end``."""

    start: float
    end: float
    block: int
    wait: WaitKey | None = None


@dataclass(slots=True)
class Result:
    """The result of a run.

    ``end``: the clock at which the block ended. ``waits``: clocks, summed over warps. ``logs``, ``warp_ends``: by warp.
    ``executed``: steps. ``forced``: waits that nothing ended. ``cut``: the run was truncated.
    """

    end: float = 0.0
    waits: Counter[WaitKey] = field(default_factory=Counter)
    logs: list[list[LogEntry]] = field(default_factory=list[list[LogEntry]])
    warp_ends: list[float] = field(default_factory=list[float])
    executed: int = 0
    forced: int = 0
    cut: bool = False


@dataclass(slots=True)
class _Phases:
    """An mbarrier: the arrivals that a phase needs and has, the bytes still expected, when its last event is complete,
    and the completed phases.
    """

    needed: int
    copy_bytes: float
    arrived: int = 0
    missing: float = 0.0
    ready: float = 0.0
    producer: int = -1
    done: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    waiting: list[tuple[_Warp, Step, float, int]] = field(default_factory=list)


def _phases_of(program: BlockProgram) -> dict[int, _Phases]:
    """The mbarriers of a block, by address."""
    found: dict[int, _Phases] = {}
    arrivers, announced, copies, begun = _told(program)
    for address in arrivers.keys() | copies.keys() | begun.keys():
        count = begun.get(address, 1)
        who = len(arrivers.get(address, ())) or 1
        # If more arrivals are expected than there are warps, all lanes of a warp arrive.
        needed = count if count <= who else max(1, count // _WARP)
        size = announced[address] / copies[address] if copies[address] else 0.0
        found[address] = _Phases(needed, size)
    return found


def _told(
    program: BlockProgram,
) -> tuple[dict[int, set[int]], Counter[int], Counter[int], dict[int, int]]:
    """For each mbarrier: the arriving warps, the expected bytes, the copies, and the arrival count of its init."""
    kinds = {step.index: step.kind for steps in program.steps for step in steps}
    arrivers: dict[int, set[int]] = defaultdict(set)
    announced: Counter[int] = Counter()
    copies: Counter[int] = Counter()
    begun: dict[int, int] = {}
    for number, route in enumerate(program.routes):
        for event in route.events:
            if not event.executed or event.barrier is None:
                continue
            kind = kinds.get(event.index, "")
            if kind in ("announce", "arrive phase"):
                arrivers[event.barrier].add(number)
            if kind == "announce":
                announced[event.barrier] += event.value or 0
            elif kind == "bulk":
                copies[event.barrier] += 1
            elif kind == "begin phases" and event.value is not None:
                begun[event.barrier] = max(1, (_COUNTER - event.value) // 2)
    return arrivers, announced, copies, begun


class _Warp:
    """The state of a warp: its position, and its operations in flight."""

    __slots__ = (
        "at", "boards", "commits", "copied", "event", "groups", "log", "number", "owners", "pending",
        "place", "quarter", "route", "steps", "time", "turns",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        route: Route,
        steps: Sequence[Step],
        quarter: list[float],
        log: list[LogEntry],
    ) -> None:
        self.number, self.route, self.steps = number, route, steps
        self.quarter, self.log = quarter, log
        self.time = 0.0
        self.place, self.at, self.event = 0, 0, 0
        self.boards, self.owners = [0.0] * 6, [-1] * 6
        self.pending: dict[str, tuple[float, int]] = {}
        self.groups: list[tuple[float, int]] = []
        self.commits: list[tuple[float, int]] = []
        self.copied: tuple[float, int] = (0.0, -1)
        self.turns: Counter[int] = Counter()


class Multiprocessor:
    """Runs a block.

    ``budget``: the steps after which the rest is extrapolated. ``logged``: the log entries of a warp at most.
    """

    def __init__(self, program: BlockProgram, rates: Rates, budget: int, logged: int) -> None:
        self._program, self._rates, self._budget, self._logged = program, rates, budget, logged
        self._ahead, self._ahead_banks = rates.pipe_queue, rates.bank_queue
        self._ahead_memory = rates.memory_queue
        self._quarters = [[0.0] * len(QUARTER) for _ in range(PARTITIONS)]
        self._shared = self._l1 = self._l2 = self._memory = 0.0
        self._heap: list[tuple[float, int, _Warp]] = []
        self._order = 0
        self._alive = len(program.routes)
        self._meetings: dict[str, list[tuple[_Warp, Step, float]]] = defaultdict(list)
        self._phases = _phases_of(program)
        self._parked: dict[int, tuple[_Warp, Step]] = {}
        self._result = Result(warp_ends=[0.0] * len(program.routes))
        self._mark = 0, 0.0
        self._handlers: dict[str, Callable[[_Warp, Step, float], float | None]] = {
            "timed": self._timed,
            "mma": self._mma,
            "wgmma": self._wgmma,
            "copy": self._copy,
            "commit": self._commit,
            "wait copies": self._wait_copies,
            "wait products": self._wait_products,
            "barrier": self._meet,
            "arrive": self._meet,
            "begin phases": self._begin_phases,
            "announce": self._arrive,
            "arrive phase": self._arrive,
            "bulk": self._bulk,
            "wait phase": self._wait_phase,
        }
        for number, route in enumerate(program.routes):
            log = [LogEntry(0.0, 0.0, route.blocks[0])]
            self._result.logs.append(log)
            quarter = self._quarters[number % PARTITIONS]
            self._push(_Warp(number, route, program.steps[route.blocks[0]], quarter, log))

    def run(self) -> Result:
        """Run until the block has ended, or the budget is exhausted; once only.

        In the latter case the rest is extrapolated at the rate of the second half of the budget, and the result is
        ``cut``.
        """
        result = self._result
        while self._heap or self._parked:
            if not self._heap:
                self._force()
            warp = heappop(self._heap)[2]
            self._advance(warp)
            if result.executed >= self._budget // 2 and not self._mark[0]:
                self._mark = result.executed, warp.time
            if result.executed >= self._budget:
                self._guess_rest(warp.time)
                break
        result.end = max(result.warp_ends)
        return result

    def _guess_rest(self, now: float) -> None:
        """Extrapolate the remaining steps at the rate of the second half of the budget."""
        result = self._result
        before, then = self._mark
        rate = (result.executed - before) / max(now - then, 1.0)
        end = now + (self._program.size() - result.executed) / rate
        result.warp_ends = [known or end for known in result.warp_ends]
        result.cut = self._alive > 0

    def _push(self, warp: _Warp) -> None:
        self._order += 1
        heappush(self._heap, (warp.time, self._order, warp))

    def _advance(self, warp: _Warp) -> None:
        """Advance a warp until another one is behind it, or it waits for others, or ends."""
        heap, handlers, result = self._heap, self._handlers, self._result
        time, executed = warp.time, 0
        while True:
            if warp.at == len(warp.steps):
                warp.place += 1
                if warp.place == len(warp.route.blocks):
                    result.executed += executed
                    self._end(warp, time)
                    return
                number = warp.route.blocks[warp.place]
                warp.steps, warp.at = self._program.steps[number], 0
                if len(warp.log) < self._logged:
                    warp.log.append(LogEntry(time, time, number))
                continue
            step = warp.steps[warp.at]
            executed += 1
            if step.kind == "plain":
                time = self._plain(warp, step, time)
            else:
                after = handlers[step.kind](warp, step, time)
                if after is None:
                    result.executed += executed
                    return
                time = after
            warp.at += 1
            if heap and heap[0][0] < time:
                warp.time = time
                result.executed += executed
                self._push(warp)
                return

    def _end(self, warp: _Warp, time: float) -> None:
        self._result.warp_ends[warp.number] = time
        self._alive -= 1
        for name in list(self._meetings):
            self._release(name)

    def _wait(
        self, warp: _Warp, time: float, until: float, index: int, producer: int, unit: str = ""
    ) -> float:
        """Record a wait; returns when it is over."""
        if until > time:
            self._result.waits[index, producer, unit] += until - time  # pyright: ignore[reportArgumentType]
            if len(warp.log) < self._logged:
                warp.log.append(LogEntry(time, until, -1, (index, producer, unit)))
            return until
        return time

    def _plain(self, warp: _Warp, step: Step, time: float) -> float:
        """Execute a step that only needs issue slots and pipes."""
        free, end, busy = warp.quarter, time + step.clocks, -1
        for unit, clocks, last in step.demand:
            begun = free[unit]
            done = free[unit] = (begun if begun > time else time) + clocks
            if done - last + 1 > end:
                end, busy = done - last + 1, unit
        if busy >= 0:
            self._wait(warp, time + step.clocks, end, step.index, step.index, _name(busy))
        return end

    def _ready(self, warp: _Warp, step: Step, time: float) -> float:
        """When an instruction issues: after its scoreboards, operands and the issue port are free."""
        boards = warp.boards
        for board in step.waits:
            if boards[board] > time:
                time = self._wait(warp, time, boards[board], step.index, warp.owners[board])
        if step.reads:
            for name in step.reads:
                due = warp.pending.get(name)
                if due is not None:
                    if step.kind != "mma":
                        del warp.pending[name]
                    time = self._wait(warp, time, due[0], step.index, due[1])
        free = warp.quarter
        if free[ISSUE] > time:
            time = self._wait(warp, time, free[ISSUE], step.index, step.index, "issue")
        free[ISSUE] = time + step.issue
        return time

    def _hold(self, warp: _Warp, step: Step, done: float, read: float) -> None:
        """Set the scoreboards that the step releases."""
        if step.write >= 0 and done > warp.boards[step.write]:
            warp.boards[step.write], warp.owners[step.write] = done, step.index
        if step.read >= 0 and read > warp.boards[step.read]:
            warp.boards[step.read], warp.owners[step.read] = read, step.index

    def _timed(self, warp: _Warp, step: Step, time: float) -> float:
        time = self._ready(warp, step, time)
        begun = time
        if step.unit >= 0:
            free = warp.quarter
            begun = max(time, free[step.unit])
            free[step.unit] = begun + step.pipe
            if begun - time > self._ahead:
                time = self._wait(
                    warp, time, begun - self._ahead, step.index, step.index, _name(step.unit)
                )
        if step.shared:
            begun = max(time, self._shared)
            self._shared = begun + step.shared
            if begun - time > self._ahead_banks:
                until = begun - self._ahead_banks
                time = self._wait(warp, time, until, step.index, step.index, "shared")
            begun += max(0.0, step.shared - 1)
        if step.l1 or step.loaded or step.stored:
            time, moved = self._move(warp, step, time)
            begun = max(begun, moved)
        self._hold(warp, step, begun + step.latency, time + step.read_after)
        return time + step.clocks

    def _move(self, warp: _Warp, step: Step, time: float) -> tuple[float, float]:
        """Issue an access to global memory; returns when it issues, and when it is served, without its latency."""
        rates, begun = self._rates, max(time, self._l1)
        self._l1 = begun + step.l1
        if begun - time > self._ahead_banks:
            time = self._wait(warp, time, begun - self._ahead_banks, step.index, step.index, "l1")
        unit = "l2"
        size = step.loaded + step.stored
        if size:
            begun = max(begun, self._l2)
            self._l2 = begun + size / rates.l2
            missed = step.loaded * rates.load_misses + step.stored * rates.store_misses
            if missed:
                if self._memory > begun:
                    begun, unit = self._memory, "memory"
                self._memory = max(self._memory, time) + missed / rates.memory
        if begun - time > self._ahead_memory:
            time = self._wait(warp, time, begun - self._ahead_memory, step.index, step.index, unit)
        return time, begun

    def _mma(self, warp: _Warp, step: Step, time: float) -> float:
        time = self._ready(warp, step, time)
        free = warp.quarter
        if free[TENSOR] - self._ahead > time:
            until = free[TENSOR] - self._ahead
            time = self._wait(warp, time, until, step.index, step.index, "tensor")
        begun = max(time, free[TENSOR])
        free[TENSOR] = begun + step.pipe
        done = begun + max(step.pipe, step.latency)
        for name in step.writes:
            warp.pending[name] = done, step.index
        self._hold(warp, step, done, begun + step.read_after)
        return time + step.clocks

    def _wgmma(self, warp: _Warp, step: Step, time: float) -> float:
        time = self._ready(warp, step, time)
        free = warp.quarter
        free[TENSOR] = max(time, free[TENSOR]) + step.pipe
        self._shared = max(time, self._shared) + step.shared
        done = max(free[TENSOR], self._shared)
        if step.group >= 0:
            warp.commits.append((done, step.index))
        self._hold(warp, step, done, done)
        return time + step.clocks

    def _copy(self, warp: _Warp, step: Step, time: float) -> float:
        """A `cp.async` or bulk store, which is waited for in groups."""
        time = self._ready(warp, step, time)
        time, begun = self._move(warp, step, time)
        if step.shared:
            self._shared = max(time, self._shared) + step.shared
        done = begun + step.latency
        if done > warp.copied[0]:
            warp.copied = done, step.index
        self._hold(warp, step, done, time + step.read_after)
        return time + step.clocks

    def _commit(self, warp: _Warp, step: Step, time: float) -> float:
        time = self._ready(warp, step, time)
        warp.groups.append(max(warp.copied, (time, step.index)))
        self._hold(warp, step, time + step.latency, time + step.read_after)
        return time + step.clocks

    def _wait_copies(self, warp: _Warp, step: Step, time: float) -> float:
        return self._wait_group(warp, step, time, warp.groups)

    def _wait_products(self, warp: _Warp, step: Step, time: float) -> float:
        return self._wait_group(warp, step, time, warp.commits)

    def _wait_group(
        self, warp: _Warp, step: Step, time: float, held: list[tuple[float, int]]
    ) -> float:
        time = self._ready(warp, step, time)
        while len(held) > step.group:
            due, producer = held.pop(0)
            time = self._wait(warp, time, due, step.index, producer)
        return time + step.clocks

    # Barriers of the block

    def _meet(self, warp: _Warp, step: Step, time: float) -> float | None:
        time = self._ready(warp, step, time)
        self._meetings[step.barrier].append((warp, step, time))
        if step.kind == "arrive":
            self._release(step.barrier)
            return time + step.clocks
        warp.time = time
        self._parked[id(warp)] = warp, step
        self._release(step.barrier)
        return None

    def _release(self, name: str) -> None:
        """Complete a barrier if all expected warps have arrived."""
        here = self._meetings[name]
        if not here or len(here) < (here[0][1].parties or self._alive):
            return
        last = max(here, key=lambda each: each[2])
        for warp, step, came in here:
            if step.kind == "arrive":
                continue
            until = last[2] + step.latency
            self._wait(warp, came, until, step.index, last[1].index)
            self._resume(warp, until + step.clocks)
        self._meetings[name] = []

    def _resume(self, warp: _Warp, time: float) -> None:
        self._parked.pop(id(warp), None)
        warp.at += 1
        warp.time = time
        self._push(warp)

    # Mbarriers

    def _event(self, warp: _Warp) -> Event | None:
        """The event that the walk has recorded for this instruction; None if it is not executed."""
        if warp.event >= len(warp.route.events):
            return None
        event = warp.route.events[warp.event]
        warp.event += 1
        return event if event.executed else None

    def _begin_phases(self, warp: _Warp, step: Step, time: float) -> float:
        time = self._ready(warp, step, time)
        self._event(warp)
        self._hold(warp, step, time + step.latency, time + step.read_after)
        return time + step.clocks

    def _arrive(self, warp: _Warp, step: Step, time: float) -> float:
        time = self._ready(warp, step, time)
        event = self._event(warp)
        self._hold(warp, step, time + step.latency, time + step.read_after)
        if event is not None and event.barrier in self._phases:
            phases = self._phases[event.barrier]
            phases.arrived += 1
            if step.kind == "announce":
                phases.missing += event.value or 0
            self._note(phases, time + step.latency, step.index)
        return time + step.clocks

    def _bulk(self, warp: _Warp, step: Step, time: float) -> float:
        time = self._ready(warp, step, time)
        event = self._event(warp)
        self._hold(warp, step, time + step.latency, time + step.read_after)
        if event is not None and event.barrier in self._phases:
            phases, rates = self._phases[event.barrier], self._rates
            size = phases.copy_bytes
            self._l2 = max(self._l2, time) + size / rates.l2
            done = self._l2
            if rates.load_misses:
                self._memory = max(self._memory, time) + size * rates.load_misses / rates.memory
                done = max(done, self._memory)
            self._shared = max(time, self._shared) + size / rates.shared
            phases.missing -= size
            self._note(phases, max(done, self._shared) + rates.bulk_latency, step.index)
        return time + step.clocks

    def _note(self, phases: _Phases, time: float, producer: int) -> None:
        """Note that an arrival or copy of a phase is complete at ``time``; completes the phase if it was the last."""
        if time >= phases.ready:
            phases.ready, phases.producer = time, producer
        if phases.arrived < phases.needed or abs(phases.missing) > 0.5:
            return
        phases.done.append((phases.ready, phases.producer))
        done, who = phases.done[-1]
        phases.arrived, phases.missing, phases.ready = 0, 0.0, 0.0
        number = len(phases.done) - 1
        still: list[tuple[_Warp, Step, float, int]] = []
        for warp, step, came, wanted in phases.waiting:
            if wanted > number:
                still.append((warp, step, came, wanted))
                continue
            until = self._wait(warp, came, done, step.index, who)
            self._hold(warp, step, until + step.latency, until)
            self._resume(warp, until + step.clocks)
        phases.waiting = still

    def _wait_phase(self, warp: _Warp, step: Step, time: float) -> float | None:
        time = self._ready(warp, step, time)
        event = self._event(warp)
        if event is not None and event.barrier in self._phases:
            phases = self._phases[event.barrier]
            known = len(phases.done)
            if event.value is None:
                wanted = warp.turns[event.barrier]
                warp.turns[event.barrier] += 1
            else:
                # A wait for a parity is over while the phase of the other parity is in progress.
                wanted = known if (known & 1) == event.value >> 31 else known - 1
            if wanted >= known:
                warp.time = time
                phases.waiting.append((warp, step, time, wanted))
                self._parked[id(warp)] = warp, step
                return None
            if wanted >= 0:
                time = self._wait(
                    warp, time, phases.done[wanted][0], step.index, phases.done[wanted][1]
                )
        self._hold(warp, step, time + step.latency, time)
        return time + step.clocks

    def _force(self) -> None:
        """No warp can continue: end the wait that started first."""
        warp, step = min(self._parked.values(), key=lambda each: each[0].time)
        self._result.forced += 1
        for phases in self._phases.values():
            phases.waiting = [each for each in phases.waiting if each[0] is not warp]
        for name, here in self._meetings.items():
            self._meetings[name] = [each for each in here if each[0] is not warp]
        self._hold(warp, step, warp.time + step.latency, warp.time)
        self._resume(warp, warp.time + step.clocks)


def _name(unit: int) -> str:
    named = QUARTER[unit]
    return named if isinstance(named, str) else named.value
