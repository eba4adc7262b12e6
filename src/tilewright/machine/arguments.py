"""Maps the arrays of a launch into memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tilewright.diagnostics import SourceLocation, TileIRError
from tilewright.launching.accepted import Converted
from tilewright.launching.arguments import misaligned
from tilewright.launching.described import host_bytes
from tilewright.machine.memory import Allocation, Memory
from tilewright.numerics.arrays import Array


@dataclass(frozen=True, slots=True)
class _Extent:
    """The host bytes of an array and of the base array that it is a slice of."""

    low: int
    high: int
    owner_low: int
    owner_high: int
    array: Array
    name: str


@dataclass(slots=True)
class ArrayMap:
    """Host memory that is mapped into the address space."""

    memory: Memory
    _mapped: list[tuple[int, int, Allocation]] = field(
        default_factory=list[tuple[int, int, Allocation]]
    )
    _kept: list[Array] = field(default_factory=list[Array])

    def map(self, arrays: Sequence[tuple[str, Array]]) -> list[int]:
        """Map arrays. Returns the address of the first element of each.

        Arrays that share host memory keep their relative offsets in the address space. A slice is
        therefore as aligned as its offset in the base array.
        """
        extents = [_extent(name, array) for name, array in arrays]
        new = [extent for extent in extents if self._address(extent.low, extent.high) is None]
        for cluster in _overlapping(new):
            self._map_cluster(cluster)
        self._kept.extend(array for _, array in arrays)
        addresses: list[int] = []
        for extent in extents:
            address = self._address(extent.low, extent.high)
            assert address is not None
            addresses.append(address + _first_byte(extent.array) - extent.low)
        return addresses

    def _address(self, low: int, high: int) -> int | None:
        for mapped_low, mapped_high, allocation in self._mapped:
            if mapped_low <= low and high <= mapped_high:
                return allocation.base + low - mapped_low
        return None

    def _map_cluster(self, cluster: list[_Extent]) -> None:
        owner_low = min(extent.owner_low for extent in cluster)
        owner_high = max(extent.owner_high for extent in cluster)
        base = self.memory.reserve(owner_high - owner_low)
        runs: list[list[_Extent]] = []
        for extent in sorted(cluster, key=lambda e: (e.low, e.high)):
            if runs and extent.low < max(e.high for e in runs[-1]):
                runs[-1].append(extent)
            else:
                runs.append([extent])
        for run in runs:
            low, high = run[0].low, max(extent.high for extent in run)
            # A run must be writable as a whole if one of its arrays is.
            writable = any(extent.array.flags.writeable for extent in run)
            name = " and ".join(extent.name for extent in run)
            allocation = self.memory.place(
                base + low - owner_low, host_bytes(low, high - low), name, writable=writable
            )
            for mapped_low, mapped_high, other in self._mapped:
                if low < mapped_high and mapped_low < high:
                    allocation.is_shared = other.is_shared = True
            self._mapped.append((low, high, allocation))

    def mark(self) -> tuple[int, int]:
        """Return the current state, to be passed to :meth:`release`."""
        return len(self._mapped), len(self._kept)

    def release(self, mark: tuple[int, int]) -> None:
        """Unmap everything mapped since ``mark``."""
        del self._mapped[mark[0] :]
        del self._kept[mark[1] :]


def _first_byte(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def _bounds(array: Array) -> tuple[int, int]:
    """Return the lowest address of the array's elements and the address after the last."""
    low = high = _first_byte(array)
    if array.size == 0:
        return low, low
    for extent, stride in zip(array.shape, array.strides, strict=True):
        reach = (extent - 1) * stride
        low, high = low + min(reach, 0), high + max(reach, 0)
    return low, high + array.itemsize


def _extent(name: str, array: Array) -> _Extent:
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    low, high = _bounds(array)
    owner_low, owner_high = _bounds(owner)
    return _Extent(low, high, min(low, owner_low), max(high, owner_high), array, name)


def _overlapping(extents: list[_Extent]) -> list[list[_Extent]]:
    """Return groups of arrays whose base arrays share memory, ordered by their first arrays."""
    clusters: list[list[_Extent]] = []
    reach = 0
    order = {id(extent): number for number, extent in enumerate(extents)}
    for extent in sorted(extents, key=lambda e: (e.owner_low, e.owner_high)):
        if clusters and extent.owner_low < reach:
            clusters[-1].append(extent)
        else:
            clusters.append([extent])
        reach = max(reach, extent.owner_high)
    return sorted(clusters, key=lambda cluster: min(order[id(e)] for e in cluster))


def bind(
    converted: Converted, arrays: ArrayMap, location: SourceLocation | None = None
) -> list[Array]:
    """Return the parameters of a kernel as rank-0 tiles, with arrays mapped into the address space.

    An array becomes the uint64 address of its first element; it is not copied. Raises ``TileIRError`` with an error
    for each array whose address is not a multiple of its element size.
    """
    given = converted.arrays
    addresses = arrays.map([(f"argument {number}", array) for number, array in given.items()])
    bound = list(converted.values)
    errors: list[TileIRError] = []
    for (number, array), address in zip(given.items(), addresses, strict=True):
        if (error := misaligned(number, array, address, location)) is not None:
            errors.append(error)
        bound[number] = np.array(address, np.uint64)
    if errors:
        raise TileIRError([d for error in errors for d in error.diagnostics])
    return bound
