"""Host arrays on a GPU for the duration of a launch.

Arrays that share memory on the host share it on the GPU: they are one allocation, so that a kernel finds the same
overlaps and distances, and results are copied back once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tilewright.launching.described import host_bytes
from tilewright.numerics.arrays import Array

#: GPU and host addresses are equal modulo this, so that assumptions about alignment hold on both sides.
PAGE = 4096


class Transfers(Protocol):
    """The transfers of a launch: a GPU and a stream, for a kernel."""

    def allocate(self, size: int) -> int:
        """Allocate ``size`` bytes of device memory; returns the address."""
        ...

    def free(self, address: int) -> None:
        """Free memory that ``allocate`` returned."""

    def send(self, address: int, source: int, size: int) -> None:
        """Copy ``size`` bytes of host memory at ``source`` to device memory at ``address``."""

    def fetch(self, target: int, address: int, size: int) -> None:
        """Copy ``size`` bytes of device memory at ``address`` to host memory at ``target``."""


@dataclass(slots=True, eq=False)
class Span:
    """Host memory from ``low`` up to ``high``, and its address on the GPU.

    ``written`` are the arrays in it that the kernel may write; ``owners`` keep its memory alive; ``sent`` is a copy of
    what was sent, where it is needed for comparison.
    """

    low: int
    high: int
    written: list[Array] = field(default_factory=list["Array"])
    base: int = 0
    address: int = 0
    owners: list[Array] = field(default_factory=list["Array"])
    sent: Array | None = None

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self.high - self.low

    @property
    def is_covered(self) -> bool:
        """Whether a single array that the kernel may write covers all bytes."""
        return any(
            (array.flags.c_contiguous or array.flags.f_contiguous)
            and byte_bounds(array) == (self.low, self.high)
            for array in self.written
        )


def byte_bounds(array: Array) -> tuple[int, int]:
    """The addresses of the first byte of an array and after its last; equal if it is empty."""
    start = int(array.ctypes.data)
    if not array.size:
        return start, start
    reach = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
    low = start + sum(step for step in reach if step < 0)
    return low, start + sum(step for step in reach if step > 0) + array.itemsize


class HostMemory:
    """The host arrays of a launch: added, sent, and fetched.

    ``fixed`` are spans that stay on the GPU between launches; arrays that overlap one must be within it.
    """

    def __init__(self, transfers: Transfers, fixed: Sequence[Span] = ()) -> None:
        self._transfers = transfers
        self._fixed = [Span(s.low, s.high, list(s.written), s.base, s.address) for s in fixed]
        self._added: list[Span] = []
        self._spans: list[Span] = []
        self._lows: list[int] = []

    def add(self, array: Array, *, is_written: bool = True) -> None:
        """Add an array that the kernel reads, and may write unless it is read-only or ``is_written`` is false.

        Nothing is copied before ``send``; the array must live until ``free``.
        """
        low, high = byte_bounds(array)
        if low < high:
            written = [array] if is_written and array.flags.writeable else []
            self._added.append(Span(low, high, written))

    def send(self) -> None:
        """Allocate, and copy to the GPU; arrays that overlap share their memory there.

        Raises ``ValueError`` if one overlaps a fixed span without being within it.
        """
        self._spans = merged([*self._fixed, *self._added])
        self._lows = [span.low for span in self._spans]
        for span in self._spans:
            if not span.address:
                span.base = self._transfers.allocate(span.size + PAGE)
                span.address = span.base + (span.low - span.base) % PAGE
            source = span.low
            if span.written and not span.is_covered:
                # Bytes between the elements may be written by other threads meanwhile.
                span.sent = host_bytes(span.low, span.size).copy()
                source = int(span.sent.ctypes.data)
            self._transfers.send(span.address, source, span.size)

    def address(self, host: int) -> int | None:
        """The GPU address of the byte at a host address; None if it was not sent."""
        place = bisect_right(self._lows, host) - 1
        if place < 0 or host >= self._spans[place].high:
            return None
        span = self._spans[place]
        return span.address + host - span.low

    def fetch(self) -> None:
        """Copy back the arrays that the kernel may have written; in arrays with gaps only the bytes that it has
        changed.
        """
        for span in self._spans:
            if not span.written:
                continue
            if span.sent is None:
                self._transfers.fetch(span.low, span.address, span.size)
                continue
            new = np.empty_like(span.sent)
            self._transfers.fetch(int(new.ctypes.data), span.address, span.size)
            memory = host_bytes(span.low, span.size)
            for low, high in _joined([byte_bounds(array) for array in span.written]):
                part = slice(low - span.low, high - span.low)
                changed = np.flatnonzero(span.sent[part] != new[part])
                memory[part][changed] = new[part][changed]

    def free(self) -> None:
        """Free the memory, except that of fixed spans."""
        kept = {span.base for span in self._fixed}
        for span in self._spans:
            if span.base and span.base not in kept:
                self._transfers.free(span.base)
                span.base = 0


def _joined(bounds: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for low, high in sorted(bounds):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return found


def merged(spans: Sequence[Span]) -> list[Span]:
    """Merge overlapping spans; returns disjoint ones in ascending order.

    Raises ``ValueError`` if a span with an address is part of a larger one.
    """
    found: list[Span] = []
    for span in sorted(spans, key=lambda s: (s.low, -s.high, -s.address)):
        last = found[-1] if found else None
        if last is None or span.low >= last.high:
            found.append(Span(span.low, span.high, list(span.written), span.base, span.address))
            continue
        if span.address or (last.address and span.high > last.high):
            raise ValueError("an array extends past the mapped array that it overlaps")
        last.high = max(last.high, span.high)
        last.written += span.written
    return found
