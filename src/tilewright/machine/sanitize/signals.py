"""Which tile block has seen what another one wrote, by flags, locks and counters of any ordering.

A race report uses it to name the access that would have ordered its two sides, had it been a release or an acquire.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from xdsl.ir import Operation

from tilewright.machine.sanitize.events import Event

if TYPE_CHECKING:
    from tilewright.machine.sanitize.shadow import Cells, Shadow

# What signals is a cell or a few; a larger access is a result.
_MAX_CELLS = 16


@dataclass(frozen=True, slots=True)
class Signal:
    """A non-weak write that a non-weak read of another tile block has observed."""

    write: Event
    read: Event

    @property
    def reaches(self) -> bool:
        """Whether the scopes of both reach the other tile block, and their sizes are equal."""
        return self.write.may_meet(self.read)


class Signals:
    """The latest signal between any two operations of any two tile blocks."""

    def __init__(self) -> None:
        self._to: dict[int, dict[tuple[int, Operation | None, Operation | None], Signal]] = {}

    def read(self, shadow: Shadow, event: Event, cells: Cells) -> None:
        """Note what a read observes, before the event takes effect."""
        if not event.reads or not event.is_strong or not shadow.signals:
            return
        index = cells.index()
        if index.size > _MAX_CELLS:
            return
        for cell in index.tolist():
            write = shadow.signals.get(cell)
            if write is not None and write.block != event.block:
                known = self._to.setdefault(event.block, {})
                known[write.block, write.op, event.op] = Signal(write, event)

    def written(self, shadow: Shadow, event: Event, cells: Cells) -> None:
        """Note a write for those that are going to read it."""
        if not event.is_strong and not shadow.signals:
            return
        index = cells.index()
        if event.is_strong and index.size <= _MAX_CELLS:
            for cell in index.tolist():
                shadow.signals[cell] = event
        elif shadow.signals:
            for cell in np.intersect1d(index, list(shadow.signals)).tolist():
                del shadow.signals[cell]

    def path(self, first: Event, second: Event) -> tuple[Signal, ...]:
        """The fewest signals that lead from behind ``first`` to before ``second``."""
        if first.block == second.block:
            return ()
        seen = {second.block}
        front: list[tuple[int, int, tuple[Signal, ...]]] = [(second.block, second.number, ())]
        while front:
            following: list[tuple[int, int, tuple[Signal, ...]]] = []
            for block, before, path in front:
                for signal in self._to.get(block, {}).values():
                    write = signal.write
                    if signal.read.number >= before or write.block in seen:
                        continue
                    longer = (signal, *path)
                    if write.block == first.block:
                        if write.number > first.number:
                            return longer
                        continue
                    seen.add(write.block)
                    # An atomic that reads and writes passes on what it reads.
                    following.append((write.block, write.number + 1, longer))
            front = following
        return ()
