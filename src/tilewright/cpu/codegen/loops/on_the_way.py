"""Buffers that a nest fills on its way, because it computes what they are to hold.

A tile that is kept for later is often first read by a reduction, whose nest comes by each of its elements once. The element is
computed there and written, so that no nest of its own goes over the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tilewright.cpu.codegen.loops.fills import Fill
from tilewright.cpu.codegen.loops.tiles import (
    Elementwise,
    Mapped,
    Strided,
    Tile,
    Uniform,
    Written,
    by_slot,
    is_dense,
    reads_any,
    reshaped,
)
from tilewright.numerics.strides import row_major

#: What is told of a nest that does.
FILLED = "the nest that first reads the elements of {} buffers, each once, fills them on its way"


def written_on_the_way(tiles: Sequence[Tile], pending: Sequence[Fill]) -> list[Tile] | None:
    """The tiles that a nest reads once each, with what waits for its buffer computed, and written, where they ask for it.

    None if the nest does not come by all elements of each buffer, or reads some of them at other places. Buffers that wait for one
    another are filled in step.
    """
    way = _Way({id(target): (target, source) for target, source in pending})
    found = [way.seen_as(tile, tile.dims) for tile in tiles]
    if way.strays or way.met != set(way.pending):
        return None
    return found


@dataclass(slots=True)
class _Way:
    """What is known of tiles; ``met``: which buffers the nest comes by; ``strays``: whether it reads them otherwise."""

    pending: dict[int, Fill]
    met: set[int] = field(default_factory=set)
    strays: bool = False
    _made: dict[tuple[int, tuple[int, ...]], Tile] = field(default_factory=dict)
    _apart: dict[int, bool] = field(default_factory=dict)

    def seen_as(self, tile: Tile, dims: tuple[int, ...]) -> Tile:
        """The tile, seen as one of this shape, which differs by axes of one element."""
        key = id(tile), dims
        if key not in self._made:
            self._made[key] = self._see(tile, dims)
        return self._made[key]

    def _see(self, tile: Tile, dims: tuple[int, ...]) -> Tile:
        if id(tile) in self.pending:
            self.met.add(id(tile))
            target, source = self.pending[id(tile)]
            if tile.dims == dims:
                return Written(target.element, dims, self.seen_as(source, dims), target)
            if is_dense(target):
                view = Strided(target.element, dims, target.pointer, row_major(dims), target.slot)
                return Written(target.element, dims, self.seen_as(source, dims), view)
            self.strays = True
        elif not self._reads(tile):
            return _viewed(tile, dims)
        elif isinstance(tile, Elementwise):
            operands = (
                o if o.dims != tile.dims and isinstance(o, Uniform) else self.seen_as(o, dims)
                for o in tile.operands
            )
            return replace(tile, dims=dims, operands=tuple(operands))
        elif isinstance(tile, Mapped) and _is_same_row(tile):
            return self.seen_as(tile.source, dims)
        else:
            self.strays = True
        return tile

    def _reads(self, tile: Tile) -> bool:
        found = self._apart.get(id(tile))
        if found is None:
            targets = by_slot(target for target, _ in self.pending.values())
            found = self._apart[id(tile)] = reads_any(tile, targets)
        return found


def _is_same_row(tile: Mapped) -> bool:
    """Whether a tile is another without, or with further, axes of one element."""
    source, result = tile.source.dims, tile.dims
    same = [n for n in source if n != 1] == [n for n in result if n != 1]
    return same and tile.mapping is reshaped(source, result)


def _viewed(tile: Tile, dims: tuple[int, ...]) -> Tile:
    if tile.dims == dims:
        return tile
    if isinstance(tile, Uniform):
        return Uniform(tile.element, dims, tile.value)
    return Mapped(tile.element, dims, tile, reshaped(tile.dims, dims))
