"""Global memory that one launch accesses through both the generic proxy (threads) and the async proxy (TMA).

Writes of one proxy are visible to the other only after the synchronization that PTX requires: a proxy fence between a
store and the TMA load that reads it; and the wait for completion of a TMA store's group, not only of its reads, before
its result is used. Within a cluster the vector clocks determine what is in between; between clusters, a fence of the
writer after its store, or of the reader, is assumed to be. Memory without a tensor map is not tracked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation

from tilewright.numerics.arrays import Array
from tilewright.simulator import codes
from tilewright.simulator.address_space import address_of
from tilewright.simulator.faults import note_at
from tilewright.simulator.state import WARP_SIZE, Clock, Launch, Warp

if TYPE_CHECKING:
    from tilewright.simulator.memory import Buffer
    from tilewright.simulator.tensor_maps import TensorMap

_GRANULE = 4
#: The fences kept for each warp, the latest.
_MOST_FENCES = 64


@dataclass(frozen=True, slots=True)
class Fence:
    """A proxy fence of a warp: its time, and the warp's vector clock."""

    clock_index: int
    event: int
    clock: Clock

    def is_seen_by(self, warp: Warp) -> bool:
        """Whether the fence happens before what the warp does now."""
        return self.clock_index == warp.clock_index or bool(
            warp.clock[self.clock_index] >= self.clock[self.clock_index]
        )


@dataclass(slots=True, eq=False)
class Written:
    """A write by a warp. ``is_async`` for TMA, whose completion the warp has waited for at clock ``done``."""

    op: Operation
    name: str
    clock_index: int
    clock: int
    event: int
    cluster_fences: dict[int, list[Fence]]
    is_async: bool = False
    done: int | None = None

    def is_fenced(self, reader: Warp) -> bool:
        """Whether a proxy fence is between the store and what the reader does now."""
        own = reader.block.cluster.fences
        if own is self.cluster_fences:
            return any(f.is_seen_by(reader) for f in self._behind(own))
        later = (f for f in _all(own) if f.event > self.event and f.is_seen_by(reader))
        return any(self._behind(self.cluster_fences)) or any(later)

    def _behind(self, fences: dict[int, list[Fence]]) -> Iterator[Fence]:
        """The fences of its cluster that happen after the store."""
        for fence in _all(fences):
            if fence.event > self.event and fence.clock[self.clock_index] >= self.clock:
                yield fence

    def is_complete(self, reader: Warp) -> bool:
        """Whether the completion of the TMA store happens before what the reader does now."""
        if self.done is None:
            return False
        is_other = reader.block.cluster.fences is not self.cluster_fences
        return (
            is_other
            or reader.clock_index == self.clock_index
            or reader.clock[self.clock_index] >= self.done
        )


def _all(fences: dict[int, list[Fence]]) -> Iterator[Fence]:
    for each in fences.values():
        yield from each


@dataclass(slots=True, eq=False)
class _Span:
    """The memory of a tensor map: the number of the last write to each 16 bytes, 0 for none."""

    start: int
    end: int
    name: str
    last: Array | None = None
    has_async: bool = False

    def mark(self, granules: Any, number: Any) -> None:
        if self.last is None:
            self.last = np.zeros(((self.end - self.start) >> _GRANULE) + 1, np.int32)
        self.last[granules] = number


@dataclass(slots=True)
class GlobalProxies:
    """The writes of a launch to memory that tensor maps cover."""

    spans: list[_Span]
    written: list[Written] = field(default_factory=list)

    @staticmethod
    def of(launch: Launch, values: Iterable[Any]) -> GlobalProxies | None:
        """The tracker for the tensor maps among the values of parameters; None if there are none."""
        from tilewright.simulator.tensor_maps import TensorMap

        found: dict[tuple[int, int], _Span] = {}
        for value in values:
            if isinstance(value, TensorMap):
                start = address_of(value.tensor)
                region = launch.addresses.region(start, start + 1)
                if region is not None:
                    span = _Span(region.start & -16, region.end, region.name)
                    found.setdefault((region.start, region.end), span)
        return GlobalProxies(list(found.values())) if found else None

    def wrote(self, warp: Warp, op: Operation, addresses: Array, who: Callable[[], Array]) -> None:
        """Note a store of the warp or group to addresses; ``who`` returns the lane of each."""
        for span, inside, granules in self._inside(addresses):
            first = len(self.written) + 1
            self.written += [self._note(member, op) for member in warp.members]
            number: Any = first
            if warp.size > WARP_SIZE:
                number = first + who()[inside] // WARP_SIZE
            span.mark(granules, number)

    def read(self, warp: Warp, op: Operation, addresses: Array) -> None:
        """Check a read or overwrite of addresses against unfinished TMA stores."""
        for span, _, granules in self._inside(addresses, asynchronous=True):
            for note in self._of(span, granules):
                if note.is_async and not note.is_complete(warp):
                    self._report_unfinished(warp, op, span, note)

    def loads(
        self, warp: Warp, op: Operation, tensor_map: TensorMap, corner: Sequence[int]
    ) -> None:
        """Check a TMA load of a box."""
        for span in self.spans:
            if span.last is None:
                continue
            granules = _granules(tensor_map.part(corner), span)
            for note in self._of(span, granules):
                if note.is_async:
                    if not note.is_complete(warp):
                        self._report_unfinished(warp, op, span, note)
                elif not note.is_fenced(warp):
                    self._report_fence(warp, op, span, note)

    def stores(
        self, warp: Warp, op: Operation, tensor_map: TensorMap, corner: Sequence[int]
    ) -> list[Written]:
        """Note the start of a TMA store of a box; returns the writes that its wait marks as done."""
        note = self._note(warp, op)
        note.is_async = True
        for span in self.spans:
            granules = _granules(tensor_map.part(corner), span)
            if granules.size:
                self.written.append(note)
                span.has_async = True
                span.mark(granules, len(self.written))
        return [note]

    def _note(self, warp: Warp, op: Operation) -> Written:
        launch = warp.launch
        launch.events += 1
        clock = int(warp.clock[warp.clock_index])
        fences = warp.block.cluster.fences
        return Written(op, warp.name(), warp.clock_index, clock, launch.events, fences)

    def _inside(
        self, addresses: Array, *, asynchronous: bool = False
    ) -> Iterator[tuple[_Span, Array, Array]]:
        """The spans that contain some of the addresses, with their mask and granules."""
        if not addresses.size:
            return
        low, high = int(addresses.min()), int(addresses.max())
        for span in self.spans:
            if (span.has_async or not asynchronous) and low < span.end and high >= span.start:
                inside = (addresses >= span.start) & (addresses < span.end)
                yield span, inside, (addresses[inside] - span.start) >> _GRANULE

    def _of(self, span: _Span, granules: Array) -> list[Written]:
        assert span.last is not None
        return [self.written[number - 1] for number in np.unique(span.last[granules]) if number]

    def _report_fence(self, warp: Warp, op: Operation, span: _Span, note: Written) -> None:
        warp.launch.collector.add(
            codes.PROXY_FENCE,
            f"{op.name} of {warp.name()} reads {span.name} through the async proxy where {note.name} wrote it "
            "through the generic proxy, without a proxy fence between",
            op,
            other=note.op,
            notes=[note_at(f"{note.name}: writes here", note.op)],
            help="execute nvvm.fence.proxy {kind = #nvvm.proxy_kind<async>} after the write, "
            "then synchronize",
        )

    def _report_unfinished(self, warp: Warp, op: Operation, span: _Span, note: Written) -> None:
        warp.launch.collector.add(
            codes.UNWAITED_COPY,
            f"{op.name} of {warp.name()} accesses {span.name} where a TMA store of {note.name} "
            "writes, before the store is known to have completed",
            op,
            other=note.op,
            notes=[note_at(f"{note.name}: the TMA store is here", note.op)],
            help="execute nvvm.cp.async.bulk.wait_group 0, without `read`, in the thread that "
            "stores, then synchronize",
        )


def note_fence(warp: Warp, kind: str) -> None:
    """Note a proxy fence, if its kind includes global memory."""
    if warp.launch.proxies is None or kind not in ("async", "async.global"):
        return
    warp.launch.events += 1
    fence = Fence(warp.clock_index, warp.launch.events, warp.clock.copy())
    kept = warp.block.cluster.fences.setdefault(warp.clock_index, [])
    kept.append(fence)
    del kept[:-_MOST_FENCES]


def note_elements(
    warp: Warp,
    buffer: Buffer,
    place: Any,
    size: int,
    op: Operation,
    *,
    is_write: bool,
    lanes: Array | None = None,
) -> None:
    """Note an access to elements of a buffer by all lanes or those in ``lanes``, equally many elements for each."""
    log = warp.launch.proxies
    if log is None:
        return
    place = np.asarray(place)
    addresses = address_of(buffer.data) + place.reshape(-1) * size
    log.read(warp, op, addresses)
    if is_write:
        rows = np.arange(place.shape[0] if place.ndim else 1) if lanes is None else lanes
        each = addresses.size // max(rows.size, 1)
        log.wrote(warp, op, addresses, lambda: rows.repeat(each))


def _granules(part: Array, span: _Span) -> Array:
    """The granules of a part of a tensor, row by row; none if it is outside of the span."""
    empty = np.zeros(0, np.int64)
    if not part.size:
        return empty
    start = address_of(part)
    if not span.start <= start < span.end:
        return empty
    starts = np.full(1, start - span.start, np.int64)
    for extent, stride in zip(part.shape[:-1], part.strides[:-1]):
        starts = (starts[:, None] + np.arange(extent) * stride).reshape(-1)
    size = part.shape[-1] * part.itemsize
    last = (starts + size - 1) >> _GRANULE
    each = (starts >> _GRANULE)[:, None] + np.arange((size >> _GRANULE) + 2)
    return np.minimum(each, last[:, None]).reshape(-1)
