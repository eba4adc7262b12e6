"""Memory accesses in which each element of a lane may be masked off."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import Operation

from tilewright.numerics.arrays import Array
from tilewright.simulator import codes
from tilewright.simulator.faults import Fault
from tilewright.simulator.lane_conflicts import check_lanes
from tilewright.simulator.memory import GLOBAL, LOCAL, SHARED, MemRef, beyond, bytes_at
from tilewright.simulator.proxies import note_elements
from tilewright.simulator.state import WARP_SIZE, Warp

_LANES = np.arange(WARP_SIZE)[:, None]


def load_where(
    warp: Warp, memref: MemRef, places: Array, wanted: Array, other: Array, op: Operation
) -> Array:
    """Load the elements at ``places`` (lanes x elements) that are ``wanted``; the others are those of ``other``.

    The dtype of ``other`` is that of the elements; the result is a new array. Raises ``Fault`` if a wanted element of
    an active lane is out of bounds.
    """
    dtype = other.dtype
    places, wanted = _chosen(warp, memref, places, wanted, dtype)
    found = other.copy()
    if memref.buffer.space == GLOBAL:
        warp.block.global_log.note(warp, memref.buffer, places[wanted], dtype.itemsize, op)
    try:
        found[wanted] = memref.buffer.view(dtype)[places[wanted]]
    except IndexError:
        raise beyond(warp, memref, op) from None
    _note(warp, memref, places, wanted, dtype.itemsize, op, is_write=False)
    if memref.buffer.space == GLOBAL:
        warp.asked = op, places, found
        note_elements(warp, memref.buffer, places[wanted], dtype.itemsize, op, is_write=False)
    return found


def store_where(
    warp: Warp, memref: MemRef, places: Array, wanted: Array, values: Array, op: Operation
) -> None:
    """Store the elements that are ``wanted``; the last of several at one position remains.

    ``places``, ``wanted`` and ``values`` are (lanes x elements). Raises ``Fault`` if one is out of bounds, and for
    read-only memory.
    """
    buffer = memref.buffer
    is_recorded = warp.launch.recorder is not None
    if buffer.read_only and not is_recorded:
        raise Fault(codes.ARGUMENT, f"{op.name} writes to {buffer.name}, which is read-only", op)
    places, wanted = _chosen(warp, memref, places, wanted, values.dtype)
    _note(warp, memref, places, wanted, values.dtype.itemsize, op, is_write=True)
    if buffer.read_only:
        return
    if not buffer.lane_bytes:
        lanes = np.broadcast_to(_LANES, wanted.shape)[wanted]
        check_lanes(warp, memref, places[wanted], values[wanted], op, lanes)
    if buffer.space == GLOBAL:
        log = warp.block.global_log
        log.note(warp, buffer, places[wanted], values.itemsize, op, values[wanted])
    try:
        buffer.view(values.dtype)[places[wanted]] = values[wanted]
        if buffer.space == GLOBAL:
            warp.launch.version += 1
        lanes = np.nonzero(wanted)[0]
        note_elements(warp, buffer, places[wanted], values.itemsize, op, is_write=True, lanes=lanes)
    except IndexError:
        raise beyond(warp, memref, op) from None


def _chosen(
    warp: Warp, memref: MemRef, places: Array, wanted: Array, dtype: np.dtype[Any]
) -> tuple[Array, Array]:
    """Positions in the buffer, and the mask of those that active lanes want."""
    if memref.buffer.lane_bytes:
        places = places + _LANES * (memref.buffer.lane_bytes // dtype.itemsize)
    shape = np.broadcast_shapes(places.shape, wanted.shape)
    active = np.broadcast_to(wanted & warp.mask[:, None], shape)
    return np.broadcast_to(places, shape), active


def _note(
    warp: Warp,
    memref: MemRef,
    places: Array,
    wanted: Array,
    size: int,
    op: Operation,
    *,
    is_write: bool,
) -> None:
    """Count the accesses, one per warp for each element, and check those of shared memory."""
    counters, space = warp.launch.counters, memref.buffer.space
    total = int(np.count_nonzero(wanted)) * size
    if space == LOCAL:
        counters.local_bytes += total
        return
    names = "shared" if space == SHARED else "global"
    name = f"{names}_bytes_{'written' if is_write else 'read'}"
    setattr(counters, name, getattr(counters, name) + total)
    if space != SHARED or not total:
        if total and (recorder := warp.launch.recorder) is not None:
            who, each = np.nonzero(wanted)[0], wanted.shape[1]
            recorder.global_elements(warp, op, places[wanted] * size, who, size, each)
        return
    for column in range(places.shape[1]):
        counters.shared_access(places[wanted[:, column], column] * size, size, warp, op)
    where, block = bytes_at(places[wanted], size), warp.block
    if is_write:
        block.shadow.write(where, warp, op, "writes")
        block.cluster.progress += 1
    else:
        block.shadow.read(where, warp, op, "reads")
