"""Element-wise pointer arithmetic. A pointer is a 64-bit address; provenance is not tracked here."""

from __future__ import annotations

import numpy as np

from tilewright.numerics.arrays import Array
from tilewright.numerics.element_types import FORMATS


def offset(pointers: Array, offsets: Array, element: str, *, pointee: str) -> Array:
    """``pointers + offsets * storage bytes of the pointee``, modulo 2**64; offsets are signed and count elements.

    Both have one shape; pointers and the result are uint64. Raises ValueError for a pointee that shares its bytes
    with others (4-bit types).
    """
    stride = np.int64(FORMATS[pointee].storage_bytes)
    numbers = -offsets.view(np.int8) if offsets.dtype == np.bool_ else offsets
    distance = np.asarray(numbers.astype(np.int64) * stride)
    return np.asarray(pointers + distance.view(np.uint64))


def offset_undefined(pointers: Array, offsets: Array, element: str, *, pointee: str) -> Array:
    """Return the lanes where the distance overflows signed 64 bits, or the sum leaves 0 .. 2**64.

    Raises ValueError as ``offset`` does.
    """
    stride = FORMATS[pointee].storage_bytes
    numbers = (-offsets.view(np.int8) if offsets.dtype == np.bool_ else offsets).astype(np.int64)
    limit = (1 << 63) // stride
    too_far = (numbers >= limit) | (numbers < -limit)
    distance = numbers * np.int64(stride)
    moved = offset(pointers, offsets, element, pointee=pointee)
    wrapped = np.where(distance < 0, moved > pointers, moved < pointers)
    return np.asarray(too_far | wrapped)


def ptr_to_int(source: Array, element: str) -> Array:
    """The address as i64 bits: a view of ``source``."""
    return source.view(np.int64)


def int_to_ptr(source: Array, element: str) -> Array:
    """The pointer to an address given as i64 bits: a view of ``source``."""
    return source.view(np.uint64)


def ptr_to_ptr(source: Array, element: str) -> Array:
    """The same address; only the pointee type changes. Returns ``source`` itself."""
    return source
