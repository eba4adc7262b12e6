"""Which of the live tile blocks goes on, and for how long: the part of a run that a seed decides.

Seed 0: a block keeps running until it ends or comes to a switch point without having changed memory
since the last one. Then it may be waiting, and the next block goes on. Even seeds: every switch
point is a coin toss. Odd seeds: as even ones, and a block that has taken a lock is held back while
another block can go on; those that hold least go first. Blocks that take two locks in different
orders then come to hold one each. What counts as taking a lock is a compare-and-swap or an exchange
that changes memory; with every other odd seed, from 3 on, it is any atomic that gives a result, as
tickets are drawn.
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

# So many blocks begin before one that is held back goes on: each of them may look at what it has
# taken again and again.
_MAX_LIVE = 64
# A block is held back for so many turns of each live block, in case that one of the others goes on
# and changes memory without end until it gets what this one has.
_MAX_TURNS_HELD = 32
# And so many times: blocks that give back what they have when they do not get the rest, and try again,
# would otherwise be made to meet for ever.
_MAX_TIMES_HELD = 64
# What is taken is a cell or a few; a larger update is a result.
_MAX_TAKEN = 16


@dataclass(slots=True, eq=False)
class Live:
    """A tile block that has begun and not ended."""

    number: int
    block: BlockId
    registers: Registers
    coroutine: Coroutine
    paused_at: Operation | None = None
    taken: set[int] = field(default_factory=set[int])
    """The addresses that it has taken and not given back."""
    idle_at: int = -1
    """The version of memory at which it had nothing to do; -1 if it may go on."""
    held_at: int = 0
    """The turn in which it was held back."""
    times_held: int = 0
    repeats: Repeats = field(default_factory=Repeats)
    """Whether it does the same thing again and again."""


class Schedule:
    """The plain one, of seed 0, and what all have in common."""

    def __init__(self) -> None:
        self.waiting: deque[Live] = deque()

    def live(self) -> list[Live]:
        """All blocks that have begun, wait for their turn, and have not ended."""
        return list(self.waiting)

    def count(self) -> int:
        """How many blocks :meth:`live` gives."""
        return len(self.waiting)

    def next(self, version: int, *, may_begin: bool) -> Live | None:
        """Takes out the block that goes on; None to begin one, or where there is none at all."""
        return None if may_begin or not self.waiting else self.waiting.popleft()

    def stops(self, live: Live, *, changed: bool) -> bool:
        """Whether a block gives way at a switch point; ``changed`` tells whether memory has changed
        since the last one."""
        return not changed

    def put(self, live: Live) -> None:
        """Take back a block that gives way."""
        self.waiting.append(live)


class ShuffledSchedule(Schedule):
    """Chance decides at every switch point."""

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
    """Blocks that have taken something are held back until the others come no further.

    ``tickets``: not only by a compare-and-swap or an exchange.
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
        """Whether a block has just taken something; what it has given back is noted, too."""
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
    """Whether an atomic makes of the old element what it writes."""
    return isinstance(op, AtomicRMWTkoOp) and enum_property(op, "mode") != "xchg"


def schedule_of(seed: int, chance: random.Random | None, kernel: Translator) -> Schedule:
    """The schedule of a seed; ``chance`` is None for seed 0."""
    if chance is None:
        return Schedule()
    return (
        GreedySchedule(chance, kernel, tickets=seed % 4 == 3)
        if seed % 2
        else ShuffledSchedule(chance)
    )
