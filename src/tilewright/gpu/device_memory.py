"""A pool of GPU memory that launches allocate from and return to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tilewright.gpu.driver_calls import Driver

#: The unused bytes that the pool retains.
KEPT_BYTES = 1 << 30


class DeviceMemory:
    """Allocations in a context, in stream order. Thread-safe.

    On GPUs with memory pools a pool retains up to ``KEPT_BYTES``, so that launches of the same arrays allocate from the
    system once. ``has_pools`` is called at the first allocation.
    """

    def __init__(self, driver: Driver, has_pools: Callable[[], bool]) -> None:
        self._driver = driver
        self._has_pools = has_pools
        self._pool: Any = None
        self._is_open = False
        self._lock = threading.Lock()

    def allocate(self, size: int, device: Any, stream: int, kernel: str) -> int:
        """Allocate ``size`` bytes; returns an address that is a multiple of 256.

        Raises ``TileIRError`` (``gpu-out-of-memory``), which names ``kernel``.
        """
        self._open(device)
        size = max(size, 1)
        if self._pool is None:
            return int(self._driver.call("cuMemAlloc", size, kernel=kernel))
        call = "cuMemAllocFromPoolAsync", size, self._pool, stream
        return int(self._driver.call(*call, kernel=kernel))

    def free(self, address: int, stream: int) -> None:
        """Free memory that ``allocate`` returned, after the work that is on the stream."""
        if self._pool is None:
            self._driver.release("cuMemFree", address)
        else:
            self._driver.release("cuMemFreeAsync", address, stream)

    def _open(self, device: Any) -> None:
        with self._lock:
            if self._is_open:
                return
            self._is_open = True
            if not self._has_pools():
                return
            api = self._driver.api
            props = api.CUmemPoolProps()
            props.allocType = api.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
            props.handleTypes = api.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_NONE
            location = props.location
            location.type = api.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
            location.id = int(device)
            props.location = location
            pool = self._driver.call("cuMemPoolCreate", props)
            kind = api.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
            self._driver.call("cuMemPoolSetAttribute", pool, kind, api.cuuint64_t(KEPT_BYTES))
            self._pool = pool
