"""The global memory of a launch by address: which array is where.

Addresses are those of the host, so what a kernel computes from a pointer is what Python sees.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tilewright.numerics.arrays import Array
    from tilewright.simulator.memory import Buffer


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """The bytes from ``start`` up to ``end``, of one array or of several that overlap."""

    start: int
    end: int
    name: str
    read_only: bool
    data: Array
    keeps: object
    _views: dict[Any, tuple[int, Array]] = field(default_factory=dict)

    @property
    def origin(self) -> int:
        """The start rounded down to a multiple of 8, so aligned elements are at multiples of their size from it."""
        return self.start & -8

    def elements(self, dtype: np.dtype[Any]) -> tuple[int, Array]:
        """All aligned elements of a type, and the address of the first."""
        found = self._views.get(dtype)
        if found is None:
            skipped = -self.start % dtype.itemsize
            whole = max(self.data.size - skipped, 0) // dtype.itemsize * dtype.itemsize
            view = self.data[skipped : skipped + whole].view(dtype)
            found = self._views[dtype] = (self.start + skipped, view)
        return found


class AddressSpace:
    """Arrays by address. Overlapping arrays form one region."""

    def __init__(self, buffers: Iterable[Buffer] = ()) -> None:
        found = [_region(buffer) for buffer in buffers if buffer.data.size]
        self.regions = _merged(sorted(found, key=lambda region: (region.start, -region.end)))
        self._starts = [region.start for region in self.regions]
        self._start_array = np.array(self._starts, np.int64)

    def region(self, first: int, end: int) -> Region | None:
        """The region that contains all bytes from ``first`` up to ``end``, or None."""
        place = bisect_right(self._starts, first) - 1
        if place < 0 or end > self.regions[place].end:
            return None
        return self.regions[place]

    def places(self, addresses: Array, size: int) -> Array:
        """For each address, the number of the region that contains ``size`` bytes from there, or -1.

        ``addresses`` is a rank-1 array, in bytes; the result is one of the same shape, of int64.
        """
        found = np.searchsorted(self._start_array, addresses, side="right") - 1
        ends = np.array([*(region.end for region in self.regions), -1], np.int64)
        return np.where(addresses + size <= ends[found], found, -1)

    def whereabouts(self, address: int, size: int) -> str:
        """The position of bytes outside of all arrays, relative to the nearest array, for messages."""
        if not self.regions:
            return "but the launch knows no arrays"
        nearest = min(self.regions, key=lambda r: max(r.start - address, address + size - r.end))
        if address < nearest.start:
            return f"{nearest.start - address} bytes before the start of {nearest.name}"
        past = address + size - nearest.end
        if address < nearest.end:
            return f"which reaches {past} bytes past the end of {nearest.name}"
        gap = address - nearest.end
        return (
            f"{gap} bytes past the end of {nearest.name}" if gap else f"right after {nearest.name}"
        )


def address_of(array: Array) -> int:
    """The address of the first byte of an array."""
    return int(array.ctypes.data)


def aligned_bytes(size: int, alignment: int) -> Array:
    """Zeroed memory of ``size`` bytes, a rank-1 array of uint8, whose address is a multiple of ``alignment``."""
    raw = np.zeros(size + alignment, np.uint8)
    skipped = -address_of(raw) % alignment
    return raw[skipped : skipped + size]


def _region(buffer: Buffer) -> Region:
    start = address_of(buffer.data)
    return Region(
        start,
        start + buffer.data.size,
        buffer.name,
        buffer.read_only,
        buffer.data,
        (buffer.data, buffer.keeps),
    )


def _merged(regions: list[Region]) -> list[Region]:
    """Merge overlapping regions; returns disjoint ones in ascending order. A union with a read-only region is
    read-only.
    """
    found: list[Region] = []
    for region in regions:
        last = found[-1] if found else None
        if last is None or region.start >= last.end:
            found.append(region)
        elif (region.start, region.end, region.read_only) != (last.start, last.end, last.read_only):
            found[-1] = _union(last, region)
    return found


def _union(first: Region, second: Region) -> Region:
    end = max(first.end, second.end)
    memory = (ctypes.c_uint8 * (end - first.start)).from_address(first.start)
    return Region(
        first.start,
        end,
        f"{first.name} and {second.name}",
        first.read_only or second.read_only,
        np.ctypeslib.as_array(memory),
        (first, second),
    )
