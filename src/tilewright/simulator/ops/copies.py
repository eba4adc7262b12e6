"""``cp.async``: copies to shared memory that complete when their group is waited for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType, VectorType
from xdsl.ir import Operation

from tilewright.numerics.arrays import Array
from tilewright.simulator import codes
from tilewright.simulator.compile import Step, Translator, implements
from tilewright.simulator.counters import waves_of
from tilewright.simulator.faults import Fault, OneByOne
from tilewright.simulator.global_memory import ADDRESS, Access
from tilewright.simulator.memory import MemRef, locate
from tilewright.simulator.ops.packed import PER_BYTE, is_packed, whole_bytes
from tilewright.simulator.shadow import Bytes, Proxy
from tilewright.simulator.state import NEVER, WARP_SIZE, Warp
from tilewright.simulator.timeline import COPY_BYTES, LATENCY
from tilewright.simulator.values import element_of, lanes


@dataclass(slots=True)
class Copy:
    """A copy to shared memory by lanes of a warp.

    ``groups`` is the group of each lane: 0 before it is committed, -1 after it has landed.
    """

    op: Operation
    target: MemRef
    lanes: Array
    places: Array
    values: Array
    groups: Array
    start: float
    end: float


@implements("nvgpu.device_async_copy", wide=True)
def _copy(op: Any, t: Translator) -> Step:
    """Starts an asynchronous copy of ``dstElements`` elements to shared memory: the first ``srcElements`` from the
    source, then zeros (PTX, ``cp.async``).

    Addresses must be multiples of the size of the copy. The data may be read after its group has been waited for;
    earlier reads are reported.
    """
    source, source_indices = t.slot(op.src), t.slots(op.srcIndices)
    target, target_indices = t.slot(op.dst), t.slots(op.dstIndices)
    some = None if op.srcElements is None else t.slot(op.srcElements)
    count = op.properties["dstElements"].value.data
    element = element_of(op.dst.type)
    packed = PER_BYTE if is_packed(element) else 1
    if packed > 1:
        element = element_of(IntegerType(8))
    total = count // packed * element.size
    offsets = np.arange(count // packed)

    def together(group: Warp) -> None:
        if not group.full or some is not None or packed > 1:
            raise OneByOne
        r = group.regs
        to, out_of = r[target], r[source]
        places = locate(group, to, [r[i] for i in target_indices], op, (count,))
        first = locate(group, out_of, [r[i] for i in source_indices], op, (count,))
        if not (isinstance(places, np.ndarray) and isinstance(first, np.ndarray)):
            raise OneByOne
        _check_aligned(group, places, total, element.size, op, "shared memory")
        _check_aligned(group, first, total, element.size, op, out_of.buffer.name)
        values = out_of.buffer.view(element.dtype)[first[:, None] + offsets]
        where = Bytes(places * element.size, total, total)
        whole: Any = group
        group.block.shadow.write_together(where, whole, op, _STARTS, finished=False)
        rows = (places[:, None] + offsets).reshape(-1, WARP_SIZE, count)
        group.settle()
        for member, own, data in zip(
            group.members, rows, values.reshape(-1, WARP_SIZE, count), strict=True
        ):
            begin(member, to, _ALL, own, data)
        group.launch.counters.async_copy_bytes += group.active * total
        group.launch.counters.global_bytes_read += group.active * total
        if (recorder := group.launch.recorder) is not None:
            recorder.global_bytes(group, op, first * element.size, total)
            _record_fill(group, op, places * element.size, total)

    def begin(warp: Warp, to: MemRef, lanes_: Array, places: Array, values: Array) -> None:
        end = warp.time + LATENCY + lanes_.size * total / COPY_BYTES
        groups = np.zeros(lanes_.size, np.int64)
        warp.copies.open.append(Copy(op, to, lanes_, places, values, groups, warp.time, end))

    def step(warp: Warp) -> None:
        if warp.size > WARP_SIZE:
            together(warp)
            return
        r = warp.regs
        to, out_of = r[target], r[source]
        place = locate(warp, to, [r[i] for i in target_indices], op, (count,))
        if packed > 1:
            place = whole_bytes(place, warp, op)
        places = np.broadcast_to(place, WARP_SIZE)[warp.mask]
        _check_aligned(warp, places, total, element.size, op, "shared memory")
        found = np.full(WARP_SIZE, count) if some is None else lanes(r[some], np.dtype(np.int64))
        if (found[warp.mask] > count).any() or (found[warp.mask] < 0).any():
            raise Fault(
                codes.OUT_OF_BOUNDS,
                f"{op.name} of {warp.name()} reads {int(found[warp.mask].max())} elements, but "
                f"copies {count}",
                op,
            )
        values = _read(warp, out_of, [r[i] for i in source_indices], found, count, packed, op)
        where = Bytes(places * element.size, total, total)
        shadow = warp.block.shadow
        shadow.check_write(where, warp, op, "writes")
        shadow.stamp(where, warp.clock_index, NEVER, op, warp.name(), _STARTS, Proxy.GENERIC)
        begin(warp, to, np.flatnonzero(warp.mask), places[:, None] + offsets, values)
        warp.launch.counters.async_copy_bytes += warp.active * total
        if warp.launch.recorder is not None:
            _record_fill(warp, op, places * element.size, total)
        warp.launch.counters.global_bytes_read += (
            int(found[warp.mask].sum()) // packed * element.size
        )

    return step


@implements("nvvm.cp.async.shared.global")
def _copy_by_address(op: Any, t: Translator) -> Step:
    """The same with byte addresses; those of shared memory count from its start."""
    target, source = t.slot(op.dst), t.slot(op.src)
    some = None if op.cpSize is None else t.slot(op.cpSize)
    total = op.properties["size"].value.data
    access = Access(op, op.src.type, VectorType(IntegerType(8), [total]), "reads")
    offsets = np.arange(total)

    def step(warp: Warp) -> None:
        r, active = warp.regs, np.flatnonzero(warp.mask)
        shared = warp.block.shared
        places = lanes(r[target], ADDRESS)[warp.mask]
        _check_aligned(warp, places, total, 1, op, "shared memory")
        if (places < 0).any() or (places + total > shared.data.size).any():
            raise Fault(codes.OUT_OF_BOUNDS, f"{op.name} of {warp.name()} leaves shared memory", op)
        wanted = np.full(WARP_SIZE, total) if some is None else lanes(r[some], np.dtype(np.int64))
        wanted = wanted[warp.mask]
        if (wanted > total).any() or (wanted < 0).any():
            raise Fault(
                codes.OUT_OF_BOUNDS,
                f"{op.name} of {warp.name()} reads {int(wanted.max())} bytes, but copies {total}",
                op,
            )
        starts = lanes(r[source], ADDRESS)[warp.mask]
        reading = wanted > 0
        values = np.zeros((active.size, total), np.uint8)
        if reading.any():
            access.check_aligned(warp, starts[reading], lambda: active[reading])
            rows, columns = np.nonzero(reading[:, None] & (offsets < wanted[:, None]))
            found = access.read(warp, starts[rows] + columns, lambda: active[rows])
            values[rows, columns] = found.view(np.uint8)
        where = Bytes(places, total, total)
        shadow = warp.block.shadow
        shadow.check_write(where, warp, op, "writes")
        shadow.stamp(where, warp.clock_index, NEVER, op, warp.name(), _STARTS, Proxy.GENERIC)
        to = MemRef(shared, 0, (shared.data.size,), (1,))
        end = warp.time + LATENCY + active.size * total / COPY_BYTES
        groups = np.zeros(active.size, np.int64)
        copy = Copy(op, to, active, places[:, None] + offsets, values, groups, warp.time, end)
        warp.copies.open.append(copy)
        warp.launch.counters.async_copy_bytes += warp.active * total
        if warp.launch.recorder is not None:
            _record_fill(warp, op, places, total)

    return step


def _record_fill(warp: Warp, op: Operation, starts: Array, size: int) -> None:
    """Record the shared-memory waves of copies, warp by warp."""
    assert warp.launch.recorder is not None
    for own in np.split(starts, max(1, starts.size // WARP_SIZE)):
        waves, more = waves_of(own, size)
        warp.launch.recorder.shared(warp, op, waves, waves - more, 1)


def _read(
    warp: Warp,
    source: MemRef,
    indices: list[Any],
    found: Array,
    count: int,
    packed: int,
    op: Any,
) -> Array:
    """The ``count`` elements that each active lane copies, with zeros after the first ``found``.

    With ``packed`` elements per byte, the bytes of the elements.
    """
    element = element_of(op.src.type)
    reading, offsets = warp.mask & (found > 0), np.arange(count // packed)
    values = np.zeros((WARP_SIZE, count // packed), element.dtype)
    if not reading.any():
        return values[warp.mask]
    whole = warp.mask
    warp.set_mask(reading)
    # Only elements that are read must be in bounds.
    last = [*indices[:-1], lanes(indices[-1], np.dtype(np.int64)) + (found - 1)]
    locate(warp, source, last, op)
    place = locate(warp, source, indices, op)
    if packed > 1:
        place, found = whole_bytes(place, warp, op), whole_bytes(found, warp, op)
    place = np.broadcast_to(place, WARP_SIZE)
    warp.set_mask(whole)
    total = count // packed * element.size
    _check_aligned(warp, place[reading], total, element.size, op, source.buffer.name)
    rows, columns = np.nonzero(reading[:, None] & (offsets < found[:, None]))
    values[rows, columns] = source.buffer.view(element.dtype)[place[rows] + columns]
    if (recorder := warp.launch.recorder) is not None:
        who = np.flatnonzero(reading)
        recorder.global_elements(warp, op, place[reading] * element.size, who, total)
    return values[warp.mask]


def _check_aligned(
    warp: Warp, places: Array, total: int, size: int, op: Operation, where: str
) -> None:
    bad = places * size % total != 0
    if bad.any():
        raise Fault(
            codes.MISALIGNED,
            f"{op.name} of {warp.name()} copies {total} bytes at byte "
            f"{int(places[bad.argmax()]) * size} of {where}, which is not a multiple of {total}",
            op,
        )


@implements("nvgpu.device_async_create_group")
def _create_group(op: Operation, t: Translator) -> Step:
    """Commits the copies that each lane has started as a group."""

    def step(warp: Warp) -> None:
        commit(warp)

    return step


def commit(warp: Warp) -> None:
    """Commit the copies of the active lanes as a group (PTX ISA, ``cp.async.commit_group``)."""
    groups = warp.copies
    groups.committed[warp.mask] += 1
    still_open: list[Copy] = []
    for copy in groups.open:
        joining = warp.mask[copy.lanes] & (copy.groups == 0)
        copy.groups[joining] = groups.committed[copy.lanes[joining]]
        if (copy.groups == 0).any():
            still_open.append(copy)
        else:
            groups.closed.append(copy)
    groups.open = still_open


@implements("nvgpu.device_async_wait")
def _wait(op: Any, t: Translator) -> Step:
    """Completes all groups of the lane except the ``numGroups`` most recent. The data is visible to that lane only."""
    unfinished = op.groups

    def step(warp: Warp) -> None:
        groups = warp.copies
        done = np.where(warp.mask, groups.committed - unfinished, 0)
        np.maximum(groups.done, done, out=groups.done)
        start, end = warp.time, warp.time
        rest: list[Copy] = []
        for copy in groups.closed:
            landing = (copy.groups > 0) & (copy.groups <= groups.done[copy.lanes])
            if landing.any():
                end = max(end, copy.end)
                _land(warp, copy, landing)
            if (copy.groups > 0).any():
                rest.append(copy)
        groups.closed = rest
        warp.time = end
        warp.launch.timeline.add(warp, "wait", op, start, end)

    return step


_STARTS = "cp.async starts to write"
_ALL = np.arange(WARP_SIZE)


def _land(warp: Warp, copy: Copy, landing: Array) -> None:
    places, values = copy.places[landing], copy.values[landing]
    copy.target.buffer.view(values.dtype)[places] = values
    copy.groups[landing] = -1
    clock = int(warp.clock[warp.clock_index])
    size = values.dtype.itemsize
    where = Bytes(places[:, 0] * size, size * places.shape[1], size * places.shape[1])
    warp.block.shadow.stamp(
        where, warp.clock_index, clock, copy.op, warp.name(), "cp.async writes", Proxy.GENERIC
    )
    warp.launch.timeline.add(warp, "copy", copy.op, copy.start, copy.end)
    warp.launch.counters.shared_bytes_written += values.nbytes
    warp.block.cluster.progress += 1
