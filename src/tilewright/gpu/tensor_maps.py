"""Tensor maps: their encoding for the driver, and its rules, checked beforehand."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatTF32Type,
    IntegerType,
)
from xdsl.ir import Attribute

from tilewright.diagnostics import TileIRError
from tilewright.dialects.nvgpu.types import TensorMapDescriptorType
from tilewright.dialects.upstream.base.shapes import bit_width
from tilewright.gpu.codes import LAUNCH
from tilewright.gpu.device_arrays import DeviceArray

#: The driver's numbers of element types; 8-bit floats are passed as bytes.
_NUMBERS: dict[Attribute, int] = {
    IntegerType(8): 0,
    IntegerType(16): 1,
    IntegerType(32): 3,
    IntegerType(64): 5,
    Float16Type(): 6,
    Float32Type(): 7,
    Float64Type(): 8,
    BFloat16Type(): 9,
    FloatTF32Type(): 11,
}
_BYTES_NUMBER = 0
_ALIGNMENT = 16
_MAX_STRIDE, _MAX_EXTENT = 1 << 40, 1 << 32
_MAX_RANK, _MAX_BOX = 5, 256
#: The longest row of a box, in bytes, by swizzle.
_SWIZZLE_ROWS = {"swizzle_32b": 32, "swizzle_64b": 64, "swizzle_128b": 128}


@dataclass(frozen=True, slots=True)
class MapPlan:
    """The arguments of the driver's call, innermost dimension first; ``strides`` in bytes, without the innermost."""

    element: int
    address: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    interleave: int
    swizzle: int
    l2promo: int
    oob: int


def plan_map(ty: TensorMapDescriptorType, array: DeviceArray, name: str) -> MapPlan:
    """The arguments of the driver's call ``cuTensorMapEncodeTiled``: fastest axis first, strides in bytes.

    Raises ``TileIRError`` (``gpu-launch``) with the rule that the array violates.
    """
    element = ty.tensor.element_type
    size = bit_width(element) // 8
    box = tuple(reversed(ty.tensor.get_shape()))
    number = _NUMBERS.get(element, _BYTES_NUMBER if size == 1 else None)
    strides = tuple(size * stride for stride in reversed(array.strides))[1:]
    row = box[0] * size
    limit = _SWIZZLE_ROWS.get(ty.swizzle.keyword)
    for broken, why in (
        (number is None or not size, "has an element type that tensor maps do not support"),
        (len(array.shape) != len(box), f"takes an array of rank {len(box)}, got {array.shape}"),
        (array.bits != 8 * size, f"takes elements of {8 * size} bits, got {array.bits}"),
        (array.address % _ALIGNMENT, f"takes an array whose address is a multiple of {_ALIGNMENT}"),
        (array.strides[-1:] != (1,), "takes an array whose last dimension is dense"),
        (
            any(s % _ALIGNMENT or not 0 < s < _MAX_STRIDE for s in strides),
            f"takes an array whose row strides are multiples of {_ALIGNMENT} bytes, got {strides}",
        ),
        (not all(array.shape), "takes an array that is not empty"),
        (
            max(array.shape, default=0) > _MAX_EXTENT,
            f"takes extents of at most {_MAX_EXTENT:,}, got {array.shape}",
        ),
        (
            len(box) > _MAX_RANK,
            f"has {len(box)} dimensions, but tensor maps have at most {_MAX_RANK}",
        ),
        (
            max(box, default=1) > _MAX_BOX,
            f"has a box of {ty.tensor.get_shape()}, but a box has at most {_MAX_BOX} elements along an axis",
        ),
        (
            row % _ALIGNMENT,
            f"has a box whose rows of {row} bytes are not a multiple of {_ALIGNMENT}",
        ),
        (limit and row > limit, f"has a box whose rows of {row} bytes do not fit {limit}"),
    ):
        if broken:
            raise TileIRError.single(LAUNCH, f"the tensor map '{name}' {why}")
    assert number is not None
    return MapPlan(
        number,
        array.address,
        tuple(reversed(array.shape)),
        strides,
        box,
        ty.interleave.number,
        ty.swizzle.number,
        ty.l2promo.number,
        ty.oob.number,
    )
