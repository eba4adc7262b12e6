"""The memories of a run: the caller's arrays, shared memory, thread-local memory; and memrefs to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tilewright.numerics.arrays import Array
from tilewright.simulator import codes
from tilewright.simulator.faults import Fault, OneByOne
from tilewright.simulator.lane_conflicts import check_lanes
from tilewright.simulator.proxies import note_elements
from tilewright.simulator.shadow import Bytes, Proxy
from tilewright.simulator.state import WARP_SIZE, Warp

GLOBAL, SHARED, LOCAL = 1, 3, 5
_LANES = np.arange(WARP_SIZE)

Index = Any
"""An int that is the same for all lanes, or an int64 array with one element per lane."""


@dataclass(slots=True, eq=False)
class Buffer:
    """The bytes of a memory. In ``LOCAL`` memory each lane has ``lane_bytes`` of its own."""

    data: Array
    space: int
    name: str
    read_only: bool = False
    lane_bytes: int = 0
    keeps: object = None
    _views: dict[Any, Array] = field(default_factory=dict)

    def view(self, dtype: np.dtype[Any]) -> Array:
        """The whole buffer as elements of a type, over the same memory; bytes that fill no element are left out."""
        found = self._views.get(dtype)
        if found is None:
            whole = self.data.size // dtype.itemsize * dtype.itemsize
            found = self._views[dtype] = self.data[:whole].view(dtype)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class MemRef:
    """A memref value; ``offset`` and ``strides`` count elements of the buffer.

    ``base`` is the start of the memory that views are relative to.
    """

    buffer: Buffer
    offset: Index
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    base: Index = 0


def locate(
    warp: Warp,
    memref: MemRef,
    indices: Sequence[Index],
    op: Operation,
    extents: Sequence[int] = (),
    mask: Array | None = None,
) -> Index:
    """The element that active lanes access, counted from the start of the buffer: an int, or (lanes,).

    ``indices`` are those of the memref, one per axis, each of them an int or (lanes,). ``extents`` are those of the
    accessed vector, along the last dimensions. Raises ``Fault`` if an index of an active lane, or of one in ``mask``,
    is out of bounds.
    """
    place = memref.offset
    free = len(indices) - len(extents)
    for axis, index in enumerate(indices):
        size = memref.sizes[axis] - (extents[axis - free] - 1 if axis >= free else 0)
        if type(index) is int:
            if not 0 <= index < size:
                _outside(warp, memref, axis, index, op)
        else:
            # As unsigned numbers, negative indices are too large as well.
            unsigned = index.view(np.uint64)
            if int(unsigned.max()) >= size:
                bad = (unsigned >= max(size, 0)) & (warp.mask if mask is None else mask)
                if bad.any():
                    _outside(warp, memref, axis, int(index[bad.argmax()]), op)
        stride = memref.strides[axis]
        place = place + (index if stride == 1 else index * stride)
    return place


def _outside(warp: Warp, memref: MemRef, axis: int, index: int, op: Operation) -> None:
    shown = "x".join(map(str, memref.sizes))
    raise Fault(
        codes.OUT_OF_BOUNDS,
        f"{op.name} of {warp.name()} accesses index {index} of dimension {axis} of {shown} "
        f"elements of {memref.buffer.name}",
        op,
    )


def spread(place: Index, memref: MemRef, shape: Sequence[int], size: int = WARP_SIZE) -> Index:
    """The positions of all elements of a vector at ``place``, as an array of lanes x elements.

    ``size`` is the number of lanes.
    """
    rank = len(shape)
    offsets = offsets_of(tuple(shape), memref.strides[len(memref.strides) - rank :])
    if isinstance(place, np.ndarray):
        return place[:, None] + offsets
    return np.broadcast_to(place + offsets, (size, offsets.size))


@cache
def offsets_of(shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """The offsets of the elements of a vector from its first, in row-major order."""
    offsets = np.zeros(1, np.int64)
    for extent, stride in zip(shape, strides):
        offsets = (offsets[:, None] + np.arange(extent) * stride).reshape(-1)
    return offsets


def _lane_places(memref: MemRef, place: Index, size: int) -> Index:
    """The positions in a buffer of thread-local memory."""
    elements = memref.buffer.lane_bytes // size
    lanes = _LANES * elements
    place = np.asarray(place)
    return place + (lanes if place.ndim < 2 else lanes[:, None])


def load(warp: Warp, memref: MemRef, place: Index, dtype: np.dtype[Any], op: Operation) -> Array:
    """Load the elements at ``place``: an int, (lanes,) or (lanes, n); the result has its shape.

    Places count elements of ``dtype`` from the start of the buffer. The result may be a view of the memory. Raises
    ``Fault`` if an active lane is out of bounds.
    """
    buffer = memref.buffer
    if buffer.lane_bytes:
        place = _lane_places(memref, place, dtype.itemsize)
    elif not (isinstance(place, int) or warp.full):
        place = _only_active(place, warp.mask)
    try:
        found = buffer.view(dtype)[place]
        note_access(warp, memref, place, dtype.itemsize, op, is_write=False)
    except IndexError:
        raise beyond(warp, memref, op) from None
    if buffer.space == GLOBAL:
        warp.asked = op, place, found
        note_elements(warp, buffer, place, dtype.itemsize, op, is_write=False)
    return found


def _only_active(place: Array, mask: Array) -> Array:
    """Replace the positions of inactive lanes by that of an active one."""
    place = place.copy()
    place[~mask] = place[int(mask.argmax())]
    return place


def beyond(warp: Warp, memref: MemRef, op: Operation) -> Fault:
    """The fault for an access past the end of a buffer, to be raised."""
    return Fault(
        codes.OUT_OF_BOUNDS,
        f"{op.name} of {warp.name()} accesses memory past the end of {memref.buffer.name}",
        op,
    )


def store(
    warp: Warp, memref: MemRef, place: Index, values: Array, dtype: np.dtype[Any], op: Operation
) -> None:
    """Store elements of active lanes; ``place`` is as for ``load``, ``values`` has its shape or broadcasts it.

    Raises ``Fault`` if one is out of bounds, and for read-only memory. A store that is recorded for another
    process leaves that memory as it is.
    """
    buffer = memref.buffer
    if buffer.read_only:
        if warp.launch.recorder is not None:
            note_access(warp, memref, place, dtype.itemsize, op, is_write=True)
            return
        raise Fault(codes.ARGUMENT, f"{op.name} writes to {buffer.name}, which is read-only", op)
    if buffer.lane_bytes:
        place = _lane_places(memref, place, dtype.itemsize)
    try:
        note_access(warp, memref, place, dtype.itemsize, op, is_write=True)
        if not isinstance(place, np.ndarray) or place.shape != values.shape:
            place = np.broadcast_to(place, values.shape)
        lanes = None
        if not warp.full:
            place, values = place[warp.mask], values[warp.mask]
            lanes = np.flatnonzero(warp.mask)
        if not buffer.lane_bytes:
            check_lanes(warp, memref, place, values, op, lanes)
        if buffer.space == GLOBAL:
            warp.block.global_log.note(warp, buffer, place, dtype.itemsize, op, values, lanes)
            warp.launch.version += 1
            note_elements(warp, buffer, place, dtype.itemsize, op, is_write=True, lanes=lanes)
        buffer.view(dtype)[place] = values
    except IndexError:
        raise beyond(warp, memref, op) from None


def note_access(
    warp: Warp, memref: MemRef, place: Index, size: int, op: Operation, *, is_write: bool
) -> None:
    """Count an access; in shared memory, also check its order.

    Places count elements, ``size`` is the bytes of one. Raises ``OneByOne`` where a group cannot be checked together.
    """
    space = memref.buffer.space
    place = np.asarray(place)
    per_lane = place.shape[1] if place.ndim == 2 else 1
    if space == SHARED:
        _note_shared(warp, place, size, op, is_write)
    counters, total = warp.launch.counters, warp.active * per_lane * size
    if space == SHARED:
        if is_write:
            counters.shared_bytes_written += total
        else:
            counters.shared_bytes_read += total
    elif space == LOCAL:
        counters.local_bytes += total
        return
    elif warp.launch.recorder is not None:
        warp.launch.recorder.global_bytes(warp, op, place * size, size)
    if space == SHARED:
        return
    if is_write:
        counters.global_bytes_written += total
    else:
        counters.global_bytes_read += total
        _note_global_read(warp, memref.buffer, place, size, op)


def _note_global_read(warp: Warp, buffer: Buffer, place: Array, size: int, op: Operation) -> None:
    lanes = None
    if place.ndim and not warp.full:
        lanes = np.flatnonzero(warp.mask)
        place = place[lanes]
    warp.block.global_log.note(warp, buffer, place, size, op, lanes=lanes)


def _note_shared(warp: Warp, place: Array, size: int, op: Operation, is_write: bool) -> None:
    in_group, owners, on = warp.size > WARP_SIZE, None, None
    if in_group and not place.ndim:
        raise OneByOne
    each = place.shape[1] if place.ndim == 2 else 1
    first = (place[:, 0] if place.ndim == 2 else place.reshape(-1)) * size
    addresses = first
    if place.ndim and not warp.full:
        on, numbers = warp.mask, np.flatnonzero(warp.mask)
        place, first = place[numbers], first[numbers]
        owners = numbers // WARP_SIZE if in_group else None
    if each == 1:
        where = Bytes(first, size, size)
    elif _is_contiguous(place):
        where = Bytes(first, size * each, size)
    else:
        where = bytes_at(place, size)
        owners = None if owners is None else owners.repeat(each)
    note_order(warp, where, op, owners, is_write=is_write)
    count_banks(warp, addresses, size * each, op, on)


def note_order(
    warp: Warp, where: Bytes, op: Operation, owners: Array | None = None, *, is_write: bool
) -> None:
    """Check the order of accesses to shared memory by a warp or the warps of a group.

    ``owners`` is the group member of each address; None if all have equal shares. Raises ``OneByOne`` for a group if
    there is something to report.
    """
    block = warp.block
    shadow: Any = block.shadow
    if warp.size == WARP_SIZE:
        (shadow.write if is_write else shadow.read)(where, warp, op, _VERBS[is_write])
    else:
        together = shadow.write_together if is_write else shadow.read_together
        together(where, warp, op, _VERBS[is_write], owners)
    if is_write:
        block.cluster.progress += 1


def count_banks(
    warp: Warp, addresses: Array, size: int, op: Operation, on: Array | None = None
) -> None:
    """Count an access to shared memory and its bank conflicts, for each warp with an active lane.

    ``addresses`` has all lanes, in bytes, at each of which lie ``size``; ``on`` are the active ones, None for all.
    """
    counters = warp.launch.counters
    if on is None:
        counters.shared_access(addresses, size, warp, op, len(warp.members))
        return
    rows, active = addresses.reshape(-1, WARP_SIZE), on.reshape(-1, WARP_SIZE)
    some = active.any(axis=1)
    rows, active = rows[some], active[some]
    if size > _WORD_BYTES:
        for row, part in zip(rows, active):
            counters.shared_access(row[part], size, warp, op)
    elif len(rows):
        # Inactive lanes repeat an active one's address, which costs nothing.
        others = rows[np.arange(len(rows)), active.argmax(axis=1)]
        filled = np.where(active, rows, others[:, None])
        counters.shared_access(filled.reshape(-1), size, warp, op, len(rows))


_WORD_BYTES = 4
_VERBS = ("reads", "writes")


def _is_contiguous(place: Array) -> bool:
    """Whether the elements of each lane are contiguous. The layout is the same in all lanes."""
    row = place[0].tolist()
    return row == list(range(row[0], row[0] + len(row)))


def bytes_at(place: Array, size: int) -> Bytes:
    """The byte ranges of elements at these positions, which count elements of ``size`` bytes."""
    return Bytes(np.asarray(place) * size, size, size)


def note_update(warp: Warp, op: Operation, place: Array, before: Array, after: Array) -> None:
    """Note an atomic update of global memory, from ``before`` to ``after``."""
    warp.asked = op, place, before
    if before.tobytes() != after.tobytes():
        warp.launch.version += 1


def note_atomic(warp: Warp, place: Array, size: int, op: Operation) -> None:
    """Note atomic updates of shared memory."""
    where = bytes_at(place, size)
    shadow = warp.block.shadow
    shadow.check_read(where, warp, op, "updates", Proxy.ATOMIC)
    shadow.write(where, warp, op, "updates", Proxy.ATOMIC)
    warp.launch.counters.shared_bytes_written += place.size * size
    warp.block.cluster.progress += 1
