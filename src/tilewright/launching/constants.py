"""The tiles of constants and initializers, for all attributes that hold them."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
)
from xdsl.ir import Attribute

from tilewright.dialects.cuda_tile.constants import TileConstantAttr, scalar_bits
from tilewright.numerics.arrays import Array, from_bits, from_constant_bytes
from tilewright.numerics.element_types import FORMATS
from tilewright.numerics.floats import float_to_bits


def array_of_constant(constant: TileConstantAttr) -> Array:
    """The tile of a constant, read-only."""
    return array_of_data(constant.data.data, constant.type.element, constant.type.dims)


def array_of_data(data: bytes, element: str, dims: tuple[int, ...]) -> Array:
    """The tile of the elements in ``data``, or of its single element broadcast, read-only; i1 and i4 take one byte
    each.

    The others are as in bytecode (``numerics.arrays.from_constant_bytes``), and so are the errors: TileIRError where
    the size of ``data`` is that of neither.
    """
    if element in ("i1", "i4"):
        raw = np.frombuffer(data, np.uint8)
        bits = raw != 0 if element == "i1" else from_bits(raw, element)
        tile = np.full(dims, bits[0]) if bits.size == 1 else bits.reshape(dims)
    else:
        tile = from_constant_bytes(data, element, dims)
    tile.flags.writeable = False
    return tile


def elements_of(value: Attribute, element: str, dims: tuple[int, ...]) -> Array:
    """The tile of a typed scalar, a dense array or constant elements, read-only; a single element is broadcast.

    It has the shape ``dims`` and the dtype of ``numerics.arrays.dtype_of(element)``.
    """
    data = getattr(value, "data", None)
    if isinstance(value, DenseArrayBase | DenseIntOrFPElementsAttr):
        found = [_bits(number, element) for number in value.iter_values()]  # pyright: ignore[reportArgumentType]
    elif isinstance(value, IntegerAttr | FloatAttr) or data is None:
        found = [_scalar_bits(value, element)]
    else:
        return array_of_data(data.data, element, dims)
    tile = from_bits(np.array(found, np.uint64), element)
    tile = np.full(dims, tile[0], tile.dtype) if tile.size == 1 else tile.reshape(dims)
    tile.flags.writeable = False
    return tile


def _bits(number: float, element: str) -> int:
    fmt = FORMATS[element]
    return float_to_bits(float(number), fmt) if fmt.is_float else int(number) & fmt.mask


def _scalar_bits(value: Attribute, element: str) -> int:
    if isinstance(value, IntegerAttr) and isinstance(value.type, IndexType):
        return _bits(value.value.data, element)
    found = scalar_bits(value)
    assert found is not None, value
    return found[1]
