"""Data races, found in one execution, exactly: none missed in it, none made up.

Every dynamic memory operation is an :class:`Event`. A token carries a :class:`History`: the events
that happen before whatever takes the token. An event happens before a later one if it is in the
later one's history; histories grow along tokens, and through a release that an acquire observes.
Two accesses to one byte, one of them a write, race unless one is in the history of the other, or
both are non-weak, of the same address and size, with scopes that include each other's tile block.

Shadow memory keeps, for each cell of an allocation, which accesses a later one must be compared
with. A cell is as large as the smallest access to its allocation so far. Cells hold the number of
an interned :class:`CellState`. While an allocation is only accessed by the tiles of one grid, each
as a whole, there is one number for each tile instead; see :class:`Tiling`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.machine.view_access import StridedElements

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from tilewright.machine.memory import Allocation

Array = np.ndarray[Any, Any]

#: How far the scopes reach; a scope covers another block if it is wider than a tile block.
_TILE_BLOCK = "tl_blk"

# So many states are kept before those that are out of use are looked for.
_MIN_STATES = 1 << 16


@dataclass(frozen=True, slots=True)
class History:
    """A set of events: for each tile block a bit mask of its events by number."""

    masks: dict[int, int] = field(default_factory=dict)

    def __contains__(self, event: Event) -> bool:
        return bool(self.masks.get(event.block, 0) >> event.number & 1)

    def including(self, event: Event) -> History:
        if not self.masks:
            return History({event.block: 1 << event.number})
        masks = dict(self.masks)
        masks[event.block] = masks.get(event.block, 0) | 1 << event.number
        return History(masks)

    def joined(self, others: Iterable[History]) -> History:
        """The union; one of these histories itself where the others add nothing to it."""
        parts = [self, *others]
        # Going through the smaller ones only keeps long chains of acquires fast.
        largest = max(parts, key=lambda part: len(part.masks))
        masks = largest.masks
        for part in parts:
            if part is largest:
                continue
            for block, mask in part.masks.items():
                old = masks.get(block, 0)
                if mask | old != old:
                    if masks is largest.masks:
                        masks = dict(masks)
                    masks[block] = old | mask
        return largest if masks is largest.masks else History(masks)


EMPTY = History()


@dataclass(slots=True, eq=False)
class Event:
    """One execution of a memory operation by a tile block; not changed after it is made.

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

    def follows(self, other: Event, history: History) -> bool:
        """Whether whoever acquires from this release, whose history it is, gets all that the other
        release could give."""
        return other in history and self.size == other.size and self.scope != _TILE_BLOCK


@dataclass(frozen=True, slots=True)
class Race:
    """Two accesses that conflict and are not ordered.

    ``first`` took effect before ``second`` in this execution; they are the same event where two
    elements of one store meet. ``cells`` are byte offsets in the allocation, ``size`` the bytes of
    a cell. ``footprints`` gives the offsets of all cells of either access, to be asked for while
    the race is reported: of ``first``, those that no access ordered behind it has overwritten.
    """

    first: Event
    second: Event
    allocation: Allocation
    cells: Array
    size: int
    footprints: Callable[[], tuple[Array, Array]]


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

    def remembers(self, event: Event) -> bool:
        return event in self.writers or event in self.readers()


class Tiling:
    """The state numbers of the tiles of a grid over an allocation, by byte offset.

    The tiles have the shape and strides of one of them. They lie at multiples of its extents in each
    dimension, so that two of them are the same or have no element in common.
    """

    def __init__(self, tile: StridedElements):
        self.tile = tile
        self.numbers: dict[int, int] = {}
        # The dimensions of more than one element, from the outermost one in memory.
        walks = zip(tile.byte_strides, tile.extents, strict=True)
        self._walks = sorted([walk for walk in walks if walk[1] > 1], reverse=True)

    @classmethod
    def of(cls, tile: StridedElements, size: int) -> Tiling | None:
        """The grid around a tile of elements of ``size`` bytes, if it is in one."""
        tiling = cls(tile)
        is_regular = all(stride >= size for stride, _ in tiling._walks)
        return tiling if is_regular and tiling._is_aligned(tile.byte_offset) else None

    def has(self, elements: StridedElements) -> bool:
        """Whether these elements are a tile of the grid."""
        tile = self.tile
        if elements.extents != tile.extents or elements.byte_strides != tile.byte_strides:
            return False
        return elements.byte_offset in self.numbers or self._is_aligned(elements.byte_offset)

    def _is_aligned(self, byte_offset: int) -> bool:
        room = None
        for stride, extent in self._walks:
            position, byte_offset = divmod(byte_offset, stride)
            # A tile must end before the next step of the dimension around this one.
            if position % extent or (room is not None and (position + extent) * stride > room):
                return False
            room = stride
        return byte_offset == 0


class Shadow:
    """The cell states of one allocation, by number.

    ``numbers`` has those of all cells where ``tiling`` is None; see :meth:`spread`.
    """

    def __init__(self, allocation: Allocation, cell_size: int):
        self.tiling: Tiling | None = None
        self.allocation = allocation
        self.byte_count = allocation.buffer.size
        self.cell_size = cell_size
        self.numbers = np.zeros(-(-self.byte_count // cell_size), np.int32)
        self.releases: dict[int, list[tuple[Event, History]]] = {}

    def expect(self, elements: StridedElements, size: int) -> None:
        """Keep the tiling only if these elements, of ``size`` bytes, are a tile of it."""
        tiling = self.tiling
        if tiling is not None and (size != self.cell_size or not tiling.has(elements)):
            self.spread()

    def spread(self) -> None:
        """Keep a number for each cell from now on."""
        tiling, self.tiling = self.tiling, None
        if tiling is not None:
            for byte_offset, number in tiling.numbers.items():
                tile = replace(tiling.tile, byte_offset=byte_offset)
                tile.over(self.numbers, self.cell_size)[...] = number

    def refine(self, size: int) -> None:
        """Make cells as small as ``size`` bytes."""
        self.spread()
        factor = self.cell_size // size
        self.numbers = np.repeat(self.numbers, factor)[: -(-self.byte_count // size)]
        self.releases = {
            cell * factor + part: list(entries)
            for cell, entries in self.releases.items()
            for part in range(factor)
        }
        self.cell_size = size


class _Listed:
    """Cells by index, in the order of the elements."""

    def __init__(self, shadow: Shadow, index: Array):
        self._shadow = shadow
        self._index = index
        self.states = shadow.numbers[index]

    @property
    def is_empty(self) -> bool:
        return not self._index.size

    def common(self) -> int | None:
        """The number of all cells, if it is the same."""
        return _common(self.states)

    @classmethod
    def of(cls, shadow: Shadow, size: int, offsets: Array) -> _Listed:
        """Those of elements of ``size`` bytes."""
        first = offsets.ravel().astype(np.int64) // shadow.cell_size
        parts = size // shadow.cell_size
        if parts > 1:
            first = np.asarray(first[:, None] + np.arange(parts)).ravel()
        return cls(shadow, first)

    def index(self, chosen: Array | None = None) -> Array:
        """The indices of all cells, or of those chosen by a mask like ``states``."""
        return self._index if chosen is None else self._index[chosen]

    def put(self, number: int, chosen: Array | None = None) -> None:
        """Give all cells, or those chosen, a state."""
        self._shadow.numbers[self.index(chosen)] = number

    def repeated(self) -> Array | None:
        """The indices that occur several times, if any does."""
        cells = self._index
        if cells.size < 2 or bool((cells[1:] > cells[:-1]).all()):
            return None
        found, counts = np.unique(cells, return_counts=True)
        return found[counts > 1] if found.size != cells.size else None


def _common(states: Array) -> int | None:
    first = states.item(0)
    return first if np.count_nonzero(states == first) == states.size else None


class _Strided:
    """The cells of elements at fixed strides, as a view of the shadow memory, or in a tiling.

    ``states``, in the shadow memory only, change with what is put.
    """

    is_empty = False

    def __init__(self, shadow: Shadow, size: int, elements: StridedElements):
        self._shadow, self._size, self._elements = shadow, size, elements
        shadow.expect(elements, size)

    @cached_property
    def states(self) -> Array:
        shadow = self._shadow
        assert shadow.tiling is None
        within = self._size // shadow.cell_size
        return self._elements.over(shadow.numbers, shadow.cell_size, within=within)

    def common(self) -> int | None:
        """The number of all cells, if it is the same."""
        tiling = self._shadow.tiling
        if tiling is None:
            return _common(self.states)
        return tiling.numbers.get(self._elements.byte_offset, 0)

    def index(self, chosen: Array | None = None) -> Array:
        unit, elements = self._shadow.cell_size, self._elements
        found = np.array(elements.byte_offset // unit)
        walks = [
            *zip(elements.extents, elements.byte_strides, strict=True),
            (self._size // unit, unit),
        ]
        for extent, stride in walks:
            found = found[..., None] + np.arange(extent) * (stride // unit)
        return found.ravel() if chosen is None else found[chosen]

    def put(self, number: int, chosen: Array | None = None) -> None:
        if (tiling := self._shadow.tiling) is not None:
            tiling.numbers[self._elements.byte_offset] = number
        elif chosen is None:
            self.states.fill(number)
        else:
            self.states[chosen] = number

    def repeated(self) -> Array | None:
        reach = self._size
        elements = self._elements
        for stride, extent in sorted(zip(elements.byte_strides, elements.extents, strict=True)):
            if extent > 1:
                if stride < reach:
                    return _Listed(self._shadow, self.index()).repeated()
                reach += (extent - 1) * stride
        return None


_Cells = _Listed | _Strided


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
            cells = _Strided(shadow, event.size, elements)
        else:
            shadow.spread()
            cells = _Listed.of(shadow, event.size, elements)
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
            self._write(shadow, event, history, _Listed(shadow, written))
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
        self, shadow: Shadow, first: Event, second: Event, cells: _Cells, shared: Array
    ) -> None:
        """Report a race of the event whose cells are ``cells``, at the ``shared`` ones."""
        unit = shadow.cell_size
        index = cells.index()

        def footprints() -> tuple[Array, Array]:
            shadow.spread()
            present = np.unique(shadow.numbers).tolist()
            remembering = [n for n in present if self._states[n].remembers(first)]
            earlier = np.isin(shadow.numbers, remembering).nonzero()[0]
            return earlier * unit, np.unique(index) * unit

        offsets = np.unique(shared) * unit
        self._report(Race(first, second, shadow.allocation, offsets, unit, footprints))

    def _write(self, shadow: Shadow, event: Event, history: History, cells: _Cells) -> None:
        self._visit(shadow, event, history, cells, writes=True)
        if event.releases:
            entry = (event, history)
            for cell in cells.index().tolist():
                chain = shadow.releases.get(cell, []) if event.reads else []
                shadow.releases[cell] = [e for e in chain if not event.follows(e[0], history)]
                shadow.releases[cell].append(entry)
        elif shadow.releases and not event.reads:
            # A plain store ends the chain that a release began; an atomic carries it on.
            for cell in cells.index().tolist():
                shadow.releases.pop(cell, None)

    def _acquire(self, shadow: Shadow, event: Event, history: History, cells: _Cells) -> History:
        if not shadow.releases:
            return history
        imported = [
            released.including(release)
            for cell in set(cells.index().tolist())
            for release, released in shadow.releases.get(cell, ())
            if release.may_meet(event)
        ]
        return history.joined(imported)

    def _visit(
        self, shadow: Shadow, event: Event, history: History, cells: _Cells, *, writes: bool
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
        cells: _Cells,
        chosen: Array | None,
    ) -> int:
        """Compare with one state; gives the number of the state that follows."""
        state = self._states[number]
        for writer in state.writers:
            if writer is not event and writer not in history and not writer.may_meet(event):
                self._found(shadow, writer, event, cells, cells.index(chosen))
        if not writes:
            self._states.append(CellState(state.writers, event, state))
            return len(self._states) - 1
        for reader in state.readers():
            if reader is not event and reader not in history and not reader.may_meet(event):
                self._found(shadow, reader, event, cells, cells.index(chosen))
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
