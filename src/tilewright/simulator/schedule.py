"""Schedules the warps of a block: which one continues, when copies complete, and what is reported on a deadlock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import Any

from xdsl.ir import Operation

from tilewright.diagnostics import Note
from tilewright.simulator import codes
from tilewright.simulator.compile import Suspending
from tilewright.simulator.faults import Fault, note_at
from tilewright.simulator.groups import Group, gather
from tilewright.simulator.ops.barriers import ParityWait
from tilewright.simulator.ops.registers import RegisterWait, check_trades
from tilewright.simulator.state import (
    WARP_SIZE,
    Block,
    Cluster,
    Coroutine,
    FallApart,
    GiveWay,
    MBarrier,
    Polls,
    Wait,
    Warp,
)

#: The probability that a copy lands although warps could run.
_LANDING = 0.3
#: Idle steps per warp, in which it only tests whether a phase has completed, that count as a deadlock.
_IDLE_TURNS = 200
_SHOWN = 12


class Schedule:
    """Runs the warps of a cluster, in groups where they execute the same.

    ``fixed`` are the registers that never change; ``template`` returns the initial registers of a group of so many
    warps of a block.
    """

    def __init__(
        self,
        cluster: Cluster,
        body: Suspending,
        fixed: set[int],
        template: Callable[[Block, int], list[Any]],
    ):
        self.cluster, self.body, self.fixed, self.template = cluster, body, fixed, template
        self.coroutines: dict[Warp, Coroutine] = {}
        self.runnable: list[Warp] = []
        self.blocked: list[Warp] = []
        self.polling: list[Warp] = []
        self.idle_at = -1
        """The version of global memory at which no warp could make progress; -1 if one may."""
        self._version = -1
        self._seen, self._idle = -1, 0
        for block in cluster.blocks:
            self._enter(block)

    def _enter(self, block: Block) -> None:
        """Start the warps of a block."""
        whole = [warp for warp in block.warps if warp.full]
        if not self.cluster.launch.in_groups or len(whole) < 2:
            whole = []
        for warp in (*self._grouped(whole), *(w for w in block.warps if w not in whole)):
            self.coroutines[warp] = self.body.start(warp)
            self.runnable.append(warp)

    def _grouped(self, warps: list[Warp]) -> Iterator[Warp]:
        """One group of all of the warps, if any."""
        if warps:
            registers = self.template(warps[0].block, len(warps))
            yield gather(tuple(warps), self.fixed, registers)

    def run(self, steps: float = inf) -> bool:
        """Run all warps for at most ``steps`` steps. Returns whether all have ended.

        Also returns false if all warps that do not wait for others of the cluster poll global memory; ``idle_at`` is
        then set. Raises ``Fault`` if warps wait for each other.
        """
        cluster, launch = self.cluster, self.cluster.launch
        rng, runnable = launch.rng, self.runnable
        if self.idle_at >= 0:
            self.idle_at = -1
            self._poll_again()
        while runnable or self.blocked or self.polling:
            if self.polling and launch.version != self._version:
                self._poll_again()
            if cluster.progress != self._seen:
                self._seen, self._idle = cluster.progress, 0
                self._wake()
            if cluster.copies and (not runnable or rng.random() < _LANDING):
                cluster.copies.pop(rng.randrange(len(cluster.copies))).land()
                cluster.progress += 1
                continue
            if not runnable or self._idle > _IDLE_TURNS * len(runnable):
                if cluster.copies:
                    self._idle = 0
                    continue
                if self._split_traders():
                    continue
                if self.polling:
                    self._idle, self.idle_at = 0, launch.version
                    return False
                raise _deadlock(self.blocked, runnable)
            if steps <= 0:
                return False
            warp = runnable[rng.randrange(len(runnable))]
            asked = warp.spins
            if self._go(warp):
                steps -= 1
            else:
                steps = 0
            self._idle += warp.spins != asked
        while cluster.copies:
            cluster.copies.pop().land()
        for block in cluster.blocks:
            check_end(block)
        return True

    def _poll_again(self) -> None:
        """Make the polling warps runnable again."""
        self._version = self.cluster.launch.version
        self.runnable += self.polling
        self.polling.clear()

    def _go(self, warp: Warp) -> bool:
        """Run a warp until it waits, ends or yields. Returns whether its cluster should continue."""
        warp.passed = None
        try:
            wait = next(self.coroutines[warp])
        except StopIteration:
            warp.settle()
            for member in warp.members:
                member.ended = True
            self._remove(warp)
            self.cluster.progress += 1
            return True
        if wait is None:
            return True
        if isinstance(wait, GiveWay):
            return not self.cluster.launch.gives_way(wait)
        if isinstance(wait, FallApart):
            self._fall_apart(warp)
        elif isinstance(wait, Polls):
            warp.polls = wait
            self.runnable.remove(warp)
            self.polling.append(warp)
        elif not _passes(wait, warp):
            warp.waiting = wait
            self.runnable.remove(warp)
            self.blocked.append(warp)
        return True

    def _remove(self, warp: Warp) -> None:
        self.runnable.remove(warp)
        del self.coroutines[warp]

    def _fall_apart(self, group: Warp) -> None:
        assert isinstance(group, Group)
        path = list(group.path)
        self._remove(group)
        for warp in group.fall_apart(self.fixed):
            self.coroutines[warp] = self._resumed(warp, path)
            self.runnable.append(warp)

    def _split_traders(self) -> bool:
        """Split groups that wait for registers, so that their warps wait one by one. Returns whether there are any."""
        groups = [w for w in self.blocked if w.size > WARP_SIZE and type(w.waiting) is RegisterWait]
        for group in groups:
            self.blocked.remove(group)
            self.runnable.append(group)
            group.waiting = None
            self._fall_apart(group)
        return bool(groups)

    def _resumed(self, warp: Warp, path: list[Any]) -> Coroutine:
        assert self.body.resume is not None
        return self.body.resume(warp, list(path))

    def _wake(self) -> None:
        for warp in list(self.blocked):
            wait = warp.waiting
            assert wait is not None
            if _passes(wait, warp):
                warp.waiting = None
                self.blocked.remove(warp)
                self.runnable.append(warp)
        if self.cluster.launch.in_groups:
            self._come_together()

    def _come_together(self) -> None:
        """Form groups of the warps that have passed the same barrier."""
        places: dict[tuple[Any, ...], list[Warp]] = {}
        for warp in self.runnable:
            if warp.passed is not None and None not in warp.path and warp.full:
                key = warp.block.rank, warp.passed, tuple(warp.path)
                places.setdefault(key, []).append(warp)
        for entities in places.values():
            if len(entities) < 2:
                continue
            path = list(entities[0].path)
            members: list[Warp] = []
            for entity in entities:
                if isinstance(entity, Group):
                    entity.fall_apart(self.fixed)
                members.extend(entity.members)
                self._remove(entity)
            members.sort(key=lambda member: member.index)
            for group in self._grouped(members):
                self.coroutines[group] = self._resumed(group, path)
                self.runnable.append(group)


def _passes(wait: Wait, warp: Warp) -> bool:
    if not wait.ready():
        return False
    wait.finish(warp)
    return True


def who_waits(blocked: Iterable[Warp]) -> list[Note]:
    """Notes that say what each warp waits for, and where."""
    groups: dict[tuple[Operation, str], list[Warp]] = {}
    for warp in blocked:
        assert warp.waiting is not None
        groups.setdefault((warp.waiting.op, warp.waiting.describe()), []).extend(warp.members)
    return [
        note_at(f"{_named(warps)} {what}", op)
        for (op, what), warps in list(groups.items())[:_SHOWN]
    ]


def _deadlock(blocked: list[Warp], spinning: list[Warp]) -> Fault:
    """The fault that says what every warp waits for, and where the missing arrivals should come from."""
    notes = who_waits(blocked)
    barriers = dict.fromkeys(
        w.waiting.barrier for w in blocked if isinstance(w.waiting, ParityWait)
    )
    if spinning:
        asking = [member for warp in spinning for member in warp.members]
        notes.append(Note(f"{_named(asking)} poll for the end of a phase"))
    for barrier in list(barriers)[:3]:
        for op in list(_arrivals_at(barrier))[:4]:
            notes.append(note_at(f"arrivals at {barrier.name} are here", op))
        if barrier.tx and not barrier.pending:
            _report_transactions(barrier)
    first = blocked[0].waiting.op if blocked and blocked[0].waiting is not None else None
    count = sum(len(warp.members) for warp in (*blocked, *spinning))
    return Fault(
        codes.DEADLOCK,
        f"{count} warps wait, and no wait can end",
        first,
        notes=notes,
        help="check the count of each init against its arrivals, the bytes of expect_tx against the boxes, and the parities",
    )


def _named(warps: list[Warp]) -> str:
    names = [warp.name() for warp in warps[:4]]
    rest = len(warps) - len(names)
    if len(warps) == 1:
        return names[0]
    return ", ".join(names) + (f" and {rest} more" if rest else "") + " each"


def _arrivals_at(barrier: MBarrier) -> Iterable[Operation]:
    for op, group in barrier.block.mbarriers.items():
        if barrier in group:
            for use in op.results[0].uses:
                if ".arrive" in use.operation.name:
                    yield use.operation


def _report_transactions(barrier: MBarrier) -> None:
    collector = barrier.block.cluster.launch.collector
    expecting = next(
        (op for op in _arrivals_at(barrier) if op.name.endswith("expect_tx")), barrier.init_op
    )
    what = (
        f"{barrier.tx} bytes more than its copies deliver"
        if barrier.tx > 0
        else f"{-barrier.tx} bytes less than its copies deliver"
    )
    collector.add(
        codes.TRANSACTIONS,
        f"phase {barrier.phase} of {barrier.name} expects {what}",
        expecting,
        other=barrier.init_op,
        help="expect the bytes of all boxes of the phase, once",
    )


def _check_waited(block: Block, barrier: MBarrier, phase: int, op: Operation) -> None:
    """Report a load that no warp has waited for: it may land after the block's memory is released."""
    if all(warp.clock[barrier.clock_index] <= phase for warp in block.warps):
        block.cluster.launch.collector.add(
            codes.UNWAITED_COPY,
            f"the block ends without a wait for the TMA load of phase {phase} of {barrier.name}",
            op,
            help="wait for the phase before the block ends",
        )


def check_end(block: Block) -> None:
    """Report operations that a block leaves unfinished at its end."""
    collector = block.cluster.launch.collector
    block.global_log.check(collector)
    for group in block.mbarriers.values():
        for barrier in group:
            if barrier.valid and barrier.tx:
                _report_transactions(barrier)
            elif barrier.last_load is not None:
                _check_waited(block, barrier, *barrier.last_load)
    for warp in block.warps:
        for store in (*warp.stores.open, *warp.stores.closed):
            collector.add(
                codes.UNWAITED_COPY,
                f"{warp.name()} ends while a TMA store still reads its shared memory",
                store.op,
                help="execute nvvm.cp.async.bulk.commit.group and "
                "nvvm.cp.async.bulk.wait_group 0 {read} before the end",
            )
    check_trades(block)
    for group_number, sequence in block.products.items():
        counts = {
            warp.index: warp.products_begun
            for warp in block.warps
            if warp.index // 4 == group_number
        }
        if len(set(counts.values())) > 1:
            collector.add(
                codes.DIVERGENT,
                f"the warps of warpgroup {group_number} execute different numbers of products: "
                + ", ".join(f"warp {w}: {n}" for w, n in counts.items()),
                sequence[-1],
            )
