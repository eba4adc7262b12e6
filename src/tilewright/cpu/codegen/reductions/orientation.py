"""Which way the vectors of a reduction along an inner axis run: along its rows, or across them.

What is computed of pairs, as distances are or forces, is made of tiles that are one number along one of the two axes. Where each lane is
a row of its own, what changes along the row is such a number, and what is accumulated never has to come together across
lanes. That needs rows whose elements lie side by side in memory, or do not depend on the place in the row.
"""

from __future__ import annotations

from llvmlite import ir

from tilewright.cpu.codegen.ir.elements import I64
from tilewright.cpu.codegen.ir.types import Builder
from tilewright.cpu.codegen.loops.indices import Coords, Index, Lane, lanes_in
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import Elementwise, Mapped, Range, Tile, Uniform, is_run
from tilewright.cpu.codegen.reductions.combination import Combination


def lanes_may_be_rows(b: Builder, combination: Combination, rows: int, lanes: int) -> bool:
    """Whether vectors of so many lanes along the axis ``rows`` find all that a reduction reads side by side, or the same in all
    lanes, and only read: buffers that are filled on the way lie along rows."""
    place = Index(Lane(ir.Constant(I64, 0)), None)
    coords = [place] * len(combination.dims)
    coords[rows] = Index(Lane(ir.Constant(I64, 0)), tuple(range(lanes)), lanes)
    found = _Found(LoopNest(b))
    return all(found.suits(tile, tuple(coords)) for tile in combination.tiles)


class _Found:
    """What has been looked at, and at which positions: operands are shared."""

    def __init__(self, nest: LoopNest) -> None:
        self._nest = nest
        self._seen: dict[tuple[int, ...], Coords] = {}

    def suits(self, tile: Tile, coords: Coords) -> bool:
        """Whether the lanes of these positions lie side by side in all that is read for them, or are one number."""
        key = (id(tile), *map(id, coords))
        if key in self._seen or not lanes_in(coords):
            return True
        self._seen[key] = coords
        if isinstance(tile, Mapped):
            inner = tile.mapping(self._nest, coords)
            return inner is not None and self.suits(tile.source, inner)
        if not isinstance(tile, Elementwise | Range | Uniform):
            moving = [axis for axis, index in enumerate(coords) if index.offsets is not None]
            if moving != [tile.lies_along] or not is_run(coords[moving[0]].offsets or ()):
                return False
        return all(self.suits(source, coords) for source in tile.sources)
