"""Data races, found in one execution, exactly: none missed in it, none made up.

Every dynamic memory operation is an :class:`Event`. A token carries a :class:`History`: the events
that happen before whatever takes the token. An event happens before a later one if it is in the
later one's history; histories grow along tokens, and through a release that an acquire observes.
Two accesses to one byte, one of them a write, race unless one is in the history of the other, or
both are non-weak, of the same address and size, with scopes that include each other's tile block.

Shadow memory keeps, for each cell of an allocation, which accesses a later one must be compared
with. A cell is as large as the smallest access to its allocation so far. Cells hold the number of
an interned :class:`CellState`, so that an access to a tile that was always accessed as a whole
costs one comparison, whatever its size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from tilewright.machine.memory import Allocation

Array = np.ndarray[Any, Any]

#: How far the scopes reach; a scope covers another block if it is wider than a tile block.
_TILE_BLOCK = "tl_blk"


@dataclass(frozen=True, slots=True)
class History:
    """A set of events: for each tile block a bit mask of its events by number."""

    masks: dict[int, int] = field(default_factory=dict)

    def __contains__(self, event: Event) -> bool:
        return bool(self.masks.get(event.block, 0) >> event.number & 1)

    def including(self, event: Event) -> History:
        masks = dict(self.masks)
        masks[event.block] = masks.get(event.block, 0) | 1 << event.number
        return History(masks)

    def joined(self, others: Iterable[History]) -> History:
        """The union; this history itself where the others add nothing."""
        masks = self.masks
        for other in others:
            for block, mask in other.masks.items():
                old = masks.get(block, 0)
                if mask | old != old:
                    if masks is self.masks:
                        masks = dict(masks)
                    masks[block] = old | mask
        return self if masks is self.masks else History(masks)


EMPTY = History()


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """One execution of a memory operation by a tile block.

    ``number`` counts the events of the block from 0. ``ordering`` and ``scope`` are spelled as in
    Tile IR, the scope of a weak access is empty. ``size`` is that of an element, in bytes.
    """

    block: int
    number: int
    op: Operation | None
    ordering: str
    scope: str
    size: int
    reads: bool
    writes: bool

    @property
    def is_strong(self) -> bool:
        return self.ordering != "weak"

    @property
    def acquires(self) -> bool:
        return self.reads and self.ordering in ("acquire", "acq_rel")

    @property
    def releases(self) -> bool:
        return self.writes and self.ordering in ("release", "acq_rel")

    def covers(self, other: Event) -> bool:
        return self.block == other.block or self.scope != _TILE_BLOCK

    def may_meet(self, other: Event) -> bool:
        """Whether the two may touch the same element unordered: both strong, in each other's
        scope, of one size."""
        return (
            self.is_strong
            and other.is_strong
            and self.size == other.size
            and self.covers(other)
            and other.covers(self)
        )


@dataclass(frozen=True, slots=True)
class Race:
    """Two accesses that conflict and are not ordered.

    ``first`` took effect before ``second`` in this execution; they are the same event where two
    elements of one store meet. ``cells`` are byte offsets in the allocation, ``size`` those of a
    cell.
    """

    first: Event
    second: Event
    allocation: Allocation
    cells: Array
    size: int


@dataclass(slots=True, eq=False)
class CellState:
    """The accesses that a later access to a cell must be compared with, newest reader first."""

    writers: tuple[Event, ...] = ()
    reader: Event | None = None
    older: CellState | None = None

    def readers(self) -> Iterator[Event]:
        state: CellState | None = self
        while state is not None and state.reader is not None:
            yield state.reader
            state = state.older


class Shadow:
    """The cell states of one allocation, by number."""

    def __init__(self, allocation: Allocation, cell_size: int):
        self.allocation = allocation
        self.byte_count = allocation.buffer.size
        self.cell_size = cell_size
        self.numbers = np.zeros(-(-self.byte_count // cell_size), np.int32)
        self.releases: dict[int, list[tuple[Event, History]]] = {}

    def refine(self, size: int) -> None:
        """Make cells as small as ``size`` bytes."""
        factor = self.cell_size // size
        self.numbers = np.repeat(self.numbers, factor)[: -(-self.byte_count // size)]
        self.releases = {
            cell * factor + part: list(entries)
            for cell, entries in self.releases.items()
            for part in range(factor)
        }
        self.cell_size = size


class RaceDetector:
    """The shadow memory of a launch.

    ``access`` is to be called once for each allocation that an event touches, in the order in
    which events take effect.
    """

    def __init__(self, report: Callable[[Race], None]):
        self._report = report
        self._shadows: dict[int, Shadow] = {}
        self._states: list[CellState] = [CellState()]
        self._counts: dict[int, int] = {}

    def event(
        self,
        block: int,
        op: Operation | None,
        *,
        ordering: str,
        scope: str,
        size: int,
        reads: bool,
        writes: bool,
    ) -> Event:
        """The next event of a tile block."""
        number = self._counts.get(block, 0)
        self._counts[block] = number + 1
        return Event(block, number, op, ordering, scope, size, reads, writes)

    def access(
        self,
        event: Event,
        history: History,
        allocation: Allocation,
        offsets: Array,
        *,
        may_repeat: bool = False,
        wrote: Array | None = None,
    ) -> History:
        """Check and record an access to one allocation; gives the history with what it acquires.

        ``offsets`` are the byte offsets of the elements in the allocation, a multiple of the element
        size each, in any shape. ``may_repeat`` tells that two may be equal. ``wrote``, for a
        compare-and-swap, tells which elements were written.
        """
        shadow = self._shadows.get(allocation.base)
        if shadow is None:
            shadow = self._shadows[allocation.base] = Shadow(allocation, event.size)
        elif event.size < shadow.cell_size:
            shadow.refine(event.size)
        cells = self._cells(shadow, event, offsets)
        if event.acquires:
            history = self._acquire(shadow, event, history, cells)
        if may_repeat and event.writes and not event.is_strong:
            self._check_repeats(shadow, event, cells)
        if wrote is not None:
            lanes = np.repeat(wrote.ravel(), event.size // shadow.cell_size)
            self._visit(shadow, event, history, cells, writes=False)
            self._write(shadow, event, history, cells[lanes])
        elif event.writes:
            self._write(shadow, event, history, cells)
        else:
            self._visit(shadow, event, history, cells, writes=False)
        return history

    def _cells(self, shadow: Shadow, event: Event, offsets: Array) -> Array:
        first = offsets.ravel().astype(np.int64) // shadow.cell_size
        parts = event.size // shadow.cell_size
        if parts == 1:
            return first
        return np.asarray(first[:, None] + np.arange(parts)).ravel()

    def _check_repeats(self, shadow: Shadow, event: Event, cells: Array) -> None:
        if cells.size < 2 or bool((cells[1:] > cells[:-1]).all()):
            return
        found, counts = np.unique(cells, return_counts=True)
        if found.size != cells.size:
            self._found(shadow, event, event, found[counts > 1])

    def _found(self, shadow: Shadow, first: Event, second: Event, cells: Array) -> None:
        offsets = np.unique(cells) * shadow.cell_size
        self._report(Race(first, second, shadow.allocation, offsets, shadow.cell_size))

    def _write(self, shadow: Shadow, event: Event, history: History, cells: Array) -> None:
        self._visit(shadow, event, history, cells, writes=True)
        if event.releases:
            entry = (event, history)
            for cell in cells.tolist():
                kept = shadow.releases.get(cell, []) if event.reads else []
                shadow.releases[cell] = [*kept, entry]
        elif shadow.releases and not event.reads:
            # A plain store ends the chain that a release began; an atomic carries it on.
            for cell in cells.tolist():
                shadow.releases.pop(cell, None)

    def _acquire(self, shadow: Shadow, event: Event, history: History, cells: Array) -> History:
        if not shadow.releases:
            return history
        imported = [
            released.including(release)
            for cell in set(cells.tolist())
            for release, released in shadow.releases.get(cell, ())
            if release.may_meet(event)
        ]
        return history.joined(imported)

    def _visit(
        self, shadow: Shadow, event: Event, history: History, cells: Array, *, writes: bool
    ) -> None:
        """Compare the access with what the cells remember, and remember it there."""
        if not cells.size:
            return
        numbers = shadow.numbers[cells]
        lowest = int(numbers.min())
        if lowest == int(numbers.max()):
            new = self._step(shadow, event, history, lowest, writes, lambda: cells)
            shadow.numbers[cells] = new
            return
        for number in np.unique(numbers).tolist():
            chosen = cells[numbers == number]
            new = self._step(shadow, event, history, number, writes, lambda c=chosen: c)
            shadow.numbers[chosen] = new

    def _step(
        self,
        shadow: Shadow,
        event: Event,
        history: History,
        number: int,
        writes: bool,
        cells: Callable[[], Array],
    ) -> int:
        """Compare with one state; gives the number of the state that follows."""
        state = self._states[number]
        for writer in state.writers:
            if writer is not event and writer not in history and not writer.may_meet(event):
                self._found(shadow, writer, event, cells())
        if not writes:
            self._states.append(CellState(state.writers, event, state))
            return len(self._states) - 1
        for reader in state.readers():
            if reader is not event and reader not in history and not reader.may_meet(event):
                self._found(shadow, reader, event, cells())
        if event.is_strong:
            following = CellState((*state.writers, event), state.reader, state.older)
        else:
            # Whoever is unordered with an access that this one follows is unordered with this one
            # as well, and conflicts with it: the older records need not be kept.
            unordered = tuple(w for w in state.writers if w not in history)
            following = CellState((*unordered, event))
            for reader in reversed([r for r in state.readers() if r not in history]):
                following = CellState(following.writers, reader, following)
        self._states.append(following)
        return len(self._states) - 1
