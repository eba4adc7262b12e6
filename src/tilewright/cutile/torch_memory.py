"""The memory of a GPU that is only pretended: what a program has on the device ``cuda``, counted as torch's allocator
counts it.

The tensors are in host memory, where torch counts nothing. A storage is counted when a call of torch gives it for
the first time, and until it is freed; what an operation takes and frees by itself is not seen.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch

from tilewright.cutile.torch_devices import check_index

#: What the GPU has: that of a B200.
TOTAL_BYTES = 180 << 30
_GIB = 1 << 30
#: Sizes of CUDA's caching allocator: what allocations are rounded to, what is the largest small one, and what is taken
#: from the device at once.
_GRAIN, _SMALL, _SEGMENT = 512, 1 << 20, 2 << 20
_POOLS = ("all", "small_pool", "large_pool")


@dataclass(slots=True)
class _Count:
    """A number that goes up and down, as torch's statistics show it."""

    current: int = 0
    peak: int = 0
    allocated: int = 0
    freed: int = 0

    def change(self, amount: int) -> None:
        """Add an amount, or take one away."""
        self.current += amount
        self.peak = max(self.peak, self.current)
        if amount > 0:
            self.allocated += amount
        else:
            self.freed -= amount

    def told(self) -> dict[str, int]:
        """By the names of torch."""
        return {
            "current": self.current,
            "peak": self.peak,
            "allocated": self.allocated,
            "freed": self.freed,
        }


def _counts() -> dict[str, _Count]:
    return {pool: _Count() for pool in _POOLS}


@dataclass(slots=True)
class _Statistics:
    """Counts of bytes and of allocations, for small and for large ones."""

    allocated: dict[str, _Count] = field(default_factory=_counts)
    requested: dict[str, _Count] = field(default_factory=_counts)
    number: dict[str, _Count] = field(default_factory=_counts)
    reserved: _Count = field(default_factory=_Count)

    def change(self, change: int) -> None:
        """An allocation of that many bytes has come, or gone where it is negative."""
        size, sign = abs(change), 1 if change > 0 else -1
        rounded = -(-size // _GRAIN) * _GRAIN
        for pool in ("all", "small_pool" if rounded <= _SMALL else "large_pool"):
            self.allocated[pool].change(sign * rounded)
            self.requested[pool].change(sign * size)
            self.number[pool].change(sign)
        missing = self.needed - self.reserved.current
        if missing > 0:
            self.reserved.change(missing)

    @property
    def needed(self) -> int:
        """Bytes of the segments that hold what there is."""
        return -(-self.allocated["all"].current // _SEGMENT) * _SEGMENT

    def every(self) -> list[_Count]:
        """All counts."""
        of_pools = (self.allocated, self.requested, self.number)
        return [self.reserved, *(count for table in of_pools for count in table.values())]


class _Held(weakref.ref[torch.UntypedStorage]):
    """A storage on the device; knows what is to be done when it is freed."""

    __slots__ = ("address", "size")
    address: int
    size: int


#: So many sizes, and bytes of them, are kept until they are counted.
_MOST_EVENTS, _MOST_UNCOUNTED = 100_000, 1 << 28


class DeviceMemory:
    """The storages that a program has on the device, and what torch tells of them.

    Operations only note that sizes have come and gone; they are counted when the program asks.
    """

    def __init__(self) -> None:
        self._held: dict[int, _Held] = {}
        # Sizes of storages; negative ones have been freed, which happens at any time, on any thread.
        self._events: deque[int] = deque()
        self._lock = threading.Lock()
        self._statistics = _Statistics()
        #: Bytes that have come since they were counted.
        self._uncounted = 0
        self._fraction = 1.0
        self._failures = 0
        #: Whether the program has asked for any of it.
        self.is_asked_for = False

    def add(self, storage: torch.UntypedStorage) -> None:
        """A storage is on the device; ``torch.OutOfMemoryError`` if that has no room for it."""
        address = storage._cdata
        if address in self._held:
            return
        size = storage.nbytes()
        if not size or storage.device.type != "cpu":
            return
        held = _Held(storage, self._freed)
        held.address, held.size = address, size
        if self._held.setdefault(address, held) is held:
            self._events.append(size)
        self._uncounted += size
        if self._uncounted > _MOST_UNCOUNTED or len(self._events) > _MOST_EVENTS:
            self._make_room(held)

    def _make_room(self, held: _Held) -> None:
        """Count everything; the newest storage is not to stay where there is too much."""
        if self.free_bytes() >= 0:
            return
        storage = held()
        if storage is not None:
            self.remove(storage)
        self.refuse(held.size)

    def free_bytes(self) -> int:
        """How much more the program may have."""
        with self._lock:
            self._settle()
            return self.limit - self._statistics.allocated["all"].current

    @property
    def limit(self) -> int:
        """The bytes that the program may have at a time."""
        return int(TOTAL_BYTES * self._fraction)

    def check(self, size: int) -> None:
        """``torch.OutOfMemoryError`` if there is no room for so many bytes."""
        if size > self.free_bytes():
            self.refuse(size)

    def refuse(self, size: int, reason: str = "") -> NoReturn:
        """Raise ``torch.OutOfMemoryError``, as CUDA's allocator does, for so many bytes that cannot be had."""
        self._failures += 1
        free = max(self.free_bytes(), 0)
        raise torch.OutOfMemoryError(
            f"CUDA out of memory. Tried to allocate {size / _GIB:.2f} GiB. GPU 0 has a total capacity of "
            f"{TOTAL_BYTES / _GIB:.2f} GiB of which {free / _GIB:.2f} GiB is free."
            + (f" ({reason})" if reason else "")
        )

    def _freed(self, held: Any) -> None:
        # Before the address can be that of another storage.
        if self._held.pop(held.address, None) is not None:
            self._events.append(-held.size)

    def remove(self, storage: torch.UntypedStorage) -> None:
        """A storage that was counted is not on the device after all."""
        held = self._held.pop(storage._cdata, None)
        if held is not None:
            self._events.append(-held.size)

    def holds(self, address: int) -> bool:
        """Whether an address is one of a storage on the device."""
        storages = [held() for held in list(self._held.values())]
        return any(
            storage.data_ptr() <= address < storage.data_ptr() + storage.nbytes()
            for storage in storages
            if storage is not None
        )

    def _settle(self) -> None:
        """Count what has come and gone; to be called with the lock."""
        self._uncounted = 0
        while self._events:
            self._statistics.change(self._events.popleft())

    def statistics(self, device: Any = None) -> dict[str, Any]:
        """As ``torch.cuda.memory_stats_as_nested_dict``: bytes and counts. Raises RuntimeError for another device
        than 0.
        """
        check_index(device)
        self.is_asked_for = True
        with self._lock:
            self._settle()
            made = self._statistics
            allocated, number = _told(made.allocated), _told(made.number)
            reserved = made.reserved.told()
        none = {pool: _Count().told() for pool in _POOLS}
        segments = {name: -(-count // _SEGMENT) for name, count in reserved.items()}
        return {
            "allocated_bytes": allocated,
            "active_bytes": allocated,
            "requested_bytes": _told(made.requested),
            "reserved_bytes": {**none, "all": reserved, "large_pool": reserved},
            "inactive_split_bytes": none,
            "allocation": number,
            "active": number,
            "segment": {**none, "all": segments, "large_pool": segments},
            "inactive_split": none,
            "oversize_allocations": _Count().told(),
            "oversize_segments": _Count().told(),
            "max_split_size": -1,
            **dict.fromkeys(_EVENTS, 0),
            "num_ooms": self._failures,
            "num_device_alloc": segments["allocated"],
            "num_device_free": segments["freed"],
        }

    def reset_peaks(self, device: Any = None) -> None:
        """Peaks are what there is now. Raises RuntimeError for another device than 0."""
        check_index(device)
        self.is_asked_for = True
        with self._lock:
            self._settle()
            for count in self._statistics.every():
                count.peak = count.current

    def reset_totals(self, device: Any = None) -> None:
        """Nothing has come or gone up to now. Raises RuntimeError for another device than 0."""
        check_index(device)
        with self._lock:
            self._settle()
            self._failures = 0
            for count in self._statistics.every():
                count.allocated = count.freed = 0

    def empty_cache(self) -> None:
        """Give back segments in which nothing is."""
        with self._lock:
            self._settle()
            unused = self._statistics.needed - self._statistics.reserved.current
            if unused:
                self._statistics.reserved.change(unused)

    def set_fraction(self, fraction: float, device: Any = None) -> None:
        """As ``torch.cuda.set_per_process_memory_fraction``: a share of the memory, from 0 to 1.

        Raises TypeError for what is no float, ValueError for one out of range, RuntimeError for another device.
        """
        check_index(device)
        if not isinstance(fraction, float):
            raise TypeError("Invalid type for fraction argument, must be `float`")
        if not 0 <= fraction <= 1:
            raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
        self._fraction = fraction

    def fraction(self, device: Any = None) -> float:
        """As ``torch.cuda.get_per_process_memory_fraction``: from 0 to 1. Raises RuntimeError for another device than
        0.
        """
        check_index(device)
        return self._fraction

    def free_and_total(self, device: Any = None) -> tuple[int, int]:
        """As ``torch.cuda.mem_get_info``: both in bytes. Raises RuntimeError for another device than 0."""
        return max(TOTAL_BYTES - self.used(device), 0), TOTAL_BYTES

    def used(self, device: Any = None) -> int:
        """As ``torch.cuda.device_memory_used``: the bytes that torch has taken. Raises RuntimeError for another
        device than 0.
        """
        return self.statistics(device)["reserved_bytes"]["all"]["current"]


_EVENTS = ("num_alloc_retries", "num_ooms", "num_sync_all_streams")


def _told(counts: Mapping[str, _Count]) -> dict[str, dict[str, int]]:
    return {pool: count.told() for pool, count in counts.items()}


device_memory = DeviceMemory()
"""That of the only GPU."""


def functions() -> Mapping[str, Callable[..., Any]]:
    """What stands in ``torch.cuda`` and ``torch.cuda.memory`` instead, by name; torch's other functions about memory
    call these."""
    memory = device_memory
    return {
        "memory_stats_as_nested_dict": memory.statistics,
        "reset_peak_memory_stats": memory.reset_peaks,
        "reset_accumulated_memory_stats": memory.reset_totals,
        "empty_cache": memory.empty_cache,
        "mem_get_info": memory.free_and_total,
        "device_memory_used": memory.used,
        "set_per_process_memory_fraction": memory.set_fraction,
        "get_per_process_memory_fraction": memory.fraction,
    }
