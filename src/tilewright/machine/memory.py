"""The address space of a run: allocations, and access to their elements by address.

Addresses are synthetic and the same in every run. Allocations start at multiples of 256 bytes and
are far apart, so that a stray address hits no other allocation. The bytes are NumPy memory:
arrays of the caller are mapped in place, never copied.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.launching.codes import READ_ONLY_MEMORY
from tilewright.launching.storage import Storage
from tilewright.machine.faults import (
    FOREIGN_MEMORY,
    FREED_MEMORY,
    INVALID_ADDRESS,
    MISALIGNED_ACCESS,
    Fault,
)
from tilewright.numerics.arrays import Array

_FIRST_ADDRESS = 0x1_0000_0000
_ALIGNMENT = 256
# At least this many unmapped bytes follow every allocation.
_GAP = 1 << 16
_ADDRESS_LIMIT = 1 << 64
_MAX_REMEMBERED = 100_000


@dataclass(slots=True, eq=False)
class Allocation:
    """A range of bytes in the address space. ``owner`` is the only tile block that may access it, if set.

    ``writes`` changes whenever the machine may have changed the bytes, or freed them. If
    ``is_shared``, another allocation contains some of the bytes, so they may change without it.
    """

    base: int
    buffer: Array
    name: str
    writable: bool = True
    owner: int | None = None
    is_shared: bool = False
    is_live: bool = True
    writes: int = 0
    end: int = field(init=False)
    _typed: dict[np.dtype[Any], tuple[int, Array]] = field(
        init=False, default_factory=dict[np.dtype[Any], tuple[int, Array]]
    )

    def __post_init__(self) -> None:
        self.end = self.base + self.buffer.size

    def elements(self, dtype: np.dtype[Any]) -> tuple[int, Array]:
        """Return all aligned elements of that dtype, and the address of the first: ``(address, view over the
        bytes)``.
        """
        found = self._typed.get(dtype)
        if found is None:
            skipped = -self.base % dtype.itemsize
            count = max(self.buffer.size - skipped, 0) // dtype.itemsize
            view = self.buffer[skipped : skipped + count * dtype.itemsize].view(dtype)
            found = self._typed[dtype] = (self.base + skipped, view)
        return found


@dataclass(frozen=True, slots=True)
class Placed:
    """Allocations and their addresses, to be released and placed again.

    ``mark`` is the state of the memory in which they were made.
    """

    mark: tuple[int, int]
    bases: tuple[int, ...]
    allocations: tuple[Allocation, ...]
    next: int


class Memory:
    """All allocations. ``version`` grows whenever a write may have changed a byte."""

    def __init__(self) -> None:
        self.version = 0
        self.current_block: int | None = None
        self._bases: list[int] = []
        self._allocations: list[Allocation] = []
        self._freed: list[tuple[int, int, str]] = []
        self._next = _FIRST_ADDRESS
        self._latest = Allocation(0, np.empty(0, np.uint8), "")

    def reserve(self, size: int, alignment: int = 1) -> int:
        """Return an aligned address with ``size`` unused bytes, followed by a gap.

        ``alignment`` is in bytes. Raises ``Fault`` if the address space has no room.
        """
        unit = max(alignment, _ALIGNMENT)
        base = -(-self._next // unit) * unit
        if base + size + _GAP > _ADDRESS_LIMIT:
            raise Fault(INVALID_ADDRESS, f"the address space has no room for {size} bytes")
        self._next = base + size + _GAP
        return base

    def place(
        self,
        base: int,
        buffer: Array,
        name: str,
        *,
        writable: bool = True,
        owner: int | None = None,
    ) -> Allocation:
        """Map bytes (a rank-1 uint8 array) at a reserved address above all others. The array is shared."""
        assert not self._bases or base >= self._allocations[-1].end
        allocation = Allocation(base, buffer, name, writable, owner)
        self._bases.append(base)
        self._allocations.append(allocation)
        return allocation

    def allocate(
        self,
        buffer: Array,
        name: str,
        *,
        alignment: int = 1,
        writable: bool = True,
        owner: int | None = None,
    ) -> Allocation:
        """Map bytes (a rank-1 uint8 array, which is shared) at a new address, aligned to a number of bytes.

        Raises ``Fault`` if the address space has no room.
        """
        base = self.reserve(buffer.size, alignment)
        return self.place(base, buffer, name, writable=writable, owner=owner)

    def free(self, allocation: Allocation) -> None:
        """Free an allocation. Its addresses are not reused."""
        at = bisect_right(self._bases, allocation.base) - 1
        assert self._allocations[at] is allocation
        del self._bases[at]
        del self._allocations[at]
        allocation.is_live = False
        allocation.writes += 1
        if self._latest is allocation:
            self._latest = Allocation(0, np.empty(0, np.uint8), "")
        if len(self._freed) < _MAX_REMEMBERED:
            self._freed.append((allocation.base, allocation.end, allocation.name))

    def live_bases(self) -> set[int]:
        """Return the base addresses of all allocations."""
        return set(self._bases)

    def mark(self) -> tuple[int, int]:
        """Return the state, to be passed to :meth:`release`."""
        return len(self._allocations), self._next

    def release(self, mark: tuple[int, int]) -> None:
        """Remove every allocation made since ``mark``. Their addresses are reused."""
        count, self._next = mark
        del self._bases[count:]
        del self._allocations[count:]
        self._freed.clear()
        self._latest = Allocation(0, np.empty(0, np.uint8), "")

    def placed_since(self, mark: tuple[int, int]) -> Placed:
        """Return every allocation made since ``mark``."""
        count = mark[0]
        bases, allocations = self._bases[count:], self._allocations[count:]
        return Placed(mark, tuple(bases), tuple(allocations), self._next)

    def place_again(self, placed: Placed) -> None:
        """Restore released allocations. Valid only in the state in which they were made."""
        assert placed.mark == self.mark()
        self._bases += placed.bases
        self._allocations += placed.allocations
        self._next = placed.next

    def find(self, address: int, size: int, itemsize: int, *, write: bool = False) -> Allocation:
        """Return the allocation that contains ``address .. address + size``, for reading or writing.

        Addresses and sizes are in bytes, ``itemsize`` is that of an element. Raises ``Fault`` if there is none, if
        ``address`` is not a multiple of ``itemsize``, or if this tile block may not access the memory in this way.
        """
        allocation = self._latest
        if not (allocation.base <= address and address + size <= allocation.end):
            at = bisect_right(self._bases, address) - 1
            if at < 0 or address + size > (allocation := self._allocations[at]).end:
                raise self._invalid(address, size)
            self._latest = allocation
        if address % itemsize:
            raise Fault(
                MISALIGNED_ACCESS,
                f"the address {address:#x} in {allocation.name} is not a multiple of {itemsize}, "
                f"the size of an element",
            )
        if allocation.owner is not None and allocation.owner != self.current_block:
            raise Fault(
                FOREIGN_MEMORY, f"{allocation.name} at {address:#x} belongs to another tile block"
            )
        if write:
            if not allocation.writable:
                raise Fault(READ_ONLY_MEMORY, f"{allocation.name} is read-only")
            allocation.writes += 1
        return allocation

    def _invalid(self, address: int, size: int) -> Fault:
        for base, end, name in reversed(self._freed):
            if base <= address < max(end, base + 1):
                return Fault(FREED_MEMORY, f"{name} at {address:#x} is no longer alive")
        what = f"{size} bytes at address {address:#x}"
        at = bisect_right(self._bases, address) - 1
        if at >= 0 and address < self._allocations[at].end:
            inside = self._allocations[at]
            return Fault(
                INVALID_ADDRESS,
                f"an access to {what} runs {address + size - inside.end} bytes past the end of "
                f"{inside.name} ({inside.buffer.size} bytes)",
            )
        return Fault(
            INVALID_ADDRESS,
            f"an access to {what} is outside every live allocation{self._near(address)}",
        )

    def nearest(self, address: int) -> Allocation | None:
        """Return the live allocation that contains an address, else the closest one; None if there is none at all."""

        def distance(allocation: Allocation) -> int:
            return max(allocation.base - address, address - allocation.end + 1, 0)

        return min(self._allocations, key=distance, default=None)

    def _near(self, address: int) -> str:
        """Return text such as ``; NAME ends 4 bytes before it`` if an allocation is close."""
        closest: tuple[int, str] | None = None
        for allocation in self._allocations:
            for distance, words in (
                (address - allocation.end, "ends {} bytes before it"),
                (allocation.base - address, "begins {} bytes after it"),
            ):
                if 0 <= distance < _GAP and (closest is None or distance < closest[0]):
                    closest = distance, f"; {allocation.name} {words.format(distance)}"
        return "" if closest is None else closest[1]

    def load(self, addresses: Array, storage: Storage) -> Array:
        """Return the raw elements at addresses (uint64, any shape).

        The result is a new array of that shape, with the dtype of the storage. Raises ``Fault`` as ``find`` does.
        """
        if addresses.size == 0:
            return np.empty(addresses.shape, storage.raw)
        found = self._one_allocation(addresses, storage, write=False)
        if found is not None:
            first, elements = found
            return np.asarray(elements[self._positions(addresses, first, storage)])
        result = np.empty(addresses.shape, storage.raw)
        for lanes, first, elements in self._by_allocation(addresses, storage, write=False):
            result[lanes] = elements[self._positions(addresses[lanes], first, storage)]
        return result

    def store(self, addresses: Array, storage: Storage, raw: Array) -> None:
        """Write raw elements. Of equal addresses, the last in row-major order wins.

        ``raw`` has the shape of ``addresses`` (uint64) and the dtype of the storage. Raises ``Fault`` as ``find``
        does.
        """
        if addresses.size == 0:
            return
        self.version += 1
        found = self._one_allocation(addresses, storage, write=True)
        if found is not None:
            first, elements = found
            elements[self._positions(addresses, first, storage)] = raw
            return
        # Look up all allocations first, so that a fault leaves memory unchanged.
        for lanes, first, elements in list(self._by_allocation(addresses, storage, write=True)):
            elements[self._positions(addresses[lanes], first, storage)] = raw[lanes]

    def _positions(self, addresses: Array, first: int, storage: Storage) -> Array:
        return np.asarray((addresses - np.uint64(first)) >> storage.shift)

    def _one_allocation(
        self, addresses: Array, storage: Storage, *, write: bool
    ) -> tuple[int, Array] | None:
        """Return the elements of the allocation that contains all addresses, or None if there are several."""
        size = storage.size
        low, high = int(addresses.min()), int(addresses.max())
        if size > 1 and int(np.bitwise_or.reduce(addresses, axis=None)) % size:
            wrong = addresses[np.asarray(addresses % np.uint64(size) != 0)]
            self.find(int(wrong.flat[0]), size, size)
        allocation = self.find(low, size, size, write=write)
        if high + size > allocation.end:
            if bisect_right(self._bases, high) - 1 == bisect_right(self._bases, low) - 1:
                self.find(high, size, size, write=write)
            return None
        return allocation.elements(storage.raw)

    def _by_allocation(
        self, addresses: Array, storage: Storage, *, write: bool
    ) -> list[tuple[Array, int, Array]]:
        """Return (lanes, address of the first element, elements) for every allocation."""
        bases = np.array(self._bases, np.uint64)
        numbers = np.searchsorted(bases, addresses, side="right")
        parts: list[tuple[Array, int, Array]] = []
        for number in np.unique(numbers):
            lanes = np.asarray(numbers == number)
            some = addresses[lanes]
            self.find(int(some.max()), storage.size, storage.size, write=write)
            allocation = self.find(int(some.min()), storage.size, storage.size, write=write)
            parts.append((lanes, *allocation.elements(storage.raw)))
        return parts
