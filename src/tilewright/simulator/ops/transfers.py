"""``vector``: transfers between memory and vectors with bounds checks, permutations and masks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import BoolAttr
from xdsl.ir import Operation
from xdsl.ir.affine import AffineDimExpr

from tilewright.numerics.arrays import Array
from tilewright.simulator import codes
from tilewright.simulator.compile import Step, Translator, implements
from tilewright.simulator.faults import Fault
from tilewright.simulator.memory import MemRef
from tilewright.simulator.ops.packed import need_whole_bytes
from tilewright.simulator.scattered import load_where, store_where
from tilewright.simulator.state import WARP_SIZE, Warp
from tilewright.simulator.values import element_of, lanes, shape_of

_INDEX = np.dtype(np.int64)


@dataclass(frozen=True, slots=True)
class _Dimension:
    """A dimension of a memref: the vector dimension along it, if any, and whether it is declared in bounds."""

    along: int | None
    is_inside: bool


class _Transfer:
    """The positions of a vector's elements in a memref."""

    def __init__(self, op: Any, t: Translator, vector: Any):
        self.op, self.shape = op, shape_of(vector.type)
        self.element = element_of(vector.type)
        need_whole_bytes(self.element, op)
        self.source, self.indices = t.slot(op.source), t.slots(op.indices)
        self.mask = None if op.mask is None else t.slot(op.mask)
        flags: Sequence[BoolAttr] = op.in_bounds.data
        results = op.permutation_map.data.results
        places = {
            expr.position: axis
            for axis, expr in enumerate(results)
            if isinstance(expr, AffineDimExpr)
        }
        self.dimensions = [
            _Dimension(places.get(dim), dim not in places or bool(flags[places[dim]].value.data))
            for dim in range(op.permutation_map.data.num_dims)
        ]
        # A mask has the dimensions of the memref along which the vector goes, in their order.
        self.mask_axes = [d.along for d in self.dimensions if d.along is not None]
        self.grid = np.indices(self.shape).reshape(len(self.shape), prod(self.shape))

    def places(self, warp: Warp) -> tuple[MemRef, Array, Array]:
        """The memref, the position of each element (lanes x elements), and the mask of those transferred."""
        memref = warp.regs[self.source]
        wanted = self._masked(warp)
        place = np.asarray(memref.offset, _INDEX).reshape(-1, 1)
        for axis, (slot, dimension) in enumerate(zip(self.indices, self.dimensions)):
            index = lanes(warp.regs[slot], _INDEX)[:, None]
            if dimension.along is not None:
                index = index + self.grid[dimension.along]
            outside = (index < 0) | (index >= memref.sizes[axis])
            if dimension.is_inside:
                self._check(warp, memref, axis, index, outside & wanted)
            wanted = wanted & ~outside
            place = place + np.where(outside, 0, index) * memref.strides[axis]
        shape = (WARP_SIZE, self.grid.shape[1])
        return memref, np.broadcast_to(place, shape), np.broadcast_to(wanted, shape)

    def _masked(self, warp: Warp) -> Array:
        if self.mask is None:
            return np.ones((WARP_SIZE, self.grid.shape[1]), np.bool_)
        mask = warp.regs[self.mask]
        return mask[(slice(None), *(self.grid[axis] for axis in self.mask_axes))]

    def _check(self, warp: Warp, memref: MemRef, axis: int, index: Array, outside: Array) -> None:
        bad = outside & warp.mask[:, None]
        if bad.any():
            first = int(np.broadcast_to(index, bad.shape)[bad][0])
            raise _outside(warp, memref, axis, first, self.op)


def _outside(warp: Warp, memref: MemRef, axis: int, index: int, op: Operation) -> Fault:
    shown = "x".join(map(str, memref.sizes))
    return Fault(
        codes.OUT_OF_BOUNDS,
        f"{op.name} of {warp.name()} accesses index {index} of dimension {axis} of {shown} "
        f"elements of {memref.buffer.name}",
        op,
    )


@implements("vector.transfer_read")
def _read(op: Any, t: Translator) -> Step:
    """Loads a vector; elements out of bounds or masked off are the padding."""
    transfer = _Transfer(op, t, op.result)
    padding, result, dtype = t.slot(op.padding), t.slot(op.result), transfer.element.dtype

    def step(warp: Warp) -> None:
        memref, places, wanted = transfer.places(warp)
        pad = lanes(warp.regs[padding], dtype)[:, None]
        other = np.broadcast_to(pad, places.shape)
        found = load_where(warp, memref, places, wanted, other, op)
        warp.regs[result] = found.reshape(WARP_SIZE, *transfer.shape)

    return step


@implements("vector.transfer_write")
def _write(op: Any, t: Translator) -> Step:
    """Stores a vector along the permutation map, without elements out of bounds.

    Raises ``Fault`` if ``in_bounds`` is false for an element.
    """
    transfer = _Transfer(op, t, op.vector)
    value, dtype = t.slot(op.vector), transfer.element.dtype

    def step(warp: Warp) -> None:
        memref, places, wanted = transfer.places(warp)
        values = lanes(warp.regs[value], dtype).reshape(WARP_SIZE, -1)
        store_where(warp, memref, places, wanted, values, op)

    return step


class _Row:
    """Consecutive elements along the last dimension of a memref."""

    def __init__(self, op: Any, t: Translator, vector: Any):
        base, *indices = op.operands[: 1 + len(op.indices)]
        self.op, self.element = op, element_of(vector.type)
        need_whole_bytes(self.element, op)
        (self.count,) = shape_of(vector.type)
        self.base, self.indices = t.slot(base), t.slots(indices)
        self.mask = t.slot(op.mask)

    def wanted(self, warp: Warp) -> Array:
        return warp.regs[self.mask].reshape(WARP_SIZE, -1)

    def places(self, warp: Warp, along: Array, wanted: Array) -> tuple[MemRef, Array]:
        """The memref, and the positions of the elements at ``along`` from the first."""
        memref: MemRef = warp.regs[self.base]
        place = np.asarray(memref.offset, _INDEX).reshape(-1, 1)
        last = len(memref.sizes) - 1
        for axis, slot in enumerate(self.indices):
            index = lanes(warp.regs[slot], _INDEX)[:, None]
            if axis == last:
                index = index + along
            outside = (index < 0) | (index >= memref.sizes[axis])
            bad = outside & wanted & warp.mask[:, None]
            if bad.any():
                first = int(np.broadcast_to(index, bad.shape)[bad][0])
                raise _outside(warp, memref, axis, first, self.op)
            place = place + np.where(outside, 0, index) * memref.strides[axis]
        return memref, np.broadcast_to(place, (WARP_SIZE, self.count))


def _side_by_side(wanted: Array) -> Array:
    """The offset of each wanted element, if wanted elements are packed."""
    return np.cumsum(wanted, axis=1) - 1


@implements("vector.maskedload", "vector.expandload")
def _masked_load(op: Any, t: Translator) -> Step:
    """Loads a row where the mask is true, else ``pass_thru``; ``expandload`` reads consecutive elements."""
    row = _Row(op, t, op.result)
    other, result = t.slot(op.pass_thru), t.slot(op.result)
    packs = op.name == "vector.expandload"

    def step(warp: Warp) -> None:
        wanted = row.wanted(warp)
        along = _side_by_side(wanted) if packs else np.arange(row.count)
        memref, places = row.places(warp, along, wanted)
        rest = lanes(warp.regs[other], row.element.dtype)
        warp.regs[result] = load_where(warp, memref, places, wanted, rest, op)

    return step


@implements("vector.maskedstore", "vector.compressstore")
def _masked_store(op: Any, t: Translator) -> Step:
    """Stores a row where the mask is true; ``compressstore`` writes consecutive elements."""
    packs = op.name == "vector.compressstore"
    vector = op.valueToStore if packs else op.value_to_store
    row, value = _Row(op, t, vector), t.slot(vector)

    def step(warp: Warp) -> None:
        wanted = row.wanted(warp)
        along = _side_by_side(wanted) if packs else np.arange(row.count)
        memref, places = row.places(warp, along, wanted)
        values = lanes(warp.regs[value], row.element.dtype)
        store_where(warp, memref, places, wanted, values, op)

    return step
