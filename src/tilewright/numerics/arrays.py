"""How tiles are represented as NumPy arrays, and converted to and from memory and constant pools.

| Element type | dtype | Representation |
|---|---|---|
| i1 | bool | |
| i4 | int8 | the sign-extended nibble |
| i8 i16 i32 i64 | int8 .. int64 | two's complement; each operation decides on the signedness |
| f16 f32 f64 | float16, float32, float64 | |
| bf16, f8E4M3FN, f8E5M2, f8E8M0FNU, f4E2M1FN | the dtypes of ml_dtypes | f4: one byte each |
| tf32 | float32 | the low 13 mantissa bits are zero |
| f8E5M3FNU | uint8 | the bit pattern |
| ptr | uint64 | the address |
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeGuard

import ml_dtypes
import numpy as np

from tilewright.diagnostics import SourceLocation, TileIRError, define_code
from tilewright.numerics.element_types import FORMATS

Array = np.ndarray[Any, np.dtype[Any]]
"""A tile, of any rank and dtype."""


def is_array(value: object) -> TypeGuard[Array]:
    """Whether a value is a NumPy array; NumPy scalars are not."""
    return isinstance(value, np.ndarray)


def is_numpy(value: object) -> TypeGuard[Array | np.generic[Any]]:
    """Whether a value is a NumPy array or a NumPy scalar."""
    return isinstance(value, np.ndarray | np.generic)


CONSTANT_DATA_SIZE = define_code(
    "constant-data-size",
    "the data of a constant does not have the size of its type",
    "Constant data in bytecode hold either one element, which fills the whole tile, or exactly as "
    "many elements as the tile has. An i1 element takes one bit, an f4E2M1FN element one byte, a "
    "tf32 element three bytes.",
)

PTR = "ptr"
"""The element name of pointers in this package, whatever their pointee."""

_DTYPES: Mapping[str, np.dtype[Any]] = MappingProxyType(
    {
        "i1": np.dtype(np.bool_),
        "i4": np.dtype(np.int8),
        "i8": np.dtype(np.int8),
        "i16": np.dtype(np.int16),
        "i32": np.dtype(np.int32),
        "i64": np.dtype(np.int64),
        "f16": np.dtype(np.float16),
        "bf16": np.dtype(ml_dtypes.bfloat16),
        "f32": np.dtype(np.float32),
        "tf32": np.dtype(np.float32),
        "f64": np.dtype(np.float64),
        "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
        "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
        "f8E8M0FNU": np.dtype(ml_dtypes.float8_e8m0fnu),
        "f4E2M1FN": np.dtype(ml_dtypes.float4_e2m1fn),
        "f8E5M3FNU": np.dtype(np.uint8),
        PTR: np.dtype(np.uint64),
    }
)

_UNSIGNED = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
}

# tf32 is the high part of an f32.
_TF32_SHIFT = FORMATS["f32"].mantissa_bits - FORMATS["tf32"].mantissa_bits
_TF32_MASK = np.uint32(0xFFFFFFFF << _TF32_SHIFT & 0xFFFFFFFF)


def dtype_of(element: str) -> np.dtype[Any]:
    """Return the dtype of elements of this type; ``ptr`` for pointers. Raises KeyError for a name that is none."""
    return _DTYPES[element]


def unsigned_view(array: Array) -> Array:
    """Return the same memory viewed as unsigned integers of the same size: shared, of the same shape."""
    return array.view(_UNSIGNED[array.dtype.itemsize])


def bits_of(array: Array, element: str) -> Array:
    """Return bit patterns as unsigned integers; 19 bits for tf32, 4 for i4 and f4E2M1FN.

    The result has the shape of the array and its element size. It shares its memory, but for these three types.
    """
    bits = unsigned_view(array)
    if element == "tf32":
        return np.asarray(bits >> _TF32_SHIFT)
    if element in ("i4", "f4E2M1FN"):
        return np.asarray(bits & np.uint8(0x0F))
    return bits


def from_bits(bits: Array, element: str) -> Array:
    """Return the elements with these bit patterns, the inverse of ``bits_of``. Spare bits are dropped.

    ``bits`` is of any unsigned dtype; the result is a new array of its shape.
    """
    dtype = _DTYPES[element]
    if element == "i1":
        return np.asarray(bits & bits.dtype.type(1)).astype(np.bool_)
    if element == "i4":
        nibble = np.asarray(bits.astype(np.uint8) << 4)
        return np.asarray(nibble.view(np.int8) >> 4)
    if element == "tf32":
        return np.asarray(bits.astype(np.uint32) << _TF32_SHIFT).view(dtype)
    if element == "f4E2M1FN":
        return np.asarray(bits.astype(np.uint8) & np.uint8(0x0F)).view(dtype)
    return bits.astype(_UNSIGNED[dtype.itemsize]).view(dtype)


def _unpack_nibbles(data: Array, count: int) -> Array:
    """Return the nibbles of bytes, the low one of each byte first."""
    nibbles = np.empty(2 * data.size, np.uint8)
    nibbles[0::2] = data & 0x0F
    nibbles[1::2] = data >> 4
    return nibbles[:count]


def _pack_nibbles(nibbles: Array) -> Array:
    even, odd = nibbles[0::2], nibbles[1::2]
    packed = even.copy()
    packed[: odd.size] |= odd << 4
    return packed


def from_bytes(data: bytes | bytearray | memoryview | Array, element: str, count: int) -> Array:
    """Read ``count`` elements from little-endian memory into a new rank-1 array.

    Any nonzero byte is a true i1. The spare low bits of a tf32 word are dropped. Of two 4-bit elements
    in a byte, the first is in the low bits. Raises ValueError unless ``data`` has exactly the size of
    the elements.
    """
    raw = np.frombuffer(data, np.uint8)
    expected = 8 * count if element == PTR else FORMATS[element].bytes_for(count)
    if raw.size != expected:
        raise ValueError(f"{count} elements of {element} take {expected} bytes, not {raw.size}")
    if element == "i1":
        return raw != 0
    if element in ("i4", "f4E2M1FN"):
        return from_bits(_unpack_nibbles(raw, count), element)
    array = raw.copy().view(_DTYPES[element])
    if element == "tf32":
        unsigned_view(array)[...] &= _TF32_MASK
    return array


def to_bytes(array: Array, element: str) -> bytes:
    """Return the little-endian memory image of the elements in row-major order.

    If a 4-bit element is left over, the high bits of its byte are zero.
    """
    if element in ("i4", "f4E2M1FN"):
        return _pack_nibbles(bits_of(array.reshape(-1), element)).tobytes()
    return array.tobytes()


def from_constant_bytes(
    data: bytes | memoryview,
    element: str,
    shape: tuple[int, ...],
    location: SourceLocation | None = None,
) -> Array:
    """Return the tile of a bytecode constant: ``data`` holds all elements, or one that fills the tile.

    The result is a new array of shape ``shape`` with the dtype of ``dtype_of(element)``. ``data`` is as the bytecode
    stores it: little-endian, tf32 in 3 bytes, f4E2M1FN one element a byte, i1 eight elements a byte. Raises
    TileIRError (``constant-data-size``) at ``location`` if the size of ``data`` matches neither, ValueError for an
    element type without constants (i4).
    """
    count = int(np.prod(shape, dtype=np.int64))
    raw = np.frombuffer(data, np.uint8)
    size = FORMATS[element].constant_bytes
    if size is None:
        raise ValueError(f"{element} has no constants")
    if size == 0:
        return _i1_from_constant(raw, count, location).reshape(shape)
    if raw.size not in (size, size * count):
        raise TileIRError.single(
            CONSTANT_DATA_SIZE,
            f"a constant of {count} {element} elements has {raw.size} bytes of data; "
            f"expected {size * count}, or {size} for a uniform value",
            location,
        )
    if element == "tf32":
        words = np.zeros((raw.size // 3, 4), np.uint8)
        words[:, :3] = raw.reshape(-1, 3)
        elements = from_bits(words.view("<u4").reshape(-1), element)
    elif element == "f4E2M1FN":
        elements = from_bits(raw, element)
    else:
        elements = raw.copy().view(_DTYPES[element])
    if elements.size != count:
        return np.full(shape, elements[0], elements.dtype)
    return elements.reshape(shape)


def _i1_from_constant(raw: Array, count: int, location: SourceLocation | None) -> Array:
    # A byte of eight equal bits is the uniform form; any other single byte is eight elements.
    if raw.size == 1 and raw[0] in (0x00, 0xFF):
        return np.full(count, raw[0] != 0)
    if raw.size != (count + 7) // 8:
        raise TileIRError.single(
            CONSTANT_DATA_SIZE,
            f"a constant of {count} i1 elements has {raw.size} bytes of data; "
            f"expected {(count + 7) // 8}, or one byte 0x00 or 0xFF for a uniform value",
            location,
        )
    return np.unpackbits(raw, count=count, bitorder="little").astype(np.bool_)
