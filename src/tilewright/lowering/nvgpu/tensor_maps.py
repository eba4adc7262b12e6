"""Tensor maps that a launch makes of its arguments, beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tilewright.dialects.nvgpu.types import TensorMapDescriptorType
from tilewright.numerics.arrays import Array

#: What tensor maps take: strides are multiples of so many bytes below a limit.
_ALIGNMENT, _MAX_STRIDE, _MAX_EXTENT = 16, 1 << 40, 1 << 32


@dataclass(frozen=True, slots=True)
class Argument:
    """The number that is the kernel's argument of this position."""

    position: int


Number = int | Argument


@dataclass(frozen=True, slots=True)
class TensorMapPlan:
    """A parameter behind a kernel's own: the map, of type ``type``, of the array whose address is
    the argument ``array``, with these extents and strides in elements, the slowest axis first."""

    type: TensorMapDescriptorType
    array: int
    extents: tuple[Number, ...]
    strides: tuple[Number, ...]

    def view(self, arrays: Mapping[int, Array], values: Sequence[object]) -> Array | None:
        """The part of the argument's memory that the map is of; None where there can be no map of it: it is
        empty, its rows are not aligned, or the extents leave the argument's memory."""
        array = arrays.get(self.array)
        if array is None:
            return None

        def number(given: Number) -> int:
            held = values[given.position] if isinstance(given, Argument) else given
            return int(held)  # pyright: ignore[reportArgumentType]

        extents = tuple(map(number, self.extents))
        strides = tuple(number(stride) * array.itemsize for stride in self.strides)
        if any(not 0 < extent < _MAX_EXTENT for extent in extents):
            return None
        if array.ctypes.data % _ALIGNMENT or not array.flags.c_contiguous:
            return None
        if any(stride % _ALIGNMENT or not 0 < stride < _MAX_STRIDE for stride in strides[:-1]):
            return None
        last = sum((n - 1) * stride for n, stride in zip(extents, strides, strict=True))
        if last + array.itemsize > array.nbytes or not prod(extents):
            return None
        flat = array.reshape(-1)
        return np.lib.stride_tricks.as_strided(
            flat, extents, strides, writeable=bool(array.flags.writeable)
        )
