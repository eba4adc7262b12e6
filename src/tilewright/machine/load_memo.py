"""Load memoization: tiles that loads may return again, instead of reading memory.

Tile blocks of one kernel often load the same tile, as those of a matrix product in one row do, and products convert it to a
wider type each time. A load returns its previous tile if view and index are the same and nothing has been written to the
allocation since. Tiles are immutable, so a remembered one cannot be told from a new one.

Only what pays is remembered: an operation begins once an index has repeated, and stops for the rest of the launch where
memory changes under it or no index repeats.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.machine.memory import Allocation
from tilewright.machine.values import TensorView
from tilewright.numerics.arrays import Array
from tilewright.numerics.widening import as_f32

# All is forgotten when this is reached, so that memory stays small beside the arrays of a launch.
_MAX_BYTES = 64 << 20
# Different tiles of one operation, none of them loaded twice, before it gives up.
_MAX_SEEN_ONCE = 1024

Index = tuple[int, ...]


@dataclass(slots=True, eq=False)
class MemoizedTile:
    """A tile that a load gave. It is still what memory holds while the allocation's number of
    writes is this one."""

    tile: Array
    allocation: Allocation
    writes: int


_NO_VIEW = TensorView(0, (), ())


@dataclass(slots=True, eq=False)
class LoadHistory:
    """The tiles that one load operation has given in this launch, by view and index."""

    owner: LoadMemo
    is_open: bool = True
    """Whether to ask and to tell it about loads."""
    keeps: bool = False
    """Whether an index has come twice; stays true from one launch to the next."""
    view: TensorView = _NO_VIEW
    tiles: dict[Index, MemoizedTile | None] = field(
        default_factory=dict[Index, MemoizedTile | None]
    )
    """Those of ``view``; None for an index that has come once."""
    _by_view: dict[TensorView, dict[Index, MemoizedTile | None]] = field(
        default_factory=dict[TensorView, dict[Index, MemoizedTile | None]]
    )
    _seen_once: int = 0

    def turn_to(self, view: TensorView) -> None:
        """Make ``tiles`` those of a view."""
        self.view, self.tiles = view, self._by_view.setdefault(view, {})

    def current(self, index: Index) -> MemoizedTile | None:
        """The remembered tile of an index of ``view``, if memory still holds it."""
        kept = self.tiles.get(index)
        return kept if kept is not None and kept.writes == kept.allocation.writes else None

    def note(self, index: Index, tile: Array, allocation: Allocation) -> None:
        """Take note of a load from ``view`` that ``tiles`` had nothing current for."""
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
        """Forget all tiles, and begin anew."""
        self.view, self.tiles = _NO_VIEW, {}
        self._by_view.clear()
        self._seen_once = 0
        self.is_open = True


@dataclass(slots=True, eq=False)
class LoadMemo:
    """All tiles that a machine keeps. ``is_off``: loads must read memory every time."""

    is_off: bool = False
    wide: dict[int, Array] = field(default_factory=dict[int, Array])
    """Tiles of the memo in f32, by ``id``; see :meth:`widened`."""
    _tiles: dict[int, Array] = field(default_factory=dict[int, Array])
    _histories: list[LoadHistory] = field(default_factory=list[LoadHistory])
    _bytes: int = 0

    def history(self) -> LoadHistory:
        """A new history for a load operation."""
        self._histories.append(LoadHistory(self))
        return self._histories[-1]

    def keep(self, tile: Array) -> None:
        """Hold on to a tile, so that its ``id`` stays its own."""
        self._make_room(tile.nbytes)
        self._tiles[id(tile)] = tile

    def widened(self, tile: Array) -> Array:
        """A tile of narrow floats as f32, which is exact; made once for a remembered tile."""
        found = self.wide.get(id(tile))
        if found is None:
            found = as_f32(tile)
            if id(tile) in self._tiles:
                self._make_room(found.nbytes)
                # Making room may have meant to let go of this tile too.
                if id(tile) in self._tiles:
                    self.wide[id(tile)] = found
        return found

    def _make_room(self, size: int) -> None:
        if self._bytes + size > _MAX_BYTES:
            self.clear()
        self._bytes += size

    def clear(self) -> None:
        """Forget all tiles."""
        for history in self._histories:
            history.clear()
        self._tiles.clear()
        self.wide.clear()
        self._bytes = 0
