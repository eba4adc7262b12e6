"""States by tile and states by cell tell the same races."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tilewright.machine.memory import Allocation
from tilewright.machine.sanitize.events import EMPTY
from tilewright.machine.sanitize.races import Race, RaceDetector
from tilewright.machine.sanitize.shadow import Tiling
from tilewright.machine.view_access import StridedElements

_ROWS, _COLUMNS = 16, 24
_TILES = ((4, 8), (8, 8), (4, 1), (1, 24), (3, 8))


def _elements(
    allocation: Allocation, row: int, column: int, extents: tuple[int, int], size: int
) -> StridedElements:
    offset = (row * _COLUMNS + column) * size
    strides = (_COLUMNS * size if extents[0] > 1 else 0, size if extents[1] > 1 else 0)
    return StridedElements(allocation, offset, extents, strides, None)


def _offsets(elements: StridedElements) -> np.ndarray:
    rows, columns = (
        np.arange(n) * stride
        for n, stride in zip(elements.extents, elements.byte_strides, strict=True)
    )
    return elements.byte_offset + rows[:, None] + columns


def _said(race: Race) -> tuple[object, ...]:
    footprints = [offsets.tolist() for offsets in race.footprints()]
    where = race.cells.tolist(), race.size, *footprints
    return race.first.block, race.first.number, race.second.block, race.second.number, where


@pytest.mark.parametrize("seed", range(60))
def test_same_races(seed):
    """Mostly the tiles of one grid, and now and then others, some of another element size."""
    choose = random.Random(seed)
    allocation = Allocation(0x1000, np.zeros(_ROWS * _COLUMNS * 4, np.uint8), "memory")
    said: list[list[tuple[object, ...]]] = [[], []]
    by_tile, by_cell = (RaceDetector(lambda race, to=to: to.append(_said(race))) for to in said)
    usual = choose.choice(_TILES[:2])
    histories = dict.fromkeys(range(3), (EMPTY, EMPTY))
    for _ in range(40):
        odd = choose.random() < 0.05
        extents = choose.choice(_TILES) if odd else usual
        size = choose.choice((2, 4)) if odd else 4
        row, column = (
            choose.randrange(0, n - e + 1, 1 if odd else e)
            for n, e in zip((_ROWS, _COLUMNS), extents, strict=True)
        )
        elements = _elements(allocation, row, column, extents, size)
        block, writes = choose.randrange(3), choose.random() < 0.3
        kinds = {"ordering": "weak", "scope": "", "size": size, "reads": not writes}
        events = [
            detector.event(block, None, writes=writes, **kinds) for detector in (by_tile, by_cell)
        ]
        first, second = histories[block]
        by_tile.access(events[0], first, allocation, elements)
        by_cell.access(events[1], second, allocation, _offsets(elements))
        if choose.random() < 0.7:
            histories[block] = first.including(events[0]), second.including(events[1])
    assert said[0] == said[1]
    assert said[0]


@pytest.mark.parametrize(
    ("offset", "extents", "strides", "fits"),
    [
        (0, (4, 8), (96, 4), True),
        (96 * 4 + 32, (4, 8), (96, 4), True),
        (96 * 3, (4, 8), (96, 4), False),
        (16, (4, 8), (96, 4), False),
        # The last tile of a row goes on in the next one.
        (64, (4, 16), (96, 4), False),
        # Rows that overlap, and rows that are all one.
        (0, (4, 8), (16, 4), False),
        (0, (4, 8), (0, 4), False),
        # Columns: the elements between are other tiles'.
        (4, (4, 1), (96, 0), False),
        (96 * 8, (4, 1), (96, 0), True),
    ],
)
def test_grids(offset, extents, strides, fits):
    allocation = Allocation(0x1000, np.zeros(96 * 16, np.uint8), "memory")
    elements = StridedElements(allocation, offset, extents, strides, None)
    assert (Tiling.of(elements, 4) is not None) == fits
