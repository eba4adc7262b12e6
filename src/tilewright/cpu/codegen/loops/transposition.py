"""Tiles that are contiguous in memory along another axis than wanted: square blocks are loaded as they lie, transposed in
registers, and stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import Coords, Index, fixed
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import Tile

#: A block has as many rows as its vectors have lanes; more do not fit into registers.
_SIZES = (16, 8, 4)


def block_size(tile: Tile, wanted: int, lanes: int) -> int:
    """The side of the blocks in which a tile is better transposed to be had along an axis; 0 for
    none."""
    along = tile.lies_along
    if along is None or along == wanted:
        return 0
    most = min(lanes, tile.dims[along], tile.dims[wanted])
    return next((size for size in _SIZES if size <= most), 0)


def transposed(b: Builder, rows: Sequence[Value]) -> list[Value]:
    """The columns of a square matrix given by its rows, a power of two many, by shuffles of pairs."""
    found = list(rows)
    size = len(found)
    distance = 1
    while distance < size:
        lower = [lane if not lane & distance else size + lane - distance for lane in range(size)]
        upper = [lane + distance if not lane & distance else size + lane for lane in range(size)]
        for row in range(size):
            if not row & distance:
                pair = found[row], found[row + distance]
                found[row] = llvm.shuffle(b, *pair, lower)
                found[row + distance] = llvm.shuffle(b, *pair, upper)
        distance *= 2
    return found


def by_blocks(
    nest: LoopNest,
    tile: Tile,
    wanted: int,
    size: int,
    put: Callable[[LoopNest, Coords, Value], None],
) -> None:
    """Hand every vector along ``wanted`` to ``put``, read in blocks as the tile lies."""
    along = tile.lies_along
    assert along is not None
    coords: list[Index] = [fixed(0)] * len(tile.dims)
    for axis, extent in enumerate(tile.dims):
        if axis not in (along, wanted):
            coords[axis] = nest.loop(extent)
    across, down = nest.loop(tile.dims[along], size), nest.loop(tile.dims[wanted], size)
    lanes = tuple(range(size))
    rows: list[Value] = []
    for number in range(size):
        coords[wanted] = nest.shift(down, number)
        coords[along] = Index(across.base, lanes, across.align)
        rows.append(nest.vector(tile, tuple(coords)))
    for number, column in enumerate(transposed(nest.inner, rows)):
        coords[wanted] = Index(down.base, lanes, down.align)
        coords[along] = nest.shift(across, number)
        put(nest, tuple(coords), column)
