"""Data races, found in one execution, exactly: none missed in it, none made up.

Every dynamic memory operation is an :class:`Event`. A token carries a :class:`History`: the events
that happen before whatever takes the token. An event happens before a later one if it is in the
later one's history; histories grow along tokens, and through a release that an acquire observes.
Two accesses to one byte, one of them a write, race unless one is in the history of the other, or
both are non-weak, of the same address and size, with scopes that include each other's tile block.

Shadow memory keeps, for each cell of an allocation, which accesses a later one must be compared
with: the number of an interned :class:`CellState`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tilewright.machine.memory import Allocation
from tilewright.machine.sanitize.events import CellState, Event, History, Releases
from tilewright.machine.sanitize.shadow import Cells, Listed, Shadow, Strided, Tiling
from tilewright.machine.sanitize.signals import Signal, Signals
from tilewright.machine.view_access import StridedElements

Array = np.ndarray[Any, Any]

# So many states are kept before those that are out of use are looked for.
_MIN_STATES = 1 << 16


@dataclass(frozen=True, slots=True)
class Race:
    """Two accesses that conflict and are not ordered.

    ``first`` took effect before ``second`` in this execution; they are the same event where two
    elements of one store meet. ``cells`` are byte offsets in the allocation, ``size`` the bytes of
    a cell. ``footprints`` gives the offsets of all cells of either access, to be asked for while
    the race is reported: of ``first``, those that no access ordered behind it has overwritten.
    ``signals`` lead from the tile block of ``first`` to that of ``second``, behind the one and before
    the other: they would order them, were they all releases that an acquire observes.
    """

    first: Event
    second: Event
    allocation: Allocation
    cells: Array
    size: int
    footprints: Callable[[], tuple[Array, Array]]
    signals: tuple[Signal, ...] = ()


class RaceDetector:
    """The shadow memory of a launch.

    ``access`` is to be called once for each allocation that an event touches, in the order in
    which events take effect.
    """

    def __init__(self, report: Callable[[Race], None]):
        self._report = report
        self._shadows: dict[int, Shadow] = {}
        self._states: list[CellState] = [CellState()]
        self._sweep_at = _MIN_STATES
        self._counts: dict[int, int] = {}
        self._signals = Signals()
        self._known: set[tuple[Operation, Operation, int]] = set()
        """The operations of races that were reported, with the base of the allocation."""

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
        elements: Array | StridedElements,
        *,
        may_repeat: bool = False,
        wrote: Array | None = None,
    ) -> History:
        """Check and record an access to one allocation; gives the history with what it acquires.

        ``elements`` are given by strides, or by their byte offsets in the allocation in any shape.
        ``may_repeat`` tells that two may be the same. ``wrote``, for a compare-and-swap, tells
        which elements were written.
        """
        if len(self._states) + len(self._shadows) >= self._sweep_at:
            self._sweep()
        shadow = self._shadows.get(allocation.base)
        if shadow is None:
            shadow = self._shadows[allocation.base] = Shadow(allocation, event.size)
            if isinstance(elements, StridedElements):
                shadow.tiling = Tiling.of(elements, event.size)
        elif event.size < shadow.cell_size:
            shadow.refine(event.size)
        if isinstance(elements, StridedElements):
            cells = Strided(shadow, event.size, elements)
        else:
            shadow.spread()
            cells = Listed.of(shadow, event.size, elements)
        self._signals.read(shadow, event, cells)
        if event.acquires:
            history = self._acquire(shadow, event, history, cells)
        if may_repeat and event.writes and not event.is_strong:
            repeated = cells.repeated()
            if repeated is not None:
                self._found(shadow, event, event, cells, repeated)
        if wrote is not None:
            lanes = np.repeat(wrote.ravel(), event.size // shadow.cell_size)
            self._visit(shadow, event, history, cells, writes=False)
            written = cells.index()[lanes]
            shadow.spread()
            self._write(shadow, event, history, Listed(shadow, written))
        elif event.writes:
            self._write(shadow, event, history, cells)
        else:
            self._visit(shadow, event, history, cells, writes=False)
        return history

    def _sweep(self) -> None:
        """Forget memory that has ended its life, and the states that no cell has any more."""
        self._shadows = {b: s for b, s in self._shadows.items() if s.allocation.is_live}
        alive = np.zeros(len(self._states), np.bool_)
        alive[0] = True
        for shadow in self._shadows.values():
            shadow.spread()
            alive[shadow.numbers] = True
        renumbered = (np.cumsum(alive) - 1).astype(np.int32)
        for shadow in self._shadows.values():
            shadow.numbers = renumbered[shadow.numbers]
        self._states = [self._states[number] for number in np.flatnonzero(alive).tolist()]
        self._sweep_at = max(_MIN_STATES, 2 * (len(self._states) + len(self._shadows)))

    def _found(
        self, shadow: Shadow, first: Event, second: Event, cells: Cells, shared: Array
    ) -> None:
        """Report a race of the event whose cells are ``cells``, at the ``shared`` ones: one race of
        two operations about an allocation."""
        if first.op is not None and second.op is not None:
            key = first.op, second.op, shadow.allocation.base
            if key in self._known:
                return
            self._known.add(key)
        unit = shadow.cell_size
        index = cells.index()

        def footprints() -> tuple[Array, Array]:
            shadow.spread()
            present: list[int] = np.unique(shadow.numbers).tolist()
            remembering = [n for n in present if self._states[n].remembers(first)]
            earlier = np.isin(shadow.numbers, remembering).nonzero()[0]
            return earlier * unit, np.unique(index) * unit

        offsets = np.unique(shared) * unit
        path = self._signals.path(first, second)
        self._report(Race(first, second, shadow.allocation, offsets, unit, footprints, path))

    def _write(self, shadow: Shadow, event: Event, history: History, cells: Cells) -> None:
        self._visit(shadow, event, history, cells, writes=True)
        if event.releases:
            for cell in cells.index().tolist():
                releases = shadow.releases.get(cell) if event.reads else None
                if releases is None:
                    releases = shadow.releases[cell] = Releases()
                releases.add(event, history)
        elif shadow.releases and not event.reads:
            # A plain store ends the chain that a release began; an atomic carries it on.
            for cell in cells.index().tolist():
                shadow.releases.pop(cell, None)
        self._signals.written(shadow, event, cells)

    def _acquire(self, shadow: Shadow, event: Event, history: History, cells: Cells) -> History:
        if not shadow.releases:
            return history
        imported = [
            given
            for cell in set(cells.index().tolist())
            if (releases := shadow.releases.get(cell)) is not None
            for given in releases.given_to(event)
        ]
        return history.joined(imported)

    def _visit(
        self, shadow: Shadow, event: Event, history: History, cells: Cells, *, writes: bool
    ) -> None:
        """Compare the access with what the cells remember, and remember it there."""
        if cells.is_empty:
            return
        number = cells.common()
        if number is not None:
            cells.put(self._step(shadow, event, history, number, writes, cells, None))
            return
        numbers = cells.states
        # The numbers of new states are not among the old ones: what is put does not disturb.
        for number in np.unique(numbers).tolist():
            chosen = np.asarray(numbers == number)
            cells.put(self._step(shadow, event, history, number, writes, cells, chosen), chosen)

    def _step(
        self,
        shadow: Shadow,
        event: Event,
        history: History,
        number: int,
        writes: bool,
        cells: Cells,
        chosen: Array | None,
    ) -> int:
        """Compare with one state; gives the number of the state that follows."""
        state = self._states[number]
        for other in state.opponents(event, history, writes=writes):
            self._found(shadow, other, event, cells, cells.index(chosen))
        self._states.append(state.after(event, history, writes=writes))
        return len(self._states) - 1
