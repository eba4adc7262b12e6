"""``vector.gather`` and ``vector.scatter``: each element goes where its index says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tilewright.numerics.arrays import Array
from tilewright.simulator import codes
from tilewright.simulator.compile import Step, Translator, implements
from tilewright.simulator.faults import Fault
from tilewright.simulator.memory import (
    GLOBAL,
    LOCAL,
    SHARED,
    MemRef,
    bytes_at,
    count_banks,
    locate,
    note_order,
)
from tilewright.simulator.ops.packed import need_whole_bytes
from tilewright.simulator.proxies import note_elements
from tilewright.simulator.state import WARP_SIZE, Warp
from tilewright.simulator.values import Element, element_of, lanes, shape_of

_LOCAL_LANES = np.arange(WARP_SIZE)[:, None]
_INDEX = np.dtype(np.int64)


class _Selection:
    """The positions of an operation's elements, and the mask of those that are moved."""

    def __init__(self, op: Any, t: Translator, moved: Any):
        self.op: Operation = op
        self.base, self.indices = t.slot(op.base), t.slots(op.indices)
        self.chosen, self.mask = t.slot(op.index_vec), t.slot(op.mask)
        self.shape = shape_of(moved.type)
        self.element: Element = element_of(moved.type)
        need_whole_bytes(self.element, op)

    def of(self, warp: Warp) -> tuple[MemRef, Array, Array | None]:
        """The memref, the position of each element (lanes x elements), and the mask of those moved, None for all.

        Raises ``Fault`` if one that is moved is out of bounds.
        """
        r = warp.regs
        memref: MemRef = r[self.base]
        indices: Sequence[Any] = [r[i] for i in self.indices]
        chosen = lanes(r[self.chosen], _INDEX, warp.size).reshape(warp.size, -1)
        mask = r[self.mask].reshape(warp.size, -1)
        on = mask if warp.full else mask & warp.mask[:, None]
        everything = bool(on.all())
        last = len(memref.sizes) - 1
        first = np.asarray(indices[last]).reshape(-1, 1)
        along = first + chosen
        bad = along.view(np.uint64) >= memref.sizes[last]
        if bad.any() and (bad & on).any():
            self._outside(warp, memref, int(along[bad & on][0]))
        start = locate(warp, memref, [*indices[:last], 0], self.op)
        places = np.asarray(start).reshape(-1, 1) + along * memref.strides[last]
        if memref.buffer.lane_bytes:
            places = places + _LOCAL_LANES * (memref.buffer.lane_bytes // self.element.size)
        return memref, places, None if everything else on

    def _outside(self, warp: Warp, memref: MemRef, index: int) -> None:
        shown = "x".join(map(str, memref.sizes))
        raise Fault(
            codes.OUT_OF_BOUNDS,
            f"{self.op.name} of {warp.name()} accesses index {index} of dimension "
            f"{len(memref.sizes) - 1} of {shown} elements of {memref.buffer.name}",
            self.op,
        )


def _note(
    warp: Warp,
    memref: MemRef,
    places: Array,
    on: Array | None,
    size: int,
    op: Operation,
    *,
    is_write: bool,
) -> None:
    """Count the accesses to the elements in ``on``, and check those of shared memory."""
    counters, space = warp.launch.counters, memref.buffer.space
    moved, owners = places, None
    if on is not None:
        moved, owners = places[on], np.nonzero(on)[0] // WARP_SIZE
    total = moved.size * size
    if space == SHARED:
        note_order(warp, bytes_at(moved, size), op, owners, is_write=is_write)
        if is_write:
            counters.shared_bytes_written += total
        else:
            counters.shared_bytes_read += total
        # A gather is one access of all lanes per element.
        for column in range(places.shape[1]):
            active = None if on is None else on[:, column]
            count_banks(warp, places[:, column] * size, size, op, active)
    elif space == LOCAL:
        counters.local_bytes += total
    elif is_write:
        _record(warp, op, moved, owners, size, places.shape[1])
        counters.global_bytes_written += total
    else:
        _record(warp, op, moved, owners, size, places.shape[1])
        counters.global_bytes_read += total


def _record(
    warp: Warp, op: Operation, moved: Array, owners: Array | None, size: int, each: int
) -> None:
    """Tell the recorder, if there is one; ``owners`` are the warps of a group."""
    if (recorder := warp.launch.recorder) is None or not moved.size:
        return
    who = np.arange(len(moved)).repeat(each) if owners is None else owners * WARP_SIZE
    recorder.global_elements(warp, op, moved.reshape(-1) * size, who, size, each)


@implements("vector.gather", wide=True)
def _gather(op: Any, t: Translator) -> Step:
    """Loads elements at indices along the last dimension where the mask is true, else those of ``pass_thru``."""
    selection = _Selection(op, t, op.result)
    other, result = t.slot(op.pass_thru), t.slot(op.result)
    element, shape = selection.element, selection.shape

    def step(warp: Warp) -> None:
        memref, places, on = selection.of(warp)
        view = memref.buffer.view(element.dtype)
        if on is None:
            found = view[places]
            _note(warp, memref, places, None, element.size, op, is_write=False)
        else:
            given = lanes(warp.regs[other], element.dtype, warp.size)
            found = given.reshape(places.shape).copy()
            found[on] = view[places[on]]
            _note(warp, memref, places, on, element.size, op, is_write=False)
        if memref.buffer.space == GLOBAL:
            warp.asked = op, places, found
            chosen = places if on is None else places[on]
            note_elements(warp, memref.buffer, chosen, element.size, op, is_write=False)
        warp.regs[result] = found.reshape(warp.size, *shape)

    return step


@implements("vector.scatter", wide=True)
def _scatter(op: Any, t: Translator) -> Step:
    """Stores elements at indices along the last dimension where the mask is true; the last of several at one position
    remains.
    """
    selection = _Selection(op, t, op.valueToStore)
    value = t.slot(op.valueToStore)
    element = selection.element

    def step(warp: Warp) -> None:
        memref, places, on = selection.of(warp)
        buffer = memref.buffer
        if buffer.read_only and warp.launch.recorder is None:
            raise Fault(
                codes.ARGUMENT, f"{op.name} writes to {buffer.name}, which is read-only", op
            )
        values = lanes(warp.regs[value], element.dtype, warp.size).reshape(places.shape)
        _note(warp, memref, places, on, element.size, op, is_write=True)
        if buffer.read_only:
            return
        if on is not None:
            places, values = places[on], values[on]
        buffer.view(element.dtype)[places] = values
        if buffer.space == GLOBAL:
            warp.launch.version += 1
            who = None if on is None else np.nonzero(on)[0]
            note_elements(warp, buffer, places, element.size, op, is_write=True, lanes=who)

    return step
