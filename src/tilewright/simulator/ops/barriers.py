"""Barriers of the block and of the cluster, mbarriers, and fences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tilewright.diagnostics import Severity
from tilewright.numerics.arrays import Array
from tilewright.simulator import codes
from tilewright.simulator.compile import Step, Suspending, Translator, implements
from tilewright.simulator.faults import Fault, note_at
from tilewright.simulator.ops.threads import collective
from tilewright.simulator.proxies import note_fence
from tilewright.simulator.state import (
    FALL_APART,
    WARP_SIZE,
    Block,
    ClusterBarrier,
    Coroutine,
    MBarrier,
    NamedBarrier,
    Wait,
    Warp,
)
from tilewright.simulator.values import uniform

BARRIERS = 16
MBARRIER_BYTES = 8
MAX_COUNT = (1 << 20) - 1


# Barriers of the block.


def _settle(block: Block, barrier: NamedBarrier) -> None:
    """Complete a phase of the barrier if all expected threads have arrived."""
    wanted = barrier.wanted if barrier.wanted is not None else block.live_warps * WARP_SIZE
    if not barrier.warps or barrier.arrived < wanted:
        return
    barrier.done_clock, barrier.done_fenced = barrier.clock, barrier.fenced
    barrier.done_time = barrier.time
    barrier.generation += 1
    barrier.arrived, barrier.wanted, barrier.warps = 0, None, []
    barrier.clock = barrier.fenced = None
    block.cluster.progress += 1


def come_to(warp: Warp, barrier: NamedBarrier, wanted: int | None, op: Operation) -> None:
    """Arrive at a barrier of the block, for ``wanted`` threads or for all (None).

    Reports warps that want different numbers (PTX ISA, ``barrier``). A warp counts as 32 threads, whatever its mask.
    """
    block = warp.block
    if barrier.warps and barrier.wanted != wanted:
        block.shadow.collector.add(
            codes.BARRIER_STATE,
            f"{warp.name()} arrives at barrier {barrier.number} with {wanted} threads, but others "
            f"arrived with {barrier.wanted}",
            op,
        )
    barrier.wanted = wanted
    barrier.arrived += WARP_SIZE
    barrier.warps.append(warp.index)
    if barrier.clock is None or barrier.fenced is None:
        barrier.clock, barrier.fenced = block.new_clock(), block.new_clock()
    np.maximum(barrier.clock, warp.clock, out=barrier.clock)
    np.maximum(barrier.fenced, warp.fenced, out=barrier.fenced)
    barrier.time = max(barrier.time, warp.time)
    warp.tick()
    warp.launch.counters.barriers += 1
    _settle(block, barrier)


@dataclass(slots=True)
class BarrierWait(Wait):
    """A warp that waits at a barrier of its block."""

    op: Operation
    block: Block
    barrier: NamedBarrier
    generation: int

    def ready(self) -> bool:
        if self.barrier.generation == self.generation:
            # Warps that have ended are no longer expected.
            _settle(self.block, self.barrier)
        return self.barrier.generation != self.generation

    def finish(self, warp: Warp) -> None:
        barrier = self.barrier
        for member in warp.members:
            member.acquire(barrier.done_clock, barrier.done_fenced)
            start, member.time = member.time, max(member.time, barrier.done_time)
            member.launch.timeline.add(member, "barrier", self.op, start, member.time)
        warp.passed = self.op, barrier.number, self.generation

    def describe(self) -> str:
        barrier = self.barrier
        wanted = barrier.wanted if barrier.wanted is not None else self.block.live_warps * WARP_SIZE
        absent = [
            str(w.index) for w in self.block.warps if w.index not in barrier.warps and not w.ended
        ]
        rest = f"; not there: warps {', '.join(absent)}" if absent else ""
        return (
            f"waits at barrier {barrier.number} of the block, where {barrier.arrived} of {wanted} "
            f"threads have arrived{rest}"
        )


def _number(warp: Warp, slot: int | None, default: int | None, op: Operation) -> int | None:
    if slot is None:
        return default
    found = uniform(warp.regs[slot], warp.mask)
    if found is None:
        raise Fault(codes.DIVERGENT, f"lanes of {warp.name()} name different barriers", op)
    return found


def _check_barrier(warp: Warp, number: int | None, wanted: int | None, op: Operation) -> None:
    if number is None or not 0 <= number < BARRIERS:
        raise Fault(
            codes.BARRIER_STATE, f"barrier {number} does not exist; barriers are 0 to 15", op
        )
    threads = len(warp.block.warps) * WARP_SIZE
    if wanted is not None and (wanted <= 0 or wanted % WARP_SIZE or wanted > threads):
        raise Fault(
            codes.BARRIER_STATE,
            f"barrier {number} cannot wait for {wanted} threads: expected a multiple of 32 up to "
            f"the {threads} of the block",
            op,
        )


@implements("gpu.barrier", "nvvm.barrier0", "nvvm.barrier")
def _barrier(op: Any, t: Translator) -> Suspending:
    """Waits until all threads of the block, or as many as a named barrier expects, have arrived (PTX,
    ``barrier.sync``).

    Writes before the barrier are visible after it. Raises ``Fault`` if the warp has diverged, or if the counts differ.
    """
    is_named = op.name == "nvvm.barrier"
    slot = t.slot(op.barrierId) if is_named and op.barrierId is not None else None
    count = t.slot(op.numberOfThreads) if is_named and op.numberOfThreads is not None else None

    def start(warp: Warp) -> Coroutine:
        together(warp, op)
        number, wanted = _number(warp, slot, 0, op), _number(warp, count, None, op)
        _check_barrier(warp, number, wanted, op)
        barrier = warp.block.barrier(number or 0)
        wait = BarrierWait(op, warp.block, barrier, barrier.generation)
        warp.settle()
        for member in warp.members:
            come_to(member, barrier, wanted, op)
        warp.path.append(_ARRIVED)
        yield wait
        warp.path.pop()

    def resume(warp: Warp, saved: list[Any]) -> Coroutine:
        """Continue after the barrier, at which the warp has already arrived."""
        saved.pop(0)
        yield from ()

    # A group must not wait at a barrier that may include only some of its warps.
    return Suspending(start, resume if slot is None and count is None else None)


_ARRIVED = 1


def together(warp: Warp, op: Operation) -> None:
    """Raise ``Fault`` unless all existing lanes of the warp execute the operation."""
    if not warp.converged:
        collective(warp, op)


@implements("nvvm.barrier.arrive")
def _barrier_arrive(op: Any, t: Translator) -> Step:
    """Arrives at a named barrier without waiting (PTX, ``barrier.arrive``)."""
    slot = t.slot(op.barrierId) if op.barrierId is not None else None
    count = t.slot(op.numberOfThreads)

    def step(warp: Warp) -> None:
        together(warp, op)
        number, wanted = _number(warp, slot, 0, op), _number(warp, count, None, op)
        _check_barrier(warp, number, wanted, op)
        come_to(warp, warp.block.barrier(number or 0), wanted, op)

    return step


# The barrier of the cluster.


@dataclass(slots=True)
class ClusterWait(Wait):
    """A warp that waits at the barrier of its cluster."""

    op: Operation
    barrier: ClusterBarrier
    generation: int
    missing: list[Warp]

    def ready(self) -> bool:
        return self.barrier.generation > self.generation

    def finish(self, warp: Warp) -> None:
        warp.acquire(self.barrier.done_clock, None)
        warp.time = max(warp.time, self.barrier.time)

    def describe(self) -> str:
        absent = [w.name() for w in self.missing if w.clock_index not in self.barrier.arrived]
        return f"waits for its cluster; not arrived: {', '.join(absent[:6])}"


def _cluster_barrier(warp: Warp) -> ClusterBarrier:
    cluster = warp.block.cluster
    if cluster.barrier is None:
        cluster.barrier = ClusterBarrier()
    return cluster.barrier


@implements("nvvm.cluster.arrive", "nvvm.cluster.arrive.relaxed")
def _cluster_arrive(op: Any, t: Translator) -> Step:
    """Arrives at the barrier of the cluster; the relaxed form does not release the warp's writes.

    Raises ``Fault`` if the warp arrives twice without a wait between.
    """
    releases = op.name == "nvvm.cluster.arrive"

    def step(warp: Warp) -> None:
        together(warp, op)
        barrier, cluster = _cluster_barrier(warp), warp.block.cluster
        if warp.clock_index in barrier.arrived:
            raise Fault(
                codes.BARRIER_STATE,
                f"{warp.name()} arrives twice at the barrier of its cluster",
                op,
            )
        barrier.arrived.add(warp.clock_index)
        warp.cluster_generation = barrier.generation
        if barrier.clock is None:
            barrier.clock = warp.block.new_clock()
        if releases:
            np.maximum(barrier.clock, warp.clock, out=barrier.clock)
        warp.tick()
        barrier.time = max(barrier.time, warp.time)
        if len(barrier.arrived) == sum(not w.ended for w in cluster.warps):
            barrier.generation += 1
            barrier.done_clock, barrier.clock = barrier.clock, None
            barrier.arrived.clear()
        cluster.progress += 1

    return step


@implements("nvvm.cluster.wait")
def _cluster_wait(op: Any, t: Translator) -> Suspending:
    """Waits for the phase of the cluster's barrier at which the warp has arrived."""

    def start(warp: Warp) -> Coroutine:
        together(warp, op)
        barrier = _cluster_barrier(warp)
        yield ClusterWait(op, barrier, warp.cluster_generation, warp.block.cluster.warps)

    return Suspending(start)


# Mbarriers.


@implements("nvgpu.mbarrier.create")
def _create(op: Any, t: Translator) -> None:
    """Allocates 8 bytes of shared memory for each mbarrier of a group, and its state for each block."""
    count = op.results[0].type.count
    name = op.results[0].name_hint
    shown = f"%{name}" if name else "the mbarrier"
    t.shared.named(f"{shown} ({id(op)})", MBARRIER_BYTES * count, MBARRIER_BYTES)
    t.barrier_groups.append((op, count))

    def make(block: Block) -> list[MBarrier]:
        first = block.clocks_before_barriers + block.barriers_made
        block.barriers_made += count
        group = [
            MBarrier(first + i, f"{shown}[{i}]" if count > 1 else shown, block)
            for i in range(count)
        ]
        block.mbarriers[op] = group
        return group

    t.each_block(op.results[0], make)


@implements("nvgpu.mbarrier.get")
def _get(op: Any, t: Translator) -> Step:
    """The byte offset of an mbarrier in its group."""
    index, result = t.slot(op.mbarId), t.slot(op.results[0])

    def step(warp: Warp) -> None:
        warp.regs[result] = warp.regs[index] * MBARRIER_BYTES

    return step


def acting_lanes(warp: Warp, predicate: int | None) -> Array:
    """The active lanes whose predicate is true."""
    if predicate is None:
        return warp.mask
    value = warp.regs[predicate]
    if type(value) is bool:
        return warp.mask if value else np.zeros(WARP_SIZE, np.bool_)
    return warp.mask & value


def barriers_of(
    warp: Warp, group: Sequence[MBarrier], index: Any, acting: Array, op: Operation
) -> Iterator[tuple[MBarrier, Array]]:
    """The mbarriers that lanes refer to, each with the mask of those lanes.

    ``index`` is one number for all lanes or (lanes,); ``acting`` is (lanes,), of bools. Raises ``Fault`` for a
    number that the group does not have.
    """
    if not acting.any():
        return
    numbers = [index] if type(index) is int else [int(n) for n in np.unique(index[acting])]
    for number in numbers:
        if not 0 <= number < len(group):
            raise Fault(
                codes.OUT_OF_BOUNDS,
                f"{op.name} of {warp.name()} names barrier {number} of {len(group)}",
                op,
            )
        yield group[number], acting if type(index) is int else acting & (index == number)


def check_usable(warp: Warp, barrier: MBarrier, op: Operation) -> None:
    """Raise ``Fault`` for an uninitialized mbarrier; report one whose init does not happen before the use."""
    if not barrier.valid:
        raise Fault(
            codes.BARRIER_STATE,
            f"{op.name} of {warp.name()} uses {barrier.name}, which is not initialized",
            op,
            help="initialize it in one thread, followed by gpu.barrier",
        )
    if warp.clock[barrier.init_clock_index] < barrier.init_clock:
        warp.launch.collector.add(
            codes.RACE,
            f"{op.name} of {warp.name()} uses {barrier.name}, unordered with the barrier's init",
            op,
            other=barrier.init_op,
            notes=[note_at("initialized here", barrier.init_op)],
            help="put gpu.barrier between the two",
        )


@implements("nvgpu.mbarrier.init")
def _init(op: Any, t: Translator) -> Step:
    """Sets the arrival count of an mbarrier. Raises ``Fault`` for counts that differ between lanes or that PTX does not
    permit.
    """
    group, index, count = t.slot(op.barriers), t.slot(op.mbarId), t.slot(op.count)
    predicate = None if op.predicate is None else t.slot(op.predicate)

    def step(warp: Warp) -> None:
        r = warp.regs
        acting = acting_lanes(warp, predicate)
        for barrier, lanes in barriers_of(warp, r[group], r[index], acting, op):
            wanted = uniform(r[count], lanes)
            if wanted is None or not 1 <= wanted <= MAX_COUNT:
                raise Fault(codes.ARRIVALS, f"{barrier.name} cannot wait for {wanted} arrivals", op)
            if barrier.valid or np.count_nonzero(lanes) > 1:
                warp.launch.collector.add(
                    codes.BARRIER_STATE,
                    f"{barrier.name} is initialized by {warp.name()} "
                    + (
                        "again while it is in use"
                        if barrier.valid
                        else f"in {np.count_nonzero(lanes)} threads at once"
                    ),
                    op,
                    other=barrier.init_op,
                    help="initialize it in one thread, once",
                )
            barrier.valid, barrier.init_op = True, op
            barrier.phase = barrier.tx = 0
            barrier.expected = barrier.pending = wanted
            barrier.init_clock_index = warp.clock_index
            barrier.init_clock = int(warp.clock[warp.clock_index])
            warp.block.cluster.progress += 1

    return step


def arrive(warp: Warp, barrier: MBarrier, count: int, op: Operation) -> None:
    """Arrive ``count`` times at an mbarrier. Reports arrivals beyond those that the phase expects.

    A phase completes when its arrivals and its bytes are there (PTX ISA, mbarrier, phase completion).
    """
    barrier.release(warp)
    taken = min(count, barrier.pending)
    barrier.pending -= taken
    if taken:
        barrier.arrivals[warp.index] = barrier.arrivals.get(warp.index, 0) + taken
    phase = barrier.phase
    barrier.settle()
    if taken == count:
        return
    lacking = (
        f"; {barrier.tx} bytes of the phase are still missing" if barrier.phase == phase else ""
    )
    warp.launch.collector.add(
        codes.ARRIVALS,
        f"{op.name} of {warp.name()} arrives at {barrier.name} {count - taken} times more than "
        f"phase {phase} allows, which expects {barrier.expected} arrivals{lacking}",
        op,
        other=barrier.init_op,
        notes=[note_at("the number of arrivals is set here", barrier.init_op)],
        help="initialize the barrier with the number of threads that arrive",
    )
    if barrier.phase != phase:
        # As on a GPU, they count for the next phase.
        barrier.pending -= min(count - taken, barrier.pending)
        barrier.settle()


@implements("nvgpu.mbarrier.arrive", "nvgpu.mbarrier.arrive.nocomplete")
def _arrive_op(op: Any, t: Translator) -> Step:
    """One arrival per lane, or ``count`` of them; the result is the token of the current phase."""
    group, index, result = t.slot(op.barriers), t.slot(op.mbarId), t.slot(op.results[0])
    count = t.slot(op.count) if op.name.endswith("nocomplete") else None

    def step(warp: Warp) -> None:
        r = warp.regs
        token: Any = np.zeros(WARP_SIZE, np.int64)
        for barrier, lanes in barriers_of(warp, r[group], r[index], warp.mask, op):
            check_usable(warp, barrier, op)
            token[lanes] = barrier.phase
            threads = int(np.count_nonzero(lanes))
            if count is None:
                arrive(warp, barrier, threads, op)
                continue
            each = uniform(r[count], lanes) or 0
            if each * threads >= barrier.pending and not barrier.tx:
                raise Fault(
                    codes.ARRIVALS,
                    f"{op.name} of {warp.name()} makes {each * threads} arrivals at "
                    f"{barrier.name}, which is missing {barrier.pending}: it would complete the "
                    "phase",
                    op,
                )
            arrive(warp, barrier, each * threads, op)
        r[result] = token

    return step


@implements("nvgpu.mbarrier.arrive.expect_tx")
def _expect_tx(op: Any, t: Translator) -> Step:
    """One arrival per lane, each of which adds ``txcount`` bytes to those that the phase expects."""
    group, index, amount = t.slot(op.barriers), t.slot(op.mbarId), t.slot(op.txcount)
    predicate = None if op.predicate is None else t.slot(op.predicate)

    def step(warp: Warp) -> None:
        r = warp.regs
        acting = acting_lanes(warp, predicate)
        for barrier, lanes in barriers_of(warp, r[group], r[index], acting, op):
            check_usable(warp, barrier, op)
            expected = uniform(r[amount], lanes)
            if expected is None or not 0 <= expected <= MAX_COUNT:
                raise Fault(
                    codes.TRANSACTIONS,
                    f"{op.name} of {warp.name()} expects {expected} bytes; the most is {MAX_COUNT}",
                    op,
                )
            threads = int(np.count_nonzero(lanes))
            barrier.tx += expected * threads
            check_transactions(warp, barrier, op)
            arrive(warp, barrier, threads, op)

    return step


def check_transactions(warp: Warp, barrier: MBarrier, op: Operation) -> None:
    """Raise ``Fault`` if the byte count of an mbarrier is out of range (PTX ISA, mbarrier, contents)."""
    if abs(barrier.tx) > MAX_COUNT:
        raise Fault(
            codes.TRANSACTIONS,
            f"{op.name} of {warp.name()} brings the bytes of {barrier.name} to {barrier.tx}; a "
            f"phase counts up to {MAX_COUNT}",
            op,
        )


@implements("nvgpu.mbarrier.test.wait")
def _test_wait(op: Any, t: Translator) -> Suspending:
    """Whether the phase of a token has completed, without waiting."""
    group, index, token = t.slot(op.barriers), t.slot(op.mbarId), t.slot(op.token)
    result = t.slot(op.results[0])

    def start(warp: Warp) -> Coroutine:
        r = warp.regs
        done = np.zeros(WARP_SIZE, np.bool_)
        for barrier, lanes in barriers_of(warp, r[group], r[index], warp.mask, op):
            check_usable(warp, barrier, op)
            tokens = np.broadcast_to(np.asarray(r[token]), WARP_SIZE)[lanes]
            if (tokens < barrier.phase - 1).any() or (tokens > barrier.phase).any():
                warp.launch.collector.add(
                    codes.BARRIER_STATE,
                    f"{op.name} of {warp.name()} asks about phase {int(tokens.min())} of "
                    f"{barrier.name}, which is in phase {barrier.phase}: only the current and the "
                    "previous phase can be tested",
                    op,
                )
            done[lanes] = tokens != barrier.phase
            if done[lanes].any():
                warp.acquire(barrier.done_clock, barrier.done_fenced)
                warp.time = max(warp.time, barrier.done_time)
        r[result] = done
        if not done[warp.mask].all():
            warp.spins += 1
            yield None

    return Suspending(start)


@dataclass(slots=True)
class ParityWait(Wait):
    """Lanes that wait for a phase of this parity."""

    op: Operation
    barrier: MBarrier
    parity: int

    def ready(self) -> bool:
        return self.barrier.phase & 1 != self.parity

    def finish(self, warp: Warp) -> None:
        barrier = self.barrier
        for member in warp.members:
            member.acquire(barrier.done_clock, barrier.done_fenced)
            start = member.time
            if barrier.phase:
                member.time = max(member.time, barrier.done_time)
            member.launch.timeline.add(member, "wait", self.op, start, member.time)

    def describe(self) -> str:
        barrier = self.barrier
        came = ", ".join(f"warp {w} ({n})" for w, n in sorted(barrier.arrivals.items()))
        return (
            f"waits for the end of phase {barrier.phase} (parity {self.parity}) of {barrier.name}: "
            f"{barrier.missing()}; arrived in this phase: {came or 'none'}"
        )


@implements("nvgpu.mbarrier.try_wait.parity")
def _try_wait(op: Any, t: Translator) -> Suspending:
    """Waits until the phase of this parity has completed.

    The time limit of ``ticks`` is not simulated: the wait lasts as long as other warps can run, and a deadlock is
    reported.
    """
    group, index, parity = t.slot(op.barriers), t.slot(op.mbarId), t.slot(op.phaseParity)

    def start(warp: Warp) -> Coroutine:
        r = warp.regs
        if warp.size > WARP_SIZE and not (warp.full and is_common(warp)):
            yield FALL_APART
        warp.settle()
        warp.launch.counters.mbarrier_waits += len(warp.members)
        for barrier, lanes in list(barriers_of(warp, r[group], r[index], warp.mask, op)):
            for member in warp.members:
                check_usable(member, barrier, op)
            value = np.broadcast_to(np.asarray(r[parity]), warp.size)[lanes]
            for wanted in sorted(set(value.tolist())):
                yield ParityWait(op, barrier, int(wanted))

    def is_common(warp: Warp) -> bool:
        """Whether all lanes wait for the same phase of the same mbarrier."""
        values = warp.regs[index], warp.regs[parity]
        return all(uniform(value, warp.mask) is not None for value in values)

    return Suspending(start, never_resumed)


def never_resumed(warp: Warp, saved: list[Any]) -> Coroutine:
    """The ``resume`` of waits at which groups neither form nor fall apart."""
    raise AssertionError("no warp resumes after this wait")


# Fences.


@implements("nvvm.fence.proxy")
def _fence_proxy(op: Any, t: Translator) -> Step:
    """Orders generic accesses before later accesses through the async proxy."""
    kind = op.properties["kind"].data.value

    def step(warp: Warp) -> None:
        note_fence(warp, kind)
        np.maximum(warp.fenced, warp.clock, out=warp.fenced)
        _publish(warp)

    return step


@implements("nvvm.fence.mbarrier.init")
def _fence_init(op: Any, t: Translator) -> Step:
    """Makes initialized mbarriers visible to the async proxy and the cluster."""
    return lambda warp: _publish(warp)


def _publish(warp: Warp) -> None:
    """Publish the mbarriers whose init the warp has seen to the async proxy."""
    for group in warp.block.mbarriers.values():
        for barrier in group:
            if barrier.valid and warp.clock[barrier.init_clock_index] >= barrier.init_clock:
                barrier.published = True


def check_published(warp: Warp, barrier: MBarrier, op: Operation) -> None:
    """Warn if a copy uses an mbarrier whose init may not be visible to the async proxy."""
    if not barrier.published:
        warp.launch.collector.add(
            codes.PROXY_FENCE,
            f"{op.name} of {warp.name()} uses {barrier.name}, whose init is not visible to the "
            "async proxy",
            op,
            other=barrier.init_op,
            notes=[note_at("initialized here", barrier.init_op)],
            help="execute nvvm.fence.mbarrier.init or nvvm.fence.proxy after the init",
            severity=Severity.WARNING,
        )
