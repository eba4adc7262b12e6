"""Translates addresses into elements of a launch's arguments."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.launching.modules import KernelOp
from tilewright.machine.memory import Allocation
from tilewright.numerics.arrays import Array, is_array

Box = tuple[tuple[int, int], ...]
"""Half-open index ranges, one for each dimension of a tensor."""

_MAX_RUNS = 4096
_MAX_BOXES = 64
# An access counts as missing a tensor only up to this many of the tensor's sizes away.
_MAX_STRAY = 16


@dataclass(frozen=True, slots=True)
class Elements:
    """A set of elements of a tensor: the union of disjoint ``boxes``.

    ``tensor`` is the name of a parameter, such as ``%out``, or of other memory, which counts as one
    dimension of elements of the access size. Boxes may exceed the ``shape``. If the elements are too
    scattered, there is a single bounding box, and ``is_exact`` is False.
    """

    tensor: str
    shape: tuple[int, ...]
    boxes: tuple[Box, ...]
    is_exact: bool = True

    @property
    def bounds(self) -> Box:
        """The bounding box of all boxes."""
        return bounds_of(self.boxes)

    @property
    def outside(self) -> tuple[Box, ...]:
        """The parts of the boxes that are out of bounds."""
        return tuple(part for box in self.boxes for part in outside_of(box, self.shape))

    def to_json(self) -> dict[str, object]:
        """Return the fields, and the bounds as ``ranges``, as JSON values."""
        return {
            "tensor": self.tensor,
            "shape": list(self.shape),
            "ranges": box_json(self.bounds),
            "boxes": [box_json(box) for box in self.boxes],
            "exact": self.is_exact,
        }

    def __str__(self) -> str:
        """Return ``%out[96:128, 0:64]``, or ``elements 0:16 of alloca memory`` for other memory."""
        if not self.shape:
            return self.tensor
        ranges = format_box(self.bounds)
        return (
            f"elements {ranges} of {self.tensor}"
            if " " in self.tensor
            else f"{self.tensor}[{ranges}]"
        )


def format_box(box: Box) -> str:
    """Format a box as ``96:128, 0:64``; a range of one element is its index."""
    return ", ".join(str(first) if end == first + 1 else f"{first}:{end}" for first, end in box)


def box_json(box: Box) -> list[list[int]]:
    """Return a box as lists ``[first, end]``, one for each dimension."""
    return [list(extent) for extent in box]


def bounds_of(boxes: Sequence[Box]) -> Box:
    """Return the bounding box of all boxes."""
    return tuple(
        (min(first for first, _ in ranges), max(end for _, end in ranges))
        for ranges in zip(*boxes, strict=True)
    )


def outside_of(box: Box, shape: tuple[int, ...]) -> list[Box]:
    """Return the disjoint parts of a box that are out of bounds of a tensor of that shape."""
    parts: list[Box] = []
    inner = list(box)
    for axis, ((first, end), extent) in enumerate(zip(box, shape, strict=True)):
        for low, high in ((first, min(end, 0)), (max(first, extent), end)):
            if low < high:
                parts.append((*inner[:axis], (low, high), *box[axis + 1 :]))
        inner[axis] = (max(first, 0), min(end, extent))
        if inner[axis][0] >= inner[axis][1]:
            break
    return parts


def boxes_of(coordinates: Array) -> tuple[tuple[Box, ...], bool]:
    """Cover elements exactly with a few boxes if possible, else by their bounding box.

    ``coordinates`` has a row for each element, at least one; rows may repeat. Also returns whether
    the boxes are exact.
    """
    points = np.unique(coordinates, axis=0)
    count, rank = points.shape
    around: Box = tuple(
        (int(low), int(high) + 1)
        for low, high in zip(points.min(axis=0), points.max(axis=0), strict=True)
    )
    if rank == 0 or math.prod(end - first for first, end in around) == count:
        return (around,), True
    steps = np.diff(points, axis=0)
    starts = np.flatnonzero(np.r_[True, (steps[:, -1] != 1) | steps[:, :-1].any(axis=1)])
    if starts.size > _MAX_RUNS:
        return (around,), False
    ends = np.r_[starts[1:], count] - 1
    boxes: list[Box] = [
        tuple((first, last + 1) for first, last in zip(*run, strict=True))
        for run in zip(points[starts].tolist(), points[ends].tolist(), strict=True)
    ]
    for axis in reversed(range(rank - 1)):
        boxes = _merged(boxes, axis)
    return (tuple(boxes), True) if len(boxes) <= _MAX_BOXES else ((around,), False)


def _merged(boxes: Iterable[Box], axis: int) -> list[Box]:
    """Merge boxes that are consecutive along an axis and equal in all others."""
    ranges: dict[Box, list[tuple[int, int]]] = {}
    for box in boxes:
        found = ranges.setdefault((*box[:axis], *box[axis + 1 :]), [])
        first, end = box[axis]
        if found and found[-1][1] == first:
            found[-1] = found[-1][0], end
        else:
            found.append((first, end))
    return [
        (*others[:axis], extent, *others[axis:])
        for others, extents in ranges.items()
        for extent in extents
    ]


def coordinates_in(array: Array, addresses: Array) -> Array | None:
    """Return the indices (a row each) of the elements at host addresses; None if any is outside.

    The result is (addresses, axes), of int64. Addresses are in bytes, and may be inside of an element. None also for
    arrays with strides that are not positive.
    """
    left = addresses.astype(np.int64) - int(array.__array_interface__["data"][0])
    if (left < 0).any():
        return None
    found = np.zeros((left.size, array.ndim), np.int64)
    # The stride of a dimension of extent 1 is meaningless.
    long = [axis for axis, extent in enumerate(array.shape) if extent != 1]
    for axis in sorted(long, key=lambda a: -array.strides[a]):
        stride, extent = array.strides[axis], array.shape[axis]
        if stride <= 0:
            return None
        index = left // stride
        left = left - index * stride
        if (index >= extent).any():
            return None
        found[:, axis] = index
    return None if (left >= array.itemsize).any() else found


def _stray_coordinates(numbers: Array, shape: tuple[int, ...]) -> Array:
    """Return indices for element numbers that may be negative or too large; only the first dimension
    is exceeded."""
    found = np.zeros((numbers.size, len(shape)), np.int64)
    for axis in reversed(range(1, len(shape))):
        numbers, found[:, axis] = np.divmod(numbers, shape[axis])
    found[:, 0] = numbers
    return found


def names_of_parameters(entry: KernelOp) -> tuple[str, ...]:
    """Return ``%name`` if the text has a name, else ``argument 2``."""
    return tuple(
        f"%{parameter.name_hint}" if parameter.name_hint else f"argument {number}"
        for number, parameter in enumerate(entry.block.args)
    )


@dataclass(frozen=True, slots=True)
class ArrayNames:
    """The array arguments of a launch, by parameter name."""

    arrays: tuple[tuple[str, Array], ...] = ()

    @classmethod
    def of_launch(cls, entry: KernelOp | None, args: Sequence[object]) -> ArrayNames:
        """Return the arguments that are arrays; scalars have no address."""
        names = () if entry is None else names_of_parameters(entry)
        found = zip(names, args, strict=False)
        return cls(tuple((name, arg) for name, arg in found if is_array(arg)))

    def locate(self, allocation: Allocation, offsets: Array, size: int) -> Elements:
        """Return the elements at byte offsets in an allocation, for accesses of ``size`` bytes.

        Memory that is no array argument counts as a row of elements of that size.
        """
        offsets = np.asarray(offsets).ravel()
        host = int(allocation.buffer.__array_interface__["data"][0]) + offsets
        for name, array in self.arrays:
            starts = host
            if 0 < array.itemsize < size:
                starts = (host[:, None] + np.arange(0, size, array.itemsize)).ravel()
            coordinates = coordinates_in(array, starts)
            if coordinates is not None:
                return Elements(name, array.shape, *boxes_of(coordinates))
        return Elements(
            allocation.name,
            (allocation.buffer.size // size,),
            *boxes_of((offsets // size)[:, None]),
        )

    def locate_stray(self, allocation: Allocation, addresses: Array, size: int) -> Elements | None:
        """Like :meth:`locate`, for machine addresses some of which are outside the allocation.

        Element numbers are extrapolated, accesses are of ``size`` bytes; in an array, only the first dimension is
        exceeded. Returns None if that is meaningless: the addresses are far away, or the array is not row-major.
        """
        host = int(allocation.buffer.__array_interface__["data"][0])
        name, shape, start, itemsize = (
            allocation.name, (allocation.buffer.size // size,), allocation.base, size
        )  # fmt: skip
        for candidate, array in self.arrays:
            first = int(array.__array_interface__["data"][0])
            if host <= first < host + allocation.buffer.size:
                if not array.flags.c_contiguous or not array.ndim:
                    return None
                name, shape, itemsize = candidate, array.shape, array.itemsize
                start = allocation.base + first - host
                break
        count = math.prod(shape)
        low, high = int(addresses.min()) - start, int(addresses.max()) - start
        reach = itemsize * max(count, 64) * _MAX_STRAY
        if count == 0 or low < -reach or high > reach:
            return None
        numbers = (addresses.astype(np.uint64) - np.uint64(start)).astype(np.int64) // itemsize
        return Elements(name, shape, *boxes_of(_stray_coordinates(numbers, shape)))
