"""Schedules clusters of blocks: which one runs, how many are live, and what is reported when all of them wait.

Seed 0: clusters run to completion in ascending order. If all warps of one wait for memory, the next one starts, as long
as the GPU has room, and the waiting ones poll again. Other seeds keep several live and alternate between them: even
seeds at random, odd seeds round-robin, after every atomic access or, for every other odd seed, after those that acquire
locks, so that blocks that acquire them in different orders come to hold one each. Clusters start in ascending order, as
on GPUs, or, if all of them fit, in any order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from math import inf, prod

import numpy as np
from xdsl.ir import Operation

from tilewright.diagnostics import Note
from tilewright.launching.orders import shuffled
from tilewright.simulator import codes
from tilewright.simulator.faults import Fault, note_at
from tilewright.simulator.interrupts import note_loop
from tilewright.simulator.schedule import Schedule, who_waits
from tilewright.simulator.state import Asked, Launch, Polls, Warp

Corner = tuple[int, int, int]
"""The first block of a cluster."""

#: The clusters that are interleaved under seeds other than 0, unless they wait for more to start.
_WIDTH = 8
#: The longest time slice of a cluster, in steps of warps.
_LONGEST_TURN = 32
#: Rounds over all live clusters without a change of memory that count as a deadlock: if all polling loops repeat the
#: same iteration, and if some do not, such as loops that count their attempts.
_IDLE_ROUNDS, _CHANGING_ROUNDS = 64, 1000
_SHOWN, _SHOWN_NAMES = 4, 8


class Grid:
    """The clusters of a launch. ``begin`` creates the one at a corner; ``resident`` is how many may be live."""

    def __init__(
        self,
        launch: Launch,
        begin: Callable[[Corner], Schedule],
        corners: Iterable[Corner],
        resident: int,
    ):
        self.launch, self._begin, self._resident = launch, begin, resident
        self._live: deque[Schedule] = deque()
        self._left = prod(g // c for g, c in zip(launch.grid, launch.cluster))
        self._pending = iter(self._ordered(corners))

    def _ordered(self, corners: Iterable[Corner]) -> Iterable[Corner]:
        launch = self.launch
        if not launch.takes_turns or self._left > self._resident:
            return corners
        return shuffled(corners, launch.rng)

    def run(self) -> None:
        """Run all clusters to their end.

        Raises ``Fault`` if they wait for each other, or for blocks that cannot become resident.
        """
        launch, recorder, idle = self.launch, self.launch.recorder, 0
        while (current := self._next()) is not None:
            launch.check_time()
            version = launch.version
            try:
                has_ended = current.run(self._steps())
            except KeyboardInterrupt as interrupt:
                note_loop(interrupt, (current, *self._live))
                raise
            if has_ended and recorder is not None:
                recorder.end()
            if not has_ended:
                self._live.append(current)
            if has_ended or launch.version != version:
                idle = 0
            elif current.idle_at >= 0:
                idle += 1
                if idle > _IDLE_ROUNDS * len(self._live):
                    self._check_stuck(idle)

    def _steps(self) -> float:
        """The length of a cluster's time slice, in steps."""
        # Round-robin runs each cluster up to its next atomic access.
        by_chance = self.launch.takes_turns and self.launch.seed % 2 == 0
        return self.launch.rng.randint(1, _LONGEST_TURN) if by_chance else inf

    def _next(self) -> Schedule | None:
        """The next cluster to run, perhaps a new one; None if all have ended."""
        return self._by_chance() if self.launch.takes_turns else self._in_order()

    def _in_order(self) -> Schedule | None:
        found = self._new() if len(self._live) < self._resident else None
        return found or self._longest_ago()

    def _by_chance(self) -> Schedule | None:
        launch, live = self.launch, self._live
        ready = [each for each in live if each.idle_at != launch.version]
        in_circle = launch.seed % 2 == 1
        few = len(ready) < min(_WIDTH, self._resident)
        wants_new = not ready or (few and (in_circle or launch.rng.random() < 0.5))
        if wants_new and len(live) < self._resident and (found := self._new()) is not None:
            return found
        if ready:
            chosen = ready[0] if in_circle else launch.rng.choice(ready)
            live.remove(chosen)
            return chosen
        return live.popleft() if live else None

    def _longest_ago(self) -> Schedule | None:
        """The live cluster that has waited the longest, preferably since before memory last changed."""
        for _ in range(len(self._live)):
            if self._live[0].idle_at != self.launch.version:
                break
            self._live.rotate(-1)
        return self._live.popleft() if self._live else None

    def _new(self) -> Schedule | None:
        """Start the next cluster of the grid; None if there are no more."""
        for corner in self._pending:
            self._left -= 1
            if self.launch.recorder is not None:
                self.launch.recorder.begin(corner)
            return self._begin(corner)
        return None

    # Diagnostics

    def _check_stuck(self, idle: int) -> None:
        """Raise ``Fault`` if no live cluster has made progress for long enough."""
        polls = [
            warp.polls for each in self._live for warp in each.polling if warp.polls is not None
        ]
        rounds = _IDLE_ROUNDS if all(each.same for each in polls) else _CHANGING_ROUNDS
        if idle > rounds * len(self._live):
            raise self._deadlock()

    def _deadlock(self) -> Fault:
        """The fault that says which blocks are in which loops, what they read, and which warps wait for them."""
        loops: dict[Operation, list[Warp]] = {}
        asking: dict[tuple[Operation, str], list[Warp]] = {}
        first: Polls | None = None
        for warp in self._polling():
            polls = warp.polls
            assert polls is not None
            first = first or polls
            loops.setdefault(polls.op, []).append(warp)
            if polls.asked is not None:
                key = polls.asked[0], self._held(polls.asked)
                asking.setdefault(key, []).append(warp)
        notes = [
            note_at(f"this loop does not end in {_blocks(warps)}", loop)
            for loop, warps in list(loops.items())[:_SHOWN]
        ]
        for (op, held), warps in list(asking.items())[:_SHOWN]:
            notes.append(note_at(f"{_blocks(warps)} asked here{held}", op))
        blocked = [warp for each in self._live for warp in each.blocked]
        notes += who_waits(blocked)[:_SHOWN]
        if self._left:
            notes.append(self._not_begun())
        everyone = _indices([*self._polling(), *blocked])
        count = "1 block waits" if len(everyone) == 1 else f"{len(everyone)} blocks wait"
        op = None if first is None else first.op if first.asked is None else first.asked[0]
        return Fault(
            codes.DEADLOCK,
            f"{count} forever, and global memory does not change: {_listed(everyone)}",
            op,
            notes=notes,
            help="look for a lock that is not released, a flag that is never set, and blocks "
            "that wait for blocks that have not started",
        )

    def _polling(self) -> Iterator[Warp]:
        for each in self._live:
            yield from each.polling

    def _held(self, asked: Asked) -> str:
        """The location and values of a read, such as `` for byte 4 of argument 'flags', which held 0``."""
        op, places, found = asked
        values = np.asarray(found).reshape(-1)
        if not values.size:
            return ""
        shown = ", ".join(str(value) for value in values[:_SHOWN].tolist())
        more = ", ..." if values.size > _SHOWN else ""
        where = ""
        if op.name.startswith("llvm."):
            address = int(np.asarray(places).reshape(-1)[0])
            region = self.launch.addresses.region(address, address + 1)
            if region is not None:
                where = f" for byte {address - region.start} of {region.name}, which held"
        return f"{where or ', and found'} {shown}{more}"

    def _not_begun(self) -> Note:
        x, y, z = self.launch.cluster
        count, room = self._left * x * y * z, self._resident * x * y * z
        blocks = "1 block has" if count == 1 else f"{count} blocks have"
        held = "1 is" if room == 1 else f"{room} are"
        return Note(f"{blocks} not started, as at most {held} resident at once")


def _indices(warps: Iterable[Warp]) -> list[Corner]:
    return sorted({warp.block.index for warp in warps}, key=lambda index: index[::-1])


def _blocks(warps: Iterable[Warp]) -> str:
    found = _indices(warps)
    return f"block{'s' if len(found) > 1 else ''} {_listed(found)}"


def _listed(blocks: list[Corner]) -> str:
    more = f" and {len(blocks) - _SHOWN_NAMES} more" if len(blocks) > _SHOWN_NAMES else ""
    return ", ".join(map(str, blocks[:_SHOWN_NAMES])) + more
