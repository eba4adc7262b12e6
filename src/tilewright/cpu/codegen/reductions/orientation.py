"""Which way the vectors of a reduction along an inner axis run: along its rows, or across them.

What is computed of pairs, as distances are or forces, is made of tiles that are one number along one of the two axes. Where each lane is
a row of its own, what changes along the row is such a number, and what is accumulated never has to come together across
lanes. That needs rows whose elements lie side by side in memory, or do not depend on the place in the row.
"""

from __future__ import annotations

from llvmlite import ir

from tilewright.cpu.codegen.ir.elements import I64
from tilewright.cpu.codegen.ir.types import Builder
from tilewright.cpu.codegen.loops.indices import Coords, Index, Lane
from tilewright.cpu.codegen.loops.leaves import NoPatternError, leaves
from tilewright.cpu.codegen.loops.tiles import Tile, is_run
from tilewright.cpu.codegen.reductions.combination import Combination

#: What is told of reductions that go this way.
ACROSS_ROWS = "each lane is a row of its own, as what is read changes along one axis only"


def lanes_may_be_rows(b: Builder, combination: Combination, rows: int, lanes: int) -> bool:
    """Whether vectors of so many lanes along the axis ``rows`` find all that a reduction reads side by side, or the same in all
    lanes, and only read: buffers that are filled on the way lie along rows."""
    place = Index(Lane(ir.Constant(I64, 0)), None)
    coords = [place] * len(combination.dims)
    coords[rows] = Index(Lane(ir.Constant(I64, 0)), tuple(range(lanes)), lanes)
    try:
        return all(_lies_along(*leaf) for leaf in leaves(b, combination.tiles, tuple(coords)))
    except NoPatternError:
        return False


def _lies_along(tile: Tile, coords: Coords) -> bool:
    moving = [axis for axis, index in enumerate(coords) if index.offsets is not None]
    return moving == [tile.lies_along] and is_run(coords[moving[0]].offsets or ())
