"""Messages of running kernels: printed texts and failed assertions, read from a buffer.

A record consists of 64-bit words: the number of its site, from 1, then x and y of the block, z of the block and the
thread (32 bits each), then the payload. The buffer begins with the number of bytes requested and its capacity in bytes;
what does not fit is dropped. It lies in host memory, which survives a kernel that fails.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from tilewright.gpu.driver_calls import Driver
from tilewright.launching.assertions import AssertionFailure, OperationSource
from tilewright.launching.described import host_bytes
from tilewright.launching.printf import formatted
from tilewright.layouts import gf2
from tilewright.layouts.layout import coordinates_of

#: The sizes of the buffer's header and of a record's header, in bytes.
BUFFER_HEADER, RECORD_HEADER = 16, 24
#: The record bytes that a launch keeps.
CAPACITY = 1 << 20

ValueKind = Literal["integer", "float"]


@dataclass(frozen=True, slots=True)
class PrintSite:
    """A `gpu.printf`: its format, and the kind and bits of each operand."""

    format: str
    kinds: tuple[ValueKind, ...]
    widths: tuple[int, ...]

    @property
    def size(self) -> int:
        """The size of its records in bytes."""
        return RECORD_HEADER + 8 * len(self.kinds)


@dataclass(frozen=True, slots=True)
class AssertionSite:
    """A `cf.assert`. For a tile of ``shape`` it records a byte for each element of the thread.

    Register r of thread t holds the element whose row-major number is the XOR of the ``registers`` and ``threads``
    bases for the bits set in r and t.
    """

    message: str
    source: OperationSource
    elements: int = 0
    shape: tuple[int, ...] = ()
    registers: tuple[int, ...] = ()
    threads: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """The size of its records in bytes."""
        return RECORD_HEADER + -(-self.elements // 8) * 8

    def failed(self, thread: int, holds: bytes) -> list[tuple[int, ...]]:
        """The indices of a thread's elements that fail; one without indices for a scalar.

        ``holds`` has a byte for each register, 0 where the condition is false.
        """
        if not self.elements:
            return [()]
        found: list[tuple[int, ...]] = []
        for register in range(self.elements):
            if not holds[register]:
                number = gf2.apply(self.registers, register) ^ gf2.apply(self.threads, thread)
                found.append(coordinates_of(number, self.shape))
        return found


Site = PrintSite | AssertionSite


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages of a launch: texts by block, each in the order of printing, failed assertions in the same order, and
    whether some were dropped.
    """

    texts: tuple[str, ...] = ()
    failures: tuple[AssertionFailure, ...] = ()
    is_cut: bool = False


_Block = tuple[int, int, int]


def decode(data: bytes, sites: Sequence[Site], folded: _Block | None = None) -> Messages:
    """Decode a buffer, including its header. ``folded``: the grid that was launched as one row (``linearize_grid``)."""
    asked, _ = struct.unpack_from("<qq", data)
    end = min(BUFFER_HEADER + asked, len(data))
    texts: dict[_Block, list[str]] = {}
    failures: dict[tuple[_Block, int, tuple[int, ...]], AssertionFailure] = {}
    at = BUFFER_HEADER
    while at + RECORD_HEADER <= end:
        number, x, y, z, thread = struct.unpack_from("<qIIII", data, at)
        if not number:  # the kernel failed before it was written
            break
        site = sites[number - 1]
        if at + site.size > end:
            break
        if folded is not None:
            rest, x = divmod(x, folded[0])
            z, y = divmod(rest, folded[1])
        block = (z, y, x)
        body = data[at + RECORD_HEADER : at + site.size]
        if isinstance(site, PrintSite):
            codes = "".join("d" if kind == "float" else "q" for kind in site.kinds)
            values = struct.unpack(f"<{codes}", body)
            texts.setdefault(block, []).append(formatted(site.format, values, site.widths))
        else:
            for index in site.failed(thread, body):
                failure = AssertionFailure(site.message, index, (x, y, z), site.source)
                failures.setdefault((block, number, index), failure)
        at += site.size
    ordered = [failures[key] for key in sorted(failures)]
    joined = ["".join(texts[block]) for block in sorted(texts)]
    return Messages(tuple(joined), tuple(ordered), BUFFER_HEADER + asked > len(data))


@dataclass(slots=True)
class _Buffer:
    host: int
    device: int

    def read(self, sites: Sequence[Site], folded: _Block | None) -> Messages:
        header = bytes(host_bytes(self.host, BUFFER_HEADER))
        asked = struct.unpack_from("<q", header)[0]
        size = min(BUFFER_HEADER + asked, BUFFER_HEADER + CAPACITY)
        return decode(bytes(host_bytes(self.host, size)), sites, folded)

    def clear(self) -> None:
        """Zero the records, and reset the header."""
        header = bytes(host_bytes(self.host, BUFFER_HEADER))
        asked = struct.unpack_from("<q", header)[0]
        ctypes.memset(self.host, 0, BUFFER_HEADER + min(asked, CAPACITY))
        ctypes.memmove(self.host + 8, struct.pack("<q", CAPACITY), 8)


class MessageBuffer:
    """A pool of message buffers, of which each launch uses one."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._free: list[_Buffer] = []
        self._lock = threading.Lock()

    @contextmanager
    def taken(self) -> Iterator[_Buffer]:
        """An empty buffer, returned to the pool on exit."""
        with self._lock:
            buffer = self._free.pop() if self._free else None
        if buffer is None:
            buffer = self._new()
        buffer.clear()
        try:
            yield buffer
        finally:
            with self._lock:
                self._free.append(buffer)

    def _new(self) -> _Buffer:
        api: Any = self._driver.api
        flags = int(api.CU_MEMHOSTALLOC_DEVICEMAP) | int(api.CU_MEMHOSTALLOC_PORTABLE)
        host = int(self._driver.call("cuMemHostAlloc", BUFFER_HEADER + CAPACITY, flags))
        ctypes.memset(host, 0, BUFFER_HEADER + CAPACITY)
        return _Buffer(host, int(self._driver.call("cuMemHostGetDevicePointer", host, 0)))
