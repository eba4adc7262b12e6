"""Shadow memory: for each cell of an allocation, the number of its state.

A cell is as large as the smallest access to its allocation so far. While an allocation is only
accessed by the tiles of one grid, each as a whole, there is one number for each tile instead; see
:class:`Tiling`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from tilewright.machine.memory import Allocation
from tilewright.machine.sanitize.events import Event, Releases
from tilewright.machine.view_access import StridedElements

Array = np.ndarray[Any, Any]


class Tiling:
    """The state numbers of the tiles of a grid over an allocation, by byte offset.

    The tiles have the shape and strides of one of them. They lie at multiples of its extents in each
    dimension, so that two of them are the same or have no element in common.
    """

    def __init__(self, tile: StridedElements):
        self.tile = tile
        self.numbers: dict[int, int] = {}
        # The dimensions of more than one element, from the outermost one in memory.
        walks = zip(tile.byte_strides, tile.extents, strict=True)
        self._walks = sorted([walk for walk in walks if walk[1] > 1], reverse=True)

    @classmethod
    def of(cls, tile: StridedElements, size: int) -> Tiling | None:
        """The grid around a tile of elements of ``size`` bytes, if it is in one."""
        tiling = cls(tile)
        is_regular = all(stride >= size for stride, _ in tiling._walks)
        return tiling if is_regular and tiling._is_aligned(tile.byte_offset) else None

    def has(self, elements: StridedElements) -> bool:
        """Whether these elements are a tile of the grid."""
        tile = self.tile
        if elements.extents != tile.extents or elements.byte_strides != tile.byte_strides:
            return False
        return elements.byte_offset in self.numbers or self._is_aligned(elements.byte_offset)

    def _is_aligned(self, byte_offset: int) -> bool:
        room = None
        for stride, extent in self._walks:
            position, byte_offset = divmod(byte_offset, stride)
            # A tile must end before the next step of the dimension around this one.
            if position % extent or (room is not None and (position + extent) * stride > room):
                return False
            room = stride
        return byte_offset == 0


class Shadow:
    """The cell states of one allocation, by number.

    ``numbers`` has those of all cells where ``tiling`` is None; see :meth:`spread`.
    """

    def __init__(self, allocation: Allocation, cell_size: int):
        self.tiling: Tiling | None = None
        self.allocation = allocation
        self.byte_count = allocation.buffer.size
        self.cell_size = cell_size
        self.numbers = np.zeros(-(-self.byte_count // cell_size), np.int32)
        self.releases: dict[int, Releases] = {}
        self.signals: dict[int, Event] = {}
        """The latest non-weak write to a cell that a flag, a lock or a counter may be."""

    def expect(self, elements: StridedElements, size: int) -> None:
        """Keep the tiling only if these elements, of ``size`` bytes, are a tile of it."""
        tiling = self.tiling
        if tiling is not None and (size != self.cell_size or not tiling.has(elements)):
            self.spread()

    def spread(self) -> None:
        """Keep a number for each cell from now on."""
        tiling, self.tiling = self.tiling, None
        if tiling is not None:
            for byte_offset, number in tiling.numbers.items():
                tile = replace(tiling.tile, byte_offset=byte_offset)
                tile.over(self.numbers, self.cell_size)[...] = number

    def refine(self, size: int) -> None:
        """Make cells as small as ``size`` bytes."""
        self.spread()
        factor = self.cell_size // size
        self.numbers = np.repeat(self.numbers, factor)[: -(-self.byte_count // size)]
        self.releases = {
            cell * factor + part: releases.copy()
            for cell, releases in self.releases.items()
            for part in range(factor)
        }
        self.signals = {
            cell * factor + part: event
            for cell, event in self.signals.items()
            for part in range(factor)
        }
        self.cell_size = size


class Listed:
    """Cells by index, in the order of the elements."""

    def __init__(self, shadow: Shadow, index: Array):
        self._shadow = shadow
        self._index = index
        self.states = shadow.numbers[index]

    @property
    def is_empty(self) -> bool:
        """Whether there is no cell, as where a mask leaves out all elements."""
        return not self._index.size

    def common(self) -> int | None:
        """The number of all cells, if it is the same."""
        return _common(self.states)

    @classmethod
    def of(cls, shadow: Shadow, size: int, offsets: Array) -> Listed:
        """Those of elements of ``size`` bytes."""
        first = offsets.ravel().astype(np.int64) // shadow.cell_size
        parts = size // shadow.cell_size
        if parts > 1:
            first = np.asarray(first[:, None] + np.arange(parts)).ravel()
        return cls(shadow, first)

    def index(self, chosen: Array | None = None) -> Array:
        """The indices of all cells, or of those chosen by a mask like ``states``."""
        return self._index if chosen is None else self._index[chosen]

    def put(self, number: int, chosen: Array | None = None) -> None:
        """Give all cells, or those chosen, a state."""
        self._shadow.numbers[self.index(chosen)] = number

    def repeated(self) -> Array | None:
        """The indices that occur several times, if any does."""
        cells = self._index
        if cells.size < 2 or bool((cells[1:] > cells[:-1]).all()):
            return None
        found, counts = np.unique(cells, return_counts=True)
        return found[counts > 1] if found.size != cells.size else None


def _common(states: Array) -> int | None:
    first = states.item(0)
    return first if np.count_nonzero(states == first) == states.size else None


class Strided:
    """The cells of elements at fixed strides, as a view of the shadow memory, or in a tiling.

    ``states``, in the shadow memory only, change with what is put.
    """

    is_empty = False

    def __init__(self, shadow: Shadow, size: int, elements: StridedElements):
        self._shadow, self._size, self._elements = shadow, size, elements
        shadow.expect(elements, size)

    @cached_property
    def states(self) -> Array:
        """The number of each cell, a view of the shadow memory; only where there is no tiling."""
        shadow = self._shadow
        assert shadow.tiling is None
        within = self._size // shadow.cell_size
        return self._elements.over(shadow.numbers, shadow.cell_size, within=within)

    def common(self) -> int | None:
        """The number of all cells, if it is the same."""
        tiling = self._shadow.tiling
        if tiling is None:
            return _common(self.states)
        return tiling.numbers.get(self._elements.byte_offset, 0)

    def index(self, chosen: Array | None = None) -> Array:
        """The indices of all cells, or of those chosen by a mask like ``states``."""
        unit, elements = self._shadow.cell_size, self._elements
        found = np.array(elements.byte_offset // unit)
        walks = [
            *zip(elements.extents, elements.byte_strides, strict=True),
            (self._size // unit, unit),
        ]
        for extent, stride in walks:
            found = found[..., None] + np.arange(extent) * (stride // unit)
        return found.ravel() if chosen is None else found[chosen]

    def put(self, number: int, chosen: Array | None = None) -> None:
        """Give all cells, or those chosen, a state."""
        if (tiling := self._shadow.tiling) is not None:
            tiling.numbers[self._elements.byte_offset] = number
        elif chosen is None:
            self.states.fill(number)
        else:
            self.states[chosen] = number

    def repeated(self) -> Array | None:
        """The indices of cells that several elements share, where strides are smaller than what
        they span; None where there are none."""
        reach = self._size
        elements = self._elements
        for stride, extent in sorted(zip(elements.byte_strides, elements.extents, strict=True)):
            if extent > 1:
                if stride < reach:
                    return Listed(self._shadow, self.index()).repeated()
                reach += (extent - 1) * stride
        return None


Cells = Listed | Strided
