"""Chooses the blocks of a grid that represent all: the edges of each axis, and some between them."""

from __future__ import annotations

from itertools import product

BlockIndex = tuple[int, int, int]
#: Blocks between the edges, by the number of axes with more than one block.
_BETWEEN = {1: 4, 2: 1}


def samples(grid: BlockIndex) -> dict[BlockIndex, float]:
    """Some blocks of the grid, with the number of blocks that each represents, the heaviest first.

    The first and the last along an axis represent themselves; the others are represented by the middles of equal parts
    of the axis, so that linear functions of the position have the right mean. In three dimensions the first ones count
    with those in the middle.
    """
    axes = sum(extent > 1 for extent in grid)
    parts = [_of_axis(extent, axes) for extent in grid]
    found = {
        (x, y, z): wx * wy * wz
        for (z, wz), (y, wy), (x, wx) in product(*(axis.items() for axis in reversed(parts)))
    }
    return dict(sorted(found.items(), key=lambda each: -each[1]))


def _of_axis(extent: int, axes: int) -> dict[int, float]:
    if extent <= 2:
        return dict.fromkeys(range(extent), 1.0)
    if axes > 2:
        return {(extent - 1) // 2: extent - 1.0, extent - 1: 1.0}
    inner = extent - 2
    count = min(inner, _BETWEEN[axes])
    found: dict[int, float] = {0: 1.0, extent - 1: 1.0}
    for number in range(count):
        place = 1 + int((number + 0.5) * inner / count)
        found[place] = inner / count
    return found
