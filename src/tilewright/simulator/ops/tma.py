"""TMA: boxes between tensors and shared memory, completed at mbarriers or in bulk groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation

from tilewright.numerics.arrays import Array
from tilewright.simulator import codes
from tilewright.simulator.compile import Step, Suspending, Translator, implements
from tilewright.simulator.faults import Fault
from tilewright.simulator.layouts import PATTERN_BYTES, box_chunks
from tilewright.simulator.memory import MemRef
from tilewright.simulator.ops.barriers import (
    acting_lanes,
    barriers_of,
    check_published,
    check_transactions,
    check_usable,
)
from tilewright.simulator.proxies import Written
from tilewright.simulator.shadow import Proxy
from tilewright.simulator.state import NEVER, AsyncCopy, Block, Coroutine, MBarrier, Wait, Warp
from tilewright.simulator.timeline import COPY_BYTES, LATENCY

if TYPE_CHECKING:
    from tilewright.simulator.tensor_maps import TensorMap

_CHUNK = 16
_TILE_ALIGNMENT = 128


def _tile_start(warp: Warp, memref: MemRef, tensor_map: TensorMap, op: Operation) -> int:
    """The first byte of a tile in shared memory. Raises ``Fault`` if the copy cannot access it."""
    offset = memref.offset
    if type(offset) is not int:
        found = np.unique(offset[warp.mask])
        if found.size > 1:
            raise Fault(codes.UNSUPPORTED, f"lanes of {warp.name()} copy different tiles", op)
        offset = int(found[0])
    start = offset * tensor_map.tensor.itemsize
    needed = max(_TILE_ALIGNMENT, PATTERN_BYTES[tensor_map.swizzle])
    if start % needed:
        raise Fault(
            codes.MISALIGNED,
            f"{op.name} of {warp.name()} has its tile at shared byte {start}, which is not a "
            f"multiple of {needed}, as '{tensor_map.swizzle}' needs it",
            op,
            help=f"give the memory an alignment of {needed}",
        )
    if start + tensor_map.box_bytes > warp.block.shared.data.size:
        raise Fault(codes.OUT_OF_BOUNDS, f"{op.name} of {warp.name()} leaves shared memory", op)
    return start


def _corners(warp: Warp, slots: tuple[int, ...], acting: Array) -> list[tuple[int, list[int]]]:
    """The corner of each acting lane in the tensor, outermost coordinate first."""
    values = [warp.regs[slot] for slot in reversed(slots)]
    return [
        (int(lane), [v if type(v) is int else int(v[lane]) for v in values])
        for lane in np.flatnonzero(acting)
    ]


@implements("nvgpu.tma.async.load")
def _load(op: Any, t: Translator) -> Step:
    """Starts a copy of the box at the coordinates to shared memory, with fill outside of the tensor.

    On completion it adds its bytes to the mbarrier. ``multicastMask`` selects the destination blocks of the cluster.
    """
    target, group, index = t.slot(op.dst), t.slot(op.barriers), t.slot(op.mbarId)
    descriptor, coordinates = t.slot(op.tensorMapDescriptor), t.slots(op.coordinates)
    predicate = None if op.predicate is None else t.slot(op.predicate)
    multicast = None if op.multicastMask is None else t.slot(op.multicastMask)

    def step(warp: Warp) -> None:
        r = warp.regs
        acting = acting_lanes(warp, predicate)
        if not acting.any():
            return
        tensor_map = r[descriptor]
        start = _tile_start(warp, r[target], tensor_map, op)
        for barrier, lanes in barriers_of(warp, r[group], r[index], acting, op):
            check_usable(warp, barrier, op)
            check_published(warp, barrier, op)
            for lane, corner in _corners(warp, coordinates, lanes):
                mask = None if multicast is None else _at(r[multicast], lane)
                for block in _destinations(warp, mask, op):
                    twin = _same_barrier(block, barrier)
                    _start_load(warp, op, tensor_map, corner, block, start, twin)

    return step


def _at(value: Any, lane: int) -> int:
    return value if type(value) is int else int(value[lane])


def _destinations(warp: Warp, mask: int | None, op: Operation) -> list[Block]:
    blocks = warp.block.cluster.blocks
    if mask is None:
        return [warp.block]
    mask &= 0xFFFF
    if mask >> len(blocks):
        raise Fault(
            codes.OUT_OF_BOUNDS,
            f"{op.name} of {warp.name()} goes to blocks {mask:#b} of a cluster of {len(blocks)}",
            op,
        )
    return [block for rank, block in enumerate(blocks) if mask >> rank & 1]


def _same_barrier(block: Block, barrier: MBarrier) -> MBarrier:
    """The corresponding mbarrier of another block of the cluster."""
    if block is barrier.block:
        return barrier
    for op, group in barrier.block.mbarriers.items():
        if barrier in group:
            return block.mbarriers[op][group.index(barrier)]
    raise AssertionError("a barrier that its block does not have")


def _start_load(
    warp: Warp,
    op: Operation,
    tensor_map: TensorMap,
    corner: list[int],
    block: Block,
    start: int,
    barrier: MBarrier,
) -> None:
    size = tensor_map.box_bytes
    where = slice(start, start + size)
    shadow, launch = block.shadow, warp.launch
    shadow.check_write(where, warp, op, "overwrites", Proxy.ASYNC)
    what = f"TMA load for phase {barrier.phase} of {barrier.name}"
    shadow.stamp(where, barrier.clock_index, NEVER, op, warp.name(), what, Proxy.ASYNC)
    if launch.proxies is not None:
        launch.proxies.loads(warp, op, tensor_map, corner)
    launch.counters.tma_bytes_loaded += size
    launch.counters.global_bytes_read += size
    if launch.recorder is not None:
        launch.recorder.bulk(warp, op, size)
    begin = warp.time
    end = begin + LATENCY + size / COPY_BYTES

    def land() -> None:
        write_box(block, start, tensor_map.load(corner), tensor_map.swizzle)
        phase = barrier.phase
        barrier.last_load = phase, op
        what = f"TMA load for phase {phase} of {barrier.name}"
        shadow.stamp(where, barrier.clock_index, phase + 1, op, warp.name(), what, Proxy.ASYNC)
        launch.counters.shared_bytes_written += size
        barrier.time = max(barrier.time, end)
        barrier.tx -= size
        check_transactions(warp, barrier, op)
        barrier.settle()
        block.cluster.progress += 1
        launch.timeline.add(warp, "copy", op, begin, end)

    block.cluster.copies.append(AsyncCopy(op, warp, land, end))


def write_box(block: Block, start: int, box: Array, swizzle: str) -> None:
    """Write a dense box to the swizzled tile at byte ``start`` of the block's shared memory."""
    chunks = np.ascontiguousarray(box).reshape(-1).view(np.uint8).reshape(-1, _CHUNK)
    tile = block.shared.data.reshape(-1, _CHUNK)
    tile[start // _CHUNK + box_chunks(len(chunks), swizzle)] = chunks


def read_box(block: Block, start: int, tensor_map: TensorMap) -> Array:
    """The box of a tile, in a new array; the inverse of ``write_box``."""
    count = tensor_map.box_bytes // _CHUNK
    tile = block.shared.data.reshape(-1, _CHUNK)
    chunks = tile[start // _CHUNK + box_chunks(count, tensor_map.swizzle)]
    return chunks.reshape(-1).view(tensor_map.tensor.dtype).reshape(tensor_map.box)


@dataclass(slots=True, eq=False)
class Store:
    """A TMA store of a lane. ``group`` is 0 until it is committed."""

    op: Operation
    lane: int
    number: int
    where: slice
    group: int = 0
    landed: bool = False
    is_read: bool = False
    end: float = 0.0
    written: list[Written] = field(default_factory=list)
    """Its writes to global memory, until their completion has been waited for."""


@implements("nvgpu.tma.async.store")
def _store(op: Any, t: Translator) -> Step:
    """Starts a copy of shared memory to the box at the coordinates, without elements outside of the tensor.

    It belongs to the next bulk group of the thread.
    """
    source, descriptor = t.slot(op.src), t.slot(op.tensorMapDescriptor)
    coordinates = t.slots(op.coordinates)
    predicate = None if op.predicate is None else t.slot(op.predicate)

    def step(warp: Warp) -> None:
        r = warp.regs
        acting = acting_lanes(warp, predicate)
        if not acting.any():
            return
        tensor_map = r[descriptor]
        start = _tile_start(warp, r[source], tensor_map, op)
        for lane, corner in _corners(warp, coordinates, acting):
            _start_store(warp, op, tensor_map, corner, lane, start)

    return step


def _start_store(
    warp: Warp, op: Operation, tensor_map: TensorMap, corner: list[int], lane: int, start: int
) -> None:
    size, block, launch = tensor_map.box_bytes, warp.block, warp.launch
    where = slice(start, start + size)
    block.shadow.check_read(where, warp, op, "reads", Proxy.ASYNC)
    warp.product_count += 1
    number = warp.product_count
    block.shadow.reading(where, warp, number, op, "TMA store reads")
    launch.counters.tma_bytes_stored += size
    launch.counters.shared_bytes_read += size
    launch.counters.global_bytes_written += size
    if launch.recorder is not None:
        launch.recorder.bulk(warp, op, size)
    begin = warp.time
    store = Store(op, lane, number, where, end=begin + LATENCY + size / COPY_BYTES)
    if launch.proxies is not None:
        store.written = launch.proxies.stores(warp, op, tensor_map, corner)
    warp.stores.open.append(store)

    def land() -> None:
        if launch.recorder is None or tensor_map.tensor.flags.writeable:
            tensor_map.store(corner, read_box(block, start, tensor_map))
            launch.version += 1
        store.landed = True
        block.cluster.progress += 1
        launch.timeline.add(warp, "store", op, begin, store.end)

    block.cluster.copies.append(AsyncCopy(op, warp, land, store.end))


@implements("nvvm.cp.async.bulk.commit.group")
def _commit(op: Any, t: Translator) -> Step:
    """Commits the stores that each lane has started as a bulk group."""

    def step(warp: Warp) -> None:
        groups = warp.stores
        groups.committed[warp.mask] += 1
        for store in groups.open:
            if warp.mask[store.lane]:
                store.group = int(groups.committed[store.lane])
        groups.closed += [store for store in groups.open if store.group]
        groups.open = [store for store in groups.open if not store.group]

    return step


def _end_write(store: Store, warp: Warp) -> None:
    """Note that the warp knows of the completion of a store's writes."""
    for written in store.written:
        written.done = int(warp.clock[warp.clock_index])
    store.written = []


@dataclass(slots=True)
class StoreWait(Wait):
    """Lanes that wait for their bulk groups."""

    op: Operation
    stores: list[Store]
    reading: bool
    """Whether the wait is only for the reads of the stores."""

    def ready(self) -> bool:
        return all(store.landed for store in self.stores)

    def finish(self, warp: Warp) -> None:
        start = warp.time
        for store in self.stores:
            store.is_read = True
            warp.time = max(warp.time, store.end)
            warp.block.shadow.read_done(store.where, warp, store.number)
            if not self.reading:
                _end_write(store, warp)
        warp.launch.timeline.add(warp, "wait", self.op, start, warp.time)

    def describe(self) -> str:
        return f"waits for {sum(not store.landed for store in self.stores)} TMA stores"


@implements("nvvm.cp.async.bulk.wait_group")
def _wait(op: Any, t: Translator) -> Suspending:
    """Waits for all bulk groups of the lane except the ``group`` most recent; with ``read`` only until their sources
    have been read.
    """
    unfinished, reading = op.properties["group"].value.data, op.read is not None

    def start(warp: Warp) -> Coroutine:
        groups = warp.stores
        limit = groups.committed - unfinished
        due = [
            store
            for store in groups.closed
            if warp.mask[store.lane] and store.group <= limit[store.lane] and not store.is_read
        ]
        if not reading:
            for store in list(warp.stores.read):
                if warp.mask[store.lane] and store.group <= limit[store.lane]:
                    _end_write(store, warp)
                    warp.stores.read.remove(store)
        if due:
            yield StoreWait(op, due, reading)
            groups.read += [store for store in due if store.written]
            groups.closed = [store for store in groups.closed if not store.is_read]

    return Suspending(start)
