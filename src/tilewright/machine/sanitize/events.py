"""Accesses as events, what happens before them, and what a cell of memory remembers of them.

Nothing here takes time in proportion to the accesses that were made before, as long as those are of
one kind, as polls and updates of a flag, a lock or a counter are. Chains share what they have in
common, and what releases give is joined as they come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from xdsl.ir import Operation

# The scopes reach another tile block if they are wider than this one.
_TILE_BLOCK = "tl_blk"

# Longer chains are looked at as a whole before their events are.
_LONG = 16


@dataclass(frozen=True, slots=True)
class History:
    """A set of events: for each tile block a bit mask of its events by number."""

    masks: dict[int, int] = field(default_factory=dict[int, int])

    def __contains__(self, event: Event) -> bool:
        return bool(self.masks.get(event.block, 0) >> event.number & 1)

    def including(self, event: Event) -> History:
        """This history with one event more."""
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
    kind: int = field(init=False)
    """Accesses of one kind may meet unordered, whatever their tile blocks; 0 is none of the kinds."""

    def __post_init__(self) -> None:
        self.kind = self.size if self.is_strong and self.scope != _TILE_BLOCK else 0

    @property
    def is_strong(self) -> bool:
        """Whether the memory model counts it as a strong operation: every ordering but weak (the specification's
        chapter on the memory model, after that of PTX).
        """
        return self.ordering != "weak"

    @property
    def acquires(self) -> bool:
        """Whether it may synchronise with a release that it reads from."""
        return self.reads and self.ordering in ("acquire", "acq_rel")

    @property
    def releases(self) -> bool:
        """Whether a later acquire that reads what it wrote may synchronise with it."""
        return self.writes and self.ordering in ("release", "acq_rel")

    def covers(self, other: Event) -> bool:
        """Whether the tile block of another event lies in the scope of this one.

        All tile blocks of a launch run on one device, so every scope but ``tl_blk`` has them all.
        """
        return self.block == other.block or self.scope != _TILE_BLOCK

    def may_meet(self, other: Event) -> bool:
        """Whether the two may touch the same element unordered: both strong, in each other's
        scope, of one size. That is what the memory model calls morally strong.
        """
        return (
            self.is_strong
            and other.is_strong
            and self.size == other.size
            and self.covers(other)
            and other.covers(self)
        )


class Chain:
    """Events, newest first, that share their older part with other chains.

    ``kind`` is that of all of them, or 0.
    """

    __slots__ = ("_masks", "count", "event", "kind", "older")

    def __init__(self, event: Event, older: Chain | None):
        self.event, self.older = event, older
        self.kind = event.kind if older is None or older.kind == event.kind else 0
        self.count = 1 if older is None else older.count + 1
        self._masks: dict[int, int] | None = None

    def __iter__(self) -> Iterator[Event]:
        chain: Chain | None = self
        while chain is not None:
            yield chain.event
            chain = chain.older

    @staticmethod
    def of(events: Iterable[Event]) -> Chain | None:
        """A chain of these, oldest first; None for no events."""
        chain: Chain | None = None
        for event in events:
            chain = Chain(event, chain)
        return chain

    def is_in(self, history: History) -> bool:
        """Whether all are in a history; known without looking at each of them."""
        if self._masks is None:
            masks: dict[int, int] = {}
            for event in self:
                masks[event.block] = masks.get(event.block, 0) | 1 << event.number
            self._masks = masks
        known = history.masks
        return all(not mask & ~known.get(block, 0) for block, mask in self._masks.items())

    def unordered(self, history: History) -> list[Event]:
        """Those that are not in a history, oldest first."""
        if self.count > _LONG and self.is_in(history):
            return []
        return [event for event in self if event not in history][::-1]

    def opponents(self, event: Event, history: History) -> list[Event]:
        """Those that an access to what they touched conflicts with, oldest first."""
        if self.kind and self.kind == event.kind:
            return []
        unordered = self.unordered(history)
        return [each for each in unordered if each is not event and not each.may_meet(event)]


@dataclass(slots=True, eq=False)
class CellState:
    """The accesses that a later access to a cell must be compared with."""

    writers: Chain | None = None
    readers: Chain | None = None

    def remembers(self, event: Event) -> bool:
        """Whether a later access would be compared with an event."""
        return any(event in chain for chain in (self.writers, self.readers) if chain is not None)

    def opponents(self, event: Event, history: History, *, writes: bool) -> list[Event]:
        """The accesses that this one conflicts with: writers, and for a write readers as well."""
        found = [] if self.writers is None else self.writers.opponents(event, history)
        if writes and self.readers is not None:
            found += self.readers.opponents(event, history)
        return found

    def after(self, event: Event, history: History, *, writes: bool) -> CellState:
        """The state behind an access."""
        if not writes:
            return CellState(self.writers, Chain(event, self.readers))
        if event.is_strong:
            return CellState(Chain(event, self.writers), self.readers)
        # Whoever is unordered with an access that this one follows is unordered with this one
        # as well, and conflicts with it: the older records need not be kept.
        writers, readers = (
            [] if chain is None else chain.unordered(history)
            for chain in (self.writers, self.readers)
        )
        return CellState(Chain.of([*writers, event]), Chain.of(readers))


class Releases:
    """What an acquire gets from a cell: the histories of a release and of the atomics that carry it
    on, joined."""

    __slots__ = ("_holds_all", "_last", "_of_block", "_wide")

    def __init__(self) -> None:
        self._wide: dict[int, History] = {}
        """By the size of an element: of releases whose scope reaches other tile blocks."""
        self._of_block: dict[tuple[int, int], History] = {}
        """By tile block and size: of releases of one tile block, unless a later one stands for them."""
        self._last: Event | None = None
        self._holds_all = True
        """Whether what the last release gave is all that there is in ``_wide``."""

    def __len__(self) -> int:
        """How many histories are kept one by one."""
        return len(self._of_block)

    def copy(self) -> Releases:
        """The same releases, which then grow by themselves."""
        other = Releases()
        other._wide, other._of_block = dict(self._wide), dict(self._of_block)
        other._last, other._holds_all = self._last, self._holds_all
        return other

    def add(self, event: Event, history: History) -> None:
        """A release, or an atomic that releases and carries on."""
        size, last = event.size, self._last
        given = history.including(event)
        follows = last is not None and last in history and last.size == size
        if event.scope != _TILE_BLOCK:
            if follows and last is not None:
                self._of_block.pop((last.block, size), None)
            self._holds_all = self._holds_all and (last is None or follows)
            wide = self._wide.get(size)
            self._wide[size] = given if self._holds_all or wide is None else wide.joined([given])
        else:
            self._holds_all = False
        own = self._of_block.get((event.block, size))
        self._of_block[event.block, size] = given if own is None else own.joined([given])
        self._last = event

    def given_to(self, event: Event) -> Iterator[History]:
        """What an acquire gets that reads the cell."""
        own = self._of_block.get((event.block, event.size))
        if own is not None:
            yield own
        if event.scope != _TILE_BLOCK and (wide := self._wide.get(event.size)) is not None:
            yield wide
