"""Computes where the elements of a view's tile are in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.dialects.cuda_tile.types import Cut
from tilewright.launching.storage import Storage
from tilewright.machine.faults import (
    INBOUNDS_BROKEN,
    INVALID_ADDRESS,
    OUTSIDE_INDEX_SPACE,
    Fault,
)
from tilewright.machine.memory import Allocation, Memory
from tilewright.machine.values import Registers, TensorView
from tilewright.numerics.arrays import Array
from tilewright.numerics.int_ops import as_numbers

_MAX_ELEMENT_NUMBER = 2**63 - 1

Inside = tuple[slice, ...] | None
"""The part of a tile that is in bounds, as a prefix of each dimension; None for all."""


@dataclass(slots=True)
class StridedElements:
    """Strided elements of one allocation; offsets and strides in bytes.

    The stride of a dimension of extent 1 is 0. ``inside``: which part of the tile they are.
    """

    allocation: Allocation
    byte_offset: int
    extents: tuple[int, ...]
    byte_strides: tuple[int, ...]
    inside: Inside

    def over(self, array: Array, unit: int, *, within: int = 1) -> Array:
        """Return the part of an array that corresponds to these elements.

        One element of the array corresponds to ``unit`` bytes of the allocation, and ``within`` of them
        to one element here; they form an additional last dimension.
        """
        itemsize = array.itemsize
        return np.ndarray(
            (*self.extents, within),
            array.dtype,
            array,
            self.byte_offset // unit * itemsize,
            (*[stride // unit * itemsize for stride in self.byte_strides], itemsize),
        )

    def elements(self, raw: np.dtype[Any]) -> Array:
        """Return the elements as a view over memory."""
        return np.ndarray(
            self.extents, raw, self.allocation.buffer, self.byte_offset, self.byte_strides
        )


class ViewAccess:
    """An access through a view: how tiles are cut, and the slots of the view and the indices.

    ``index_masks`` give the unsigned reading of each index. ``inbounds`` is what the operation
    asserts.
    """

    def __init__(
        self,
        memory: Memory,
        cut: Cut,
        storage: Storage,
        view_slot: int,
        index_slots: tuple[int, ...],
        index_masks: tuple[int, ...],
        inbounds: tuple[bool, ...],
    ):
        self.memory = memory
        self.storage = storage
        self.tile_dims = cut.tile_dims
        self.view_slot = view_slot
        self.index_slots = index_slots
        self.sparse_dim = cut.sparse_dim
        self.is_box = self.sparse_dim is None and not storage.packed
        # The results of ``_prepare`` for this view.
        self._view: TensorView | None = None
        self._whole: list[tuple[int, int, int, int]] = []
        self._reach_bytes = 0
        self._byte_strides: tuple[int, ...] = ()
        self.groups = cut.groups or (1,) * len(index_slots)
        promised = inbounds or (False,) * len(index_slots)
        self._walk: tuple[tuple[int, int, int, int, int, bool], ...] = tuple(
            zip(
                index_slots,
                index_masks,
                cut.dim_map,
                cut.steps,
                self.tile_dims,
                promised,
                strict=True,
            )
        )

    def box(self, regs: Registers, *, write: bool = False) -> StridedElements:
        """Return the in-bounds elements of the tile, as strides over the memory of the view.

        Raises ``Fault`` as ``lanes`` does, and for memory that may not be accessed in this way.
        """
        view: TensorView = regs[self.view_slot]
        if view is not self._view:
            self._prepare(view)
        address = view.base
        for slot, mask, last_whole, byte_step in self._whole:
            start = regs[slot].item() & mask
            if start > last_whole:
                return self._cut_box(regs, view, write)
            address += start * byte_step
        size = self.storage.size
        allocation = self.memory.find(address, self._reach_bytes, size, write=write)
        return StridedElements(
            allocation, address - allocation.base, self.tile_dims, self._byte_strides, None
        )

    def _prepare(self, view: TensorView) -> None:
        """Compute what all fully in-bounds tiles of a view have in common."""
        size = self.storage.size
        reach = furthest = 0
        whole: list[tuple[int, int, int, int]] = []
        for slot, mask, dim, step, extent, _ in self._walk:
            stride, last_whole = view.strides[dim], (view.shape[dim] - extent) // step
            reach += (extent - 1) * stride
            furthest += (extent - 1 + last_whole * step) * stride
            whole.append((slot, mask, last_whole, step * stride * size))
        if max(furthest, *view.shape, 0) > _MAX_ELEMENT_NUMBER:
            whole = [(slot, mask, -1, 0) for slot, mask, _, _ in whole]
        self._view, self._whole = view, whole
        self._reach_bytes = (reach + 1) * size
        self._byte_strides = tuple(
            view.strides[dim] * size if extent > 1 else 0 for _, _, dim, _, extent, _ in self._walk
        )

    def _cut_box(self, regs: Registers, view: TensorView, write: bool) -> StridedElements:
        """Like ``box``, for a tile that may be partly out of bounds. Faults if that is not allowed."""
        shape, strides = view.shape, view.strides
        size = self.storage.size
        first = last = 0
        extents: list[int] = []
        byte_strides: list[int] = []
        whole = True
        for position, (slot, mask, dim, step, extent, promised) in enumerate(self._walk):
            start = (regs[slot].item() & mask) * step
            left = shape[dim] - start
            if left > 0 and start + extent > _MAX_ELEMENT_NUMBER:
                raise self._too_far(start + extent)
            if left < extent:
                if promised or not self._is_valid(position, start, step, shape[dim]):
                    raise self._outside(view, position, start // step, left)
                extent = max(left, 0)
                whole = False
            stride = strides[dim]
            first += start * stride
            last += (extent - 1) * stride
            extents.append(extent)
            byte_strides.append(stride * size if extent > 1 else 0)
        if not all(extents):
            # A tile of a group that begins in bounds, itself outside of them.
            first = last = 0
        last += first
        if last > _MAX_ELEMENT_NUMBER:
            raise self._too_far(last)
        address = view.base + first * size
        allocation = self.memory.find(address, (last - first + 1) * size, size, write=write)
        return StridedElements(
            allocation,
            address - allocation.base,
            tuple(extents),
            tuple(byte_strides),
            None if whole else tuple([slice(extent) for extent in extents]),
        )

    @property
    def is_dense(self) -> bool:
        """Whether the tile covers everything between its first and last index in each dimension."""
        return self.sparse_dim is None

    def reach(self, regs: Registers) -> tuple[tuple[int, int], ...]:
        """Return the half-open index range of the tile in each dimension of the tensor, even out of
        bounds. Given a tile of indices, the range from the lowest to the highest."""
        view: TensorView = regs[self.view_slot]
        ranges = [(0, extent) for extent in view.shape]
        for position, (slot, mask, dim, step, extent, _) in enumerate(self._walk):
            if position == self.sparse_dim:
                entries = as_numbers(regs[slot], "unsigned")
                ranges[dim] = int(entries.min()), int(entries.max()) + 1
            else:
                start = (regs[slot].item() & mask) * step
                ranges[dim] = start, start + extent
        return tuple(ranges)

    def _is_valid(self, position: int, start: int, step: int, size: int) -> bool:
        """Whether the first tile of the group of a tile that starts at an element begins in bounds."""
        group = self.groups[position] * step
        return start // group * group < size

    def _outside(self, view: TensorView, position: int, index: int, left: int) -> Fault:
        _, _, dim, step, extent, _ = self._walk[position]
        if left > 0:
            return Fault(
                INBOUNDS_BROKEN,
                f"the access is marked inbounds along dimension {position}, but only {left} of the "
                f"tile's {extent} elements are in the tensor, whose extent is {view.shape[dim]}",
            )
        group = self.groups[position]
        count = -(-view.shape[dim] // (step * group)) * group
        return Fault(
            OUTSIDE_INDEX_SPACE,
            f"index {index} of dimension {position} lies outside the index space, [0, {count})",
        )

    @staticmethod
    def _too_far(element: int) -> Fault:
        return Fault(
            INVALID_ADDRESS, f"the element number {element} in the tensor is larger than 2**63 - 1"
        )

    def lanes(self, regs: Registers) -> tuple[Array, Array | None]:
        """Return the element number of every element of the tile (int64), and a mask of those in bounds.

        Both have the shape of the tile; numbers are offsets from the view's base, in elements. The mask is None if
        all are in bounds. Numbers of elements out of bounds are 0. Raises ``Fault`` for an index outside of the index
        space, for elements out of bounds where the kernel promises that there are none, and for numbers beyond 64
        bits.
        """
        view: TensorView = regs[self.view_slot]
        rank = len(self.tile_dims)
        numbers = np.zeros((1,) * rank, np.int64)
        inside: Array | None = None
        furthest = 0
        for position, (slot, mask, dim, step, extent, promised) in enumerate(self._walk):
            size, stride = view.shape[dim], view.strides[dim]
            if position == self.sparse_dim:
                entries = as_numbers(regs[slot], "unsigned").astype(np.uint64)
                valid = np.asarray(entries < size)
                if (furthest_entry := int(entries[valid].max(initial=0))) > _MAX_ELEMENT_NUMBER:
                    raise self._too_far(furthest_entry)
                coordinates = np.where(valid, entries, np.uint64(0)).astype(np.int64)
            else:
                start = (regs[slot].item() & mask) * step
                if start >= size and not self._is_valid(position, start, step, size):
                    raise self._outside(view, position, start // step, size - start)
                if start + extent > _MAX_ELEMENT_NUMBER:
                    raise self._too_far(start + extent)
                coordinates = start + np.arange(extent, dtype=np.int64)
                valid = np.asarray(coordinates < size)
                coordinates = np.where(valid, coordinates, 0)
            if not valid.all():
                if promised:
                    raise self._outside(view, position, 0, int(valid.sum()) or 1)
                column = valid.reshape(self._column(position))
                inside = column if inside is None else inside & column
            highest = int(coordinates.max())
            furthest += highest * stride
            if furthest > _MAX_ELEMENT_NUMBER:
                raise self._too_far(furthest)
            if highest:
                numbers = numbers + (coordinates * stride).reshape(self._column(position))
        numbers = np.broadcast_to(numbers, self.tile_dims)
        if inside is None:
            return numbers, None
        inside = np.broadcast_to(inside, self.tile_dims)
        return np.where(inside, numbers, 0), inside

    def _column(self, position: int) -> tuple[int, ...]:
        rank = len(self.tile_dims)
        return tuple(-1 if dim == position else 1 for dim in range(rank))

    def addresses(self, regs: Registers) -> tuple[Array, Array | None]:
        """Return the address of every element (uint64), and a mask of those in bounds. Whole bytes only.

        Both have the shape of the tile; the mask is None if all are. Raises ``Fault`` as ``lanes`` does.
        """
        numbers, inside = self.lanes(regs)
        base = np.uint64(regs[self.view_slot].base)
        return base + numbers.astype(np.uint64) * np.uint64(self.storage.size), inside

    def load_lanes(self, regs: Registers, padding: Array) -> Array:
        """Return the raw elements, with ``padding`` for those out of bounds, in a new array of the tile's shape.

        Raises ``Fault`` as ``lanes`` does, and for memory that may not be read.
        """
        if self.storage.packed:
            return self._load_packed(regs, padding)
        addresses, inside = self.addresses(regs)
        if inside is None:
            return self.memory.load(addresses, self.storage)
        raw = padding.copy()
        raw[inside] = self.memory.load(addresses[inside], self.storage)
        return raw

    def store_lanes(self, regs: Registers, raw: Array) -> None:
        """Write the raw elements that are in bounds. ``raw`` has the tile's shape. Raises ``Fault`` as ``lanes``
        does, and for memory that may not be written.
        """
        if self.storage.packed:
            self._store_packed(regs, raw)
            return
        addresses, inside = self.addresses(regs)
        if inside is None:
            self.memory.store(addresses, self.storage, raw)
        else:
            self.memory.store(addresses[inside], self.storage, raw[inside])

    def _packed_lanes(self, regs: Registers) -> tuple[Array, Array, Array]:
        """Return byte address, whether in the high bits, and lane of each in-bounds element."""
        numbers, inside = self.lanes(regs)
        lanes = np.ones(self.tile_dims, np.bool_) if inside is None else inside
        chosen = numbers[lanes]
        addresses = np.uint64(regs[self.view_slot].base) + (chosen >> 1).astype(np.uint64)
        return addresses, (chosen & 1).astype(np.bool_), lanes

    def _load_packed(self, regs: Registers, padding: Array) -> Array:
        addresses, high, lanes = self._packed_lanes(regs)
        data = self.memory.load(addresses, self.storage)
        raw = padding.copy()
        raw[lanes] = np.where(high, data >> 4, data & 0x0F)
        return raw

    def _store_packed(self, regs: Registers, raw: Array) -> None:
        addresses, high, lanes = self._packed_lanes(regs)
        values = raw[lanes] & 0x0F
        # The two elements of a byte must not both be written from one read of it.
        for half, shift, kept in ((~high, 0, 0xF0), (high, 4, 0x0F)):
            some = addresses[half]
            data = self.memory.load(some, self.storage) & np.uint8(kept)
            self.memory.store(some, self.storage, data | (values[half] << np.uint8(shift)))
