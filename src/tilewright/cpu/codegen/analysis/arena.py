"""Where tile buffers lie in a thread's arena: reused once their tiles are dead."""

from __future__ import annotations

from dataclasses import dataclass

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
        self._live: list[Slot] = []

    def place(self, size: int, now: int, last: int) -> Slot:
        """Room for ``size`` bytes that are used from position ``now`` to ``last``."""
        rounded = -(-max(size, 1) // ARENA_ALIGNMENT) * ARENA_ALIGNMENT
        self._live = [slot for slot in self._live if slot.last >= now]
        offset = 0
        for slot in sorted(self._live, key=lambda slot: slot.offset):
            if slot.offset - offset >= rounded:
                break
            offset = max(offset, slot.offset + slot.size)
        placed = Slot(offset, rounded, last)
        self._live.append(placed)
        self.size = max(self.size, offset + rounded)
        return placed
