"""Elements at strides and the same elements by address are the same area."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.machine.memory import Allocation, Memory
from tilewright.machine.sanitize.areas import LaneArea, StridedArea
from tilewright.machine.sanitize.events import EMPTY
from tilewright.machine.sanitize.races import Race, RaceDetector
from tilewright.machine.view_access import StridedElements
from tilewright.numerics.arrays import Array

BYTES = 512
DIMS = (4, 8)


class Side:
    """One of the two ways, with a detector and a record of unwritten bytes of its own."""

    def __init__(self, allocation: Allocation) -> None:
        self.races: list[tuple[object, ...]] = []
        self.detector = RaceDetector(self._note)
        self.unwritten = {allocation.base: np.ones(BYTES, np.bool_)}

    def visit(self, area: StridedArea | LaneArea, block: int, size: int, *, writes: bool) -> None:
        event = self.detector.event(
            block, None, ordering="weak", scope="", size=size, reads=not writes, writes=writes
        )
        area.record(self.detector, event, EMPTY, may_repeat=writes, wrote=None)
        if writes:
            area.mark_written(self.unwritten)

    def _note(self, race: Race) -> None:
        self.races.append(
            (
                (race.first.block, race.first.number),
                (race.second.block, race.second.number),
                race.size,
                race.cells.tolist(),
                *(cells.tolist() for cells in race.footprints()),
            )
        )


def areas(
    memory: Memory, allocation: Allocation, random: np.random.Generator, size: int
) -> tuple[StridedArea, LaneArea]:
    """A random tile, whole or cut, whose strides may be 0 or overlap."""
    extents = tuple(int(random.integers(1, dim + 1)) for dim in DIMS)
    strides = tuple(int(random.integers(0, 5)) * size if extent > 1 else 0 for extent in extents)
    reach = sum((n - 1) * stride for n, stride in zip(extents, strides, strict=True)) + size
    start = int(random.integers(0, (BYTES - reach) // size)) * size
    inside = None if extents == DIMS else tuple(slice(extent) for extent in extents)
    elements = StridedElements(allocation, start, extents, strides, inside)
    offsets = np.zeros(DIMS, np.uint64)
    lanes = np.zeros(DIMS, np.bool_)
    for index in np.ndindex(extents):
        offsets[index] = start + sum(i * stride for i, stride in zip(index, strides, strict=True))
        lanes[index] = True
    addresses = offsets + np.uint64(allocation.base)
    taking_part = None if inside is None else lanes
    return StridedArea(memory, elements, DIMS, size), LaneArea(
        memory, addresses, taking_part, size, packed=False
    )


def same(one: Array | None, other: Array | None) -> bool:
    if one is None or other is None:
        return one is other
    return bool((one == other).all())


@pytest.mark.parametrize("seed", range(20))
def test_strides_and_addresses_agree(seed: int) -> None:
    random = np.random.default_rng(seed)
    memory = Memory()
    allocation = memory.allocate(np.zeros(BYTES, np.uint8), "memory")
    by_strides, by_address = Side(allocation), Side(allocation)
    for _ in range(12):
        size = int(random.choice([1, 2, 4, 8]))
        strided, lanes = areas(memory, allocation, random, size)
        block, writes = int(random.integers(3)), bool(random.integers(2))
        assert same(strided.taking_part(), lanes.taking_part())
        assert same(strided.unwritten(by_strides.unwritten), lanes.unwritten(by_address.unwritten))
        by_strides.visit(strided, block, size, writes=writes)
        by_address.visit(lanes, block, size, writes=writes)
        assert by_strides.races == by_address.races
        assert same(by_strides.unwritten[allocation.base], by_address.unwritten[allocation.base])
    assert by_strides.races
