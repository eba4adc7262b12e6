"""Tensor maps: the record that the driver encodes, its rules, and boxes of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.simulator import codes
from tilewright.simulator.faults import Fault

if TYPE_CHECKING:
    from tilewright.dialects.nvgpu.types import TensorMapDescriptorType
    from tilewright.numerics.arrays import Array
    from tilewright.simulator.values import Element

MAX_RANK, MAX_BOX, ALIGNMENT = 5, 256, 16
_ROW_LIMITS = {"swizzle_32b": 32, "swizzle_64b": 64, "swizzle_128b": 128}


@dataclass(frozen=True, slots=True, eq=False)
class TensorMap:
    """How boxes of a tensor are copied. Dimensions of ``tensor`` and ``box`` are outermost first.

    ``tensor`` is the memory itself, which copies read and write; ``box`` is in elements. ``swizzle`` and ``oob`` are
    the keywords of the type: how rows lie in shared memory, and what is read outside of the tensor (``zero``, else
    NaN). What one may be is the rule of CUDA's ``cuTensorMapEncodeTiled``, which :func:`encode` checks.
    """

    tensor: Array
    box: tuple[int, ...]
    swizzle: str = "none"
    oob: str = "zero"

    @property
    def box_bytes(self) -> int:
        """The bytes of one copy, including parts of the box outside of the tensor."""
        return prod(self.box) * self.tensor.itemsize

    def _overlap(self, corner: Sequence[int]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """The part of a box inside the tensor, as slices of the tensor and of the box."""
        inside: list[slice] = []
        part: list[slice] = []
        for start, extent, size in zip(corner, self.box, self.tensor.shape):
            low, high = max(start, 0), min(start + extent, size)
            high = max(low, high)
            inside.append(slice(low, high))
            part.append(slice(low - start, high - start))
        return tuple(inside), tuple(part)

    def part(self, corner: Sequence[int]) -> Array:
        """The part of the tensor inside the box, a view. ``corner`` is the first element of the box in each
        dimension; it may be negative.
        """
        return self.tensor[self._overlap(corner)[0]]

    def load(self, corner: Sequence[int]) -> Array:
        """A box, filled outside of the tensor: a new array of shape ``box``, with the tensor's dtype."""
        dtype = self.tensor.dtype
        fill: Any = 0 if self.oob == "zero" else np.nan
        box = np.full(self.box, fill, dtype) if fill else np.zeros(self.box, dtype)
        inside, part = self._overlap(corner)
        box[part] = self.tensor[inside]
        return box

    def store(self, corner: Sequence[int], box: Array) -> None:
        """Store the part of a box that is inside the tensor; ``box`` has the shape of the map's boxes."""
        inside, part = self._overlap(corner)
        self.tensor[inside] = box[part]


def encode(array: Array, ty: TensorMapDescriptorType, element: Element, name: str) -> TensorMap:
    """Encode a tensor map for an array. Raises ``Fault`` if the driver would refuse it."""
    box, swizzle = tuple(ty.tensor.get_shape()), ty.swizzle.keyword
    problem = _problem(array, box, swizzle, ty.oob.keyword, element)
    if problem:
        raise Fault(codes.TENSOR_MAP, f"the tensor map for parameter '{name}': {problem}")
    return TensorMap(array, box, swizzle, ty.oob.keyword)


def _problem(array: Array, box: tuple[int, ...], swizzle: str, oob: str, element: Element) -> str:
    """The rule of the driver that is violated, or an empty string."""
    size = array.itemsize
    if not 1 <= array.ndim <= MAX_RANK or array.ndim != len(box):
        return f"expected a tensor of rank {len(box)}, got rank {array.ndim}"
    if element.bits < 8:
        return f"no tensor map has elements of {element.bits} bits; use bytes"
    if array.dtype != element.dtype:
        return f"expected elements of {element.dtype}, got {array.dtype}"
    if 0 in array.shape:
        return f"the tensor is empty: {array.shape}"
    if array.ctypes.data % ALIGNMENT:
        return f"the address of the tensor is not a multiple of {ALIGNMENT}"
    if array.shape[-1] > 1 and array.strides[-1] != size:
        return "elements of the last dimension do not lie side by side"
    for stride in array.strides[:-1]:
        if stride % ALIGNMENT or stride <= 0:
            return f"strides must be multiples of {ALIGNMENT} bytes, got {stride}"
    if any(not 1 <= extent <= MAX_BOX for extent in box):
        return f"extents of a box are from 1 to {MAX_BOX}, got {box}"
    row = box[-1] * size
    if row % ALIGNMENT:
        return f"rows of the box must be multiples of {ALIGNMENT} bytes, got {row}"
    if row > _ROW_LIMITS.get(swizzle, row):
        return f"rows of a box with {swizzle} have at most {_ROW_LIMITS[swizzle]} bytes, got {row}"
    if oob == "nan" and not element.is_float:
        return "only floats can be filled with NaN"
    return ""
