"""Schedules live tile blocks: decides which one continues, and for how long.

This is the part of a run that depends on the seed.

Seed 0: a block runs until it ends, or reaches a switch point without having changed memory since the last one. It may
then be waiting, so the next block continues. Even seeds: a coin toss at every switch point. Odd seeds: likewise, but
a block that has acquired a lock is held back while another block can continue; among those held back, the ones with
fewest locks go first. Blocks that acquire two locks in different orders thus come to hold one each. A
compare-and-swap or an exchange that changes memory counts as acquiring a lock; with every other odd seed, from 3 on,
so does any atomic whose result is used, since tickets are drawn that way.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

from xdsl.ir import Operation

from tilewright.dialects.cuda_tile.ops.atomics import AtomicRMWTkoOp
from tilewright.dialects.declare import enum_property
from tilewright.machine.accesses import AccessSite, access_site
from tilewright.machine.compile import Coroutine, Translator
from tilewright.machine.repeats import Repeats
from tilewright.machine.values import Registers

BlockId = tuple[int, int, int]

# The number of live blocks at which one that is held back continues instead of another starting:
# each of them may keep polling what it holds.
_MAX_LIVE = 64
# A block is held back for this many turns of each live block. Otherwise another block could run
# and change memory forever, waiting for what this one holds.
_MAX_TURNS_HELD = 32
# The number of times a block is held back. Blocks that release what they hold when they cannot get
# the rest, and retry, would otherwise collide forever.
_MAX_TIMES_HELD = 64
# A lock takes one element or a few; a larger update is a result.
_MAX_TAKEN = 16


@dataclass(slots=True, eq=False)
class Live:
    """A tile block that has started and not ended."""

    number: int
    block: BlockId
    registers: Registers
    coroutine: Coroutine
    paused_at: Operation | None = None
    taken: set[int] = field(default_factory=set[int])
    """The addresses it has acquired and not released."""
    idle_at: int = -1
    """The version of memory at which it had nothing to do; -1 if it can continue."""
    held_at: int = 0
    """The turn in which it was held back."""
    times_held: int = 0
    repeats: Repeats = field(default_factory=Repeats)
    """Detects whether it is in a cycle."""


class Schedule:
    """The schedule of seed 0, and the base of all others."""

    def __init__(self) -> None:
        self.waiting: deque[Live] = deque()

    def live(self) -> list[Live]:
        """Return all blocks that have started, are not running, and have not ended."""
        return list(self.waiting)

    def count(self) -> int:
        """Return the number of blocks in :meth:`live`."""
        return len(self.waiting)

    def next(self, version: int, *, may_begin: bool) -> Live | None:
        """Remove and return the block that continues; None to start a new one, or if there is none."""
        return None if may_begin or not self.waiting else self.waiting.popleft()

    def stops(self, live: Live, *, changed: bool) -> bool:
        """Whether a block yields at a switch point; ``changed`` tells whether memory has changed since the
        last one."""
        return not changed

    def put(self, live: Live) -> None:
        """Add a block that has yielded."""
        self.waiting.append(live)


class ShuffledSchedule(Schedule):
    """Random decisions at every switch point."""

    def __init__(self, chance: random.Random):
        super().__init__()
        self._chance = chance

    def next(self, version: int, *, may_begin: bool) -> Live | None:
        if self.waiting and (not may_begin or self._chance.random() < 0.5):
            self.waiting.rotate(self._chance.randrange(len(self.waiting)))
            return self.waiting.popleft()
        return None

    def stops(self, live: Live, *, changed: bool) -> bool:
        return not changed or self._chance.random() < 0.5


class GreedySchedule(ShuffledSchedule):
    """Holds blocks that have acquired a lock back until the others cannot continue.

    ``tickets``: any used atomic counts as acquiring, not only compare-and-swap and exchange.
    """

    def __init__(self, chance: random.Random, kernel: Translator, *, tickets: bool):
        super().__init__(chance)
        self._tickets = tickets
        self._kernel = kernel
        self._held: deque[Live] = deque()
        self._turn = 0
        self._sites: dict[Operation, AccessSite | None] = {}

    def live(self) -> list[Live]:
        return [*self._held, *self.waiting]

    def count(self) -> int:
        return len(self._held) + len(self.waiting)

    def next(self, version: int, *, may_begin: bool) -> Live | None:
        self._turn += 1
        if may_begin and self.count() < _MAX_LIVE:
            return None
        if self._held and self._turn - self._held[0].held_at > _MAX_TURNS_HELD * self.count():
            return self._held.popleft()
        for _ in range(len(self.waiting)):
            if self.waiting[0].idle_at != version:
                return self.waiting.popleft()
            self.waiting.rotate(-1)
        if self._held:
            least = min(len(live.taken) for live in self._held)
            chosen = self._chance.choice([h for h in self._held if len(h.taken) == least])
            self._held.remove(chosen)
            return chosen
        return Schedule.next(self, version, may_begin=may_begin)

    def stops(self, live: Live, *, changed: bool) -> bool:
        takes = changed and self._takes(live) and live.times_held < _MAX_TIMES_HELD
        return takes or super().stops(live, changed=changed)

    def put(self, live: Live) -> None:
        if live.taken and live.idle_at == -1 and live.times_held < _MAX_TIMES_HELD:
            live.held_at = self._turn
            live.times_held += 1
            self._held.append(live)
        else:
            self.waiting.append(live)

    def _takes(self, live: Live) -> bool:
        """Whether a block has just acquired a lock; also records releases."""
        op = live.paused_at
        if op is None:
            return False
        if op not in self._sites:
            is_watched = self._tickets or not _adds(op)
            self._sites[op] = access_site(op, self._kernel) if is_watched else None
        site = self._sites[op]
        if site is None or not site.writes:
            return False
        addresses = site.addresses(live.registers)
        if addresses.size > _MAX_TAKEN:
            return False
        cells = set(addresses.tolist())
        if not site.reads or cells & live.taken:
            live.taken -= cells
            return False
        live.taken |= cells
        return True


def _adds(op: Operation) -> bool:
    """Whether an atomic computes what it writes from the old element."""
    return isinstance(op, AtomicRMWTkoOp) and enum_property(op, "mode") != "xchg"


def schedule_of(seed: int, chance: random.Random | None, kernel: Translator) -> Schedule:
    """Return the schedule of a seed; ``chance`` is None for seed 0."""
    if chance is None:
        return Schedule()
    return (
        GreedySchedule(chance, kernel, tickets=seed % 4 == 3)
        if seed % 2
        else ShuffledSchedule(chance)
    )
