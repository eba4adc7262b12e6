"""Tensor maps that a launch encodes from its arguments and passes beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects import builtin as b
from xdsl.dialects.builtin import MemRefType

from tilewright.dialects.nvgpu.types import TensorMapDescriptorType
from tilewright.lowering.nvgpu.types import FLOATS, SHARED_SPACE
from tilewright.numerics.arrays import Array

#: Limits of tensor maps: alignment of the address and of strides, and the exclusive bounds of strides (bytes) and
#: extents.
_ALIGNMENT, _MAX_STRIDE, _MAX_EXTENT = 16, 1 << 40, 1 << 32

#: The element types of boxes, by their name in records.
_ELEMENTS = {
    str(ty): ty for ty in (*FLOATS.values(), *(b.IntegerType(width) for width in (8, 16, 32, 64)))
}


@dataclass(frozen=True, slots=True)
class Argument:
    """The value of the kernel's argument at ``position``."""

    position: int


Number = int | Argument


@dataclass(frozen=True, slots=True)
class TensorMapPlan:
    """A tensor map, of type ``type``, that a launch encodes and passes after the kernel's own arguments.

    ``array`` is the position of the argument with the array's address. Extents and strides are in elements, slowest
    axis first.
    """

    type: TensorMapDescriptorType
    array: int
    extents: tuple[Number, ...]
    strides: tuple[Number, ...]

    def numbers(self, values: Sequence[object]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Extents and strides for the values of a launch's arguments, in elements, slowest axis first."""

        def number(given: Number) -> int:
            held = values[given.position] if isinstance(given, Argument) else given
            return int(held)  # pyright: ignore[reportArgumentType]

        return tuple(map(number, self.extents)), tuple(map(number, self.strides))

    def as_record(self) -> dict[str, Any]:
        """The plan as a JSON record, for ``of_record``."""
        numbers = [
            [{"argument": n.position} if isinstance(n, Argument) else n for n in held]
            for held in (self.extents, self.strides)
        ]
        element, box = str(self.type.tensor.element_type), list(self.type.tensor.get_shape())
        return {
            "array": self.array,
            "extents": numbers[0],
            "strides": numbers[1],
            "element": element,
            "box": box,
            "swizzle": self.type.swizzle.keyword,
        }

    @staticmethod
    def of_record(record: Mapping[str, Any]) -> TensorMapPlan:
        """The plan of a record by ``as_record``."""
        extents, strides = (
            tuple(Argument(n["argument"]) if isinstance(n, dict) else n for n in record[name])
            for name in ("extents", "strides")
        )
        box = MemRefType(_ELEMENTS[record["element"]], record["box"], memory_space=SHARED_SPACE)
        ty = TensorMapDescriptorType(box, record["swizzle"])
        return TensorMapPlan(ty, record["array"], extents, strides)

    def view(self, arrays: Mapping[int, Array], values: Sequence[object]) -> Array | None:
        """The part of the argument's memory that the map covers, as an array.

        None if no map can describe it: it is empty, misaligned, exceeds a limit, or exceeds the argument's memory.
        """
        array = arrays.get(self.array)
        if array is None:
            return None

        extents, steps = self.numbers(values)
        strides = tuple(step * array.itemsize for step in steps)
        if any(not 0 < extent < _MAX_EXTENT for extent in extents):
            return None
        if array.ctypes.data % _ALIGNMENT or not array.flags.c_contiguous:
            return None
        if any(stride % _ALIGNMENT or not 0 < stride < _MAX_STRIDE for stride in strides[:-1]):
            return None
        last = sum((n - 1) * stride for n, stride in zip(extents, strides, strict=True))
        if last + array.itemsize > array.nbytes or not prod(extents):
            return None
        # NumPy cannot describe floats of one byte, such as f8E5M2, to itself.
        words = array.reshape(-1).view(f"u{array.itemsize}")
        writeable = bool(array.flags.writeable)
        found = np.lib.stride_tricks.as_strided(words, extents, strides, writeable=writeable)
        return found.view(array.dtype)
