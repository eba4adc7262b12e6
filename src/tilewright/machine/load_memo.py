"""Load memoization: lets loads return an earlier tile instead of reading memory.

Tile blocks of one kernel often load the same tile, as those in one row of a matrix product do, and products convert
it to a wider type each time. A load returns its previous tile if view and index are equal and nothing has been
written to the allocation since. Tiles are immutable, so a memoized one is indistinguishable from a new one.

Memoization is adaptive: it begins for an operation once an index repeats, and stops for the rest of the launch when
memory changes or no index repeats.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.machine.memory import Allocation
from tilewright.machine.values import TensorView
from tilewright.numerics.arrays import Array
from tilewright.numerics.widening import as_f32

# At this size everything is dropped, so that the memo stays small compared with a launch's arrays.
_MAX_BYTES = 64 << 20
# Distinct tiles of one operation, none of them loaded twice, after which it gives up.
_MAX_SEEN_ONCE = 1024

Index = tuple[int, ...]


@dataclass(slots=True, eq=False)
class MemoizedTile:
    """The result of a load. Valid while the allocation's write count equals ``writes``."""

    tile: Array
    allocation: Allocation
    writes: int


_NO_VIEW = TensorView(0, (), ())


@dataclass(slots=True, eq=False)
class LoadHistory:
    """The tiles loaded by one operation in this launch, by view and index."""

    owner: LoadMemo
    is_open: bool = True
    """Whether loads should consult and update the history."""
    keeps: bool = False
    """Whether an index has repeated; persists across launches."""
    view: TensorView = _NO_VIEW
    tiles: dict[Index, MemoizedTile | None] = field(
        default_factory=dict[Index, MemoizedTile | None]
    )
    """The tiles of ``view``; None for an index seen once."""
    _by_view: dict[TensorView, dict[Index, MemoizedTile | None]] = field(
        default_factory=dict[TensorView, dict[Index, MemoizedTile | None]]
    )
    _seen_once: int = 0

    def turn_to(self, view: TensorView) -> None:
        """Switch ``tiles`` to those of a view."""
        self.view, self.tiles = view, self._by_view.setdefault(view, {})

    def current(self, index: Index) -> MemoizedTile | None:
        """Return the memoized tile of an index of ``view`` if memory has not changed since, else None."""
        kept = self.tiles.get(index)
        return kept if kept is not None and kept.writes == kept.allocation.writes else None

    def note(self, index: Index, tile: Array, allocation: Allocation) -> None:
        """Record a load from ``view`` for which ``tiles`` held nothing current."""
        known = self.tiles.get(index)
        changes = allocation.is_shared or allocation.owner is not None
        if changes or known is not None:
            self.is_open = False
        elif self.keeps or index in self.tiles:
            self.keeps = True
            self.owner.keep(tile)
            self.tiles[index] = MemoizedTile(tile, allocation, allocation.writes)
        else:
            self.tiles[index] = None
            self._seen_once += 1
            self.is_open = self._seen_once <= _MAX_SEEN_ONCE

    def clear(self) -> None:
        """Drop all tiles and start over."""
        self.view, self.tiles = _NO_VIEW, {}
        self._by_view.clear()
        self._seen_once = 0
        self.is_open = True


@dataclass(slots=True, eq=False)
class LoadMemo:
    """All memoized tiles of a machine. ``is_off``: loads must always read memory."""

    is_off: bool = False
    wide: dict[int, Array] = field(default_factory=dict[int, Array])
    """Memoized tiles converted to f32, by ``id``; see :meth:`widened`."""
    _tiles: dict[int, Array] = field(default_factory=dict[int, Array])
    _histories: list[LoadHistory] = field(default_factory=list[LoadHistory])
    _bytes: int = 0

    def history(self) -> LoadHistory:
        """Return a new history for a load operation."""
        self._histories.append(LoadHistory(self))
        return self._histories[-1]

    def keep(self, tile: Array) -> None:
        """Keep a tile alive, so that its ``id`` stays unique."""
        self._make_room(tile.nbytes)
        self._tiles[id(tile)] = tile

    def widened(self, tile: Array) -> Array:
        """Return a tile of narrow floats as f32, which is exact. The result is memoized if the tile is."""
        found = self.wide.get(id(tile))
        if found is None:
            found = as_f32(tile)
            if id(tile) in self._tiles:
                self._make_room(found.nbytes)
                # Making room may have dropped this tile, too.
                if id(tile) in self._tiles:
                    self.wide[id(tile)] = found
        return found

    def _make_room(self, size: int) -> None:
        if self._bytes + size > _MAX_BYTES:
            self.clear()
        self._bytes += size

    def clear(self) -> None:
        """Drop all tiles."""
        for history in self._histories:
            history.clear()
        self._tiles.clear()
        self.wide.clear()
        self._bytes = 0
