"""Assigns offsets in a thread's arena to tile buffers; buffers with disjoint live ranges share memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush

from tilewright.cpu.abi import ARENA_ALIGNMENT


@dataclass(frozen=True, slots=True)
class Slot:
    """Bytes ``[offset, offset + size)`` of the arena, in use until position ``last``."""

    offset: int
    size: int
    last: int


class Arena:
    """Places buffers one after the other in the order of the program, first fit.

    Positions number the operations; a buffer may be placed where every other one is dead at the
    position at which it is made.
    """

    def __init__(self) -> None:
        self.size = 0
        self._live: list[tuple[int, int, int]] = []
        """A heap of the buffers that are used: until when, where, how large."""
        self._gaps: list[tuple[int, int]] = []
        """Bytes below ``size`` that nobody uses, in ascending order: where, how many."""
        self._on_stack = 0
        self._lasts: dict[int, tuple[object, int]] = {}
        """Pointers to buffers, and the positions until which these are used, by the identities of the pointers."""

    def place_on_stack(self) -> int:
        """The number, from 1, of a buffer that takes no room here."""
        self._on_stack += 1
        return self._on_stack

    def place(self, size: int, now: int, last: int) -> Slot:
        """Room for ``size`` bytes, used from position ``now`` to ``last``, at a multiple of ``ARENA_ALIGNMENT``.

        Positions ``now`` must not descend from call to call. Room that nothing uses any more is given again.
        """
        rounded = -(-max(size, 1) // ARENA_ALIGNMENT) * ARENA_ALIGNMENT
        while self._live and self._live[0][0] < now:
            _, offset, dead = heappop(self._live)
            self._give_back(offset, dead)
        offset = self._take(rounded)
        heappush(self._live, (last, offset, rounded))
        return Slot(offset, rounded, last)

    def note(self, pointer: object, last: int) -> None:
        """A buffer that is used until position ``last`` is known by this pointer."""
        self._lasts[id(pointer)] = pointer, last

    def expect_live(self, pointers: Iterable[object], now: int) -> None:
        """Stop before code that reads, at position ``now``, buffers whose room may be somebody else's by then."""
        for pointer in pointers:
            _, last = self._lasts.get(id(pointer), (None, now))
            assert now <= last, f"a buffer used until {last} is read at {now}"

    def _take(self, size: int) -> int:
        for number, (offset, room) in enumerate(self._gaps):
            if room >= size:
                self._gaps[number : number + 1] = [(offset + size, room - size)] * (room > size)
                return offset
        offset = self.size
        if self._gaps and sum(self._gaps[-1]) == self.size:
            offset = self._gaps.pop()[0]
        self.size = offset + size
        return offset

    def _give_back(self, offset: int, size: int) -> None:
        """Let bytes be a gap, one with those that it touches."""
        number = bisect_left(self._gaps, (offset, 0))
        if number < len(self._gaps) and self._gaps[number][0] == offset + size:
            size += self._gaps.pop(number)[1]
        if number and sum(self._gaps[number - 1]) == offset:
            number -= 1
            first, room = self._gaps.pop(number)
            offset, size = first, room + size
        self._gaps.insert(number, (offset, size))
