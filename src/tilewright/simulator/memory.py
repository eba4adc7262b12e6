"""Memory of a run: the arrays of the caller, shared memory, memory of threads; and memrefs to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.simulator import codes
from tilewright.simulator.findings import Fault
from tilewright.simulator.shadow import Proxy
from tilewright.simulator.state import WARP_SIZE

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from tilewright.numerics.arrays import Array
    from tilewright.simulator.state import Warp

GLOBAL, SHARED, LOCAL = 1, 3, 5
_LANES = np.arange(WARP_SIZE)

Index = Any
"""An int for all lanes, or an array of int64 with one for each."""


@dataclass(slots=True, eq=False)
class Buffer:
    """Bytes of one space. Of ``LOCAL`` ones each lane has ``lane_bytes`` of its own."""

    data: Array
    space: int
    name: str
    read_only: bool = False
    lane_bytes: int = 0
    keeps: object = None
    _views: dict[Any, Array] = field(default_factory=dict)

    def view(self, dtype: np.dtype[Any]) -> Array:
        """All of it as elements of a type."""
        found = self._views.get(dtype)
        if found is None:
            whole = self.data.size // dtype.itemsize * dtype.itemsize
            found = self._views[dtype] = self.data[:whole].view(dtype)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class MemRef:
    """A memref value; ``offset`` and ``strides`` count elements of the buffer.

    ``base`` is where the memory begins that views are relative to.
    """

    buffer: Buffer
    offset: Index
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    base: Index = 0


def row_major(sizes: Sequence[int]) -> tuple[int, ...]:
    """The strides of elements side by side."""
    strides = [1] * len(sizes)
    for axis in range(len(sizes) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * sizes[axis + 1]
    return tuple(strides)


def locate(
    warp: Warp, memref: MemRef, indices: Sequence[Index], op: Operation, extents: Sequence[int] = ()
) -> Index:
    """The element that active lanes access, counted from the start of the buffer.

    ``extents`` are those of the vector that is accessed, along the last dimensions. Faults where
    an index of an active lane lies outside.
    """
    place = memref.offset
    free = len(indices) - len(extents)
    for axis, index in enumerate(indices):
        size = memref.sizes[axis] - (extents[axis - free] - 1 if axis >= free else 0)
        if type(index) is int:
            if not 0 <= index < size:
                _outside(warp, memref, axis, index, op)
        else:
            # As unsigned numbers, negative ones are too large as well.
            bad = index.view(np.uint64) >= max(size, 0)
            if bad.any() and (bad & warp.mask).any():
                _outside(warp, memref, axis, int(index[(bad & warp.mask).argmax()]), op)
        place = place + index * memref.strides[axis]
    return place


def _outside(warp: Warp, memref: MemRef, axis: int, index: int, op: Operation) -> None:
    shown = "x".join(map(str, memref.sizes))
    raise Fault(
        codes.OUT_OF_BOUNDS,
        f"{op.name} of {warp.name()} accesses index {index} of dimension {axis} of {shown} "
        f"elements of {memref.buffer.name}",
        op,
    )


def spread(place: Index, memref: MemRef, shape: Sequence[int]) -> Index:
    """The places of all elements of a vector that begins at ``place``: lanes x elements."""
    offsets = np.zeros(1, np.int64)
    for extent, stride in zip(shape, memref.strides[len(memref.strides) - len(shape) :]):
        offsets = (offsets[:, None] + np.arange(extent) * stride).reshape(-1)
    return np.broadcast_to(np.asarray(place).reshape(-1, 1), (WARP_SIZE, 1)) + offsets


def _lane_places(warp: Warp, memref: MemRef, place: Index, size: int) -> Index:
    """Places in the view of a buffer of threads' memory."""
    elements = memref.buffer.lane_bytes // size
    lanes = _LANES * elements
    place = np.asarray(place)
    return place + (lanes if place.ndim < 2 else lanes[:, None])


def load(warp: Warp, memref: MemRef, place: Index, dtype: np.dtype[Any], op: Operation) -> Array:
    """The elements at places, an array like ``place``: an int, (32,) or (32, n)."""
    buffer = memref.buffer
    if buffer.lane_bytes:
        place = _lane_places(warp, memref, place, dtype.itemsize)
    elif not (isinstance(place, int) or warp.full):
        place = _only_active(place, warp.mask)
    try:
        found = buffer.view(dtype)[place]
    except IndexError:
        raise _beyond(warp, memref, op) from None
    note_access(warp, memref, place, dtype.itemsize, op, is_write=False)
    return found


def _only_active(place: Array, mask: Array) -> Array:
    """The same with the place of an active lane for those that are not."""
    place = np.broadcast_to(place, (WARP_SIZE, *place.shape[1:])).copy()
    place[~mask] = place[int(mask.argmax())]
    return place


def _beyond(warp: Warp, memref: MemRef, op: Operation) -> Fault:
    return Fault(
        codes.OUT_OF_BOUNDS,
        f"{op.name} of {warp.name()} accesses memory behind the end of {memref.buffer.name}",
        op,
    )


def store(
    warp: Warp, memref: MemRef, place: Index, values: Array, dtype: np.dtype[Any], op: Operation
) -> None:
    """Write elements of active lanes at places."""
    buffer = memref.buffer
    if buffer.read_only:
        raise Fault(codes.ARGUMENT, f"{op.name} writes to {buffer.name}, which is read-only", op)
    if buffer.lane_bytes:
        place = _lane_places(warp, memref, place, dtype.itemsize)
    note_access(warp, memref, place, dtype.itemsize, op, is_write=True)
    place = np.broadcast_to(np.asarray(place), np.shape(values))
    if not warp.full:
        place, values = place[warp.mask], values[warp.mask]
    try:
        buffer.view(dtype)[place] = values
    except IndexError:
        raise _beyond(warp, memref, op) from None


def note_access(
    warp: Warp, memref: MemRef, place: Index, size: int, op: Operation, *, is_write: bool
) -> None:
    """Count an access, and for shared memory check whether it is ordered."""
    counters, space = warp.launch.counters, memref.buffer.space
    place = np.asarray(place)
    per_lane = place.shape[1] if place.ndim == 2 else 1
    total = warp.active * per_lane * size
    if space == SHARED:
        if is_write:
            counters.shared_bytes_written += total
        else:
            counters.shared_bytes_read += total
        if place.ndim and not warp.full:
            place = place[warp.mask]
        first = place[:, 0] if place.ndim == 2 else place.reshape(-1)
        counters.shared_access(first * size, size * per_lane)
        where = bytes_at(place, size)
        block = warp.block
        if is_write:
            block.shadow.write(where, warp, op, "writes")
            block.cluster.progress += 1
        else:
            block.shadow.read(where, warp, op, "reads")
    elif space == LOCAL:
        counters.local_bytes += total
    elif is_write:
        counters.global_bytes_written += total
    else:
        counters.global_bytes_read += total


def bytes_at(place: Array, size: int) -> Array:
    """The addresses of all bytes of elements at these places."""
    return (place.reshape(-1, 1) * size + np.arange(size)).reshape(-1)


def note_atomic(warp: Warp, place: Array, size: int, op: Operation) -> None:
    """The same for atomic updates of shared memory."""
    where = bytes_at(place, size)
    shadow = warp.block.shadow
    shadow.check_read(where, warp, op, "updates", Proxy.ATOMIC)
    shadow.write(where, warp, op, "updates", Proxy.ATOMIC)
    warp.launch.counters.shared_bytes_written += place.size * size
    warp.block.cluster.progress += 1
