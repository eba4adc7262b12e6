"""The representation of each element type in memory, and its conversion to tile elements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tilewright.numerics.arrays import Array, dtype_of
from tilewright.numerics.element_types import FORMATS

_RAW = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16), 4: np.dtype(np.uint32)}
_NATIVE = frozenset({"i8", "i16", "i32", "i64", "f16", "f32", "f64", "f8E5M3FNU"})
_TF32_MASK = np.uint32(0xFFFFE000)


@dataclass(frozen=True, slots=True)
class Storage:
    """The memory representation of an element type: ``raw`` is its dtype, ``size`` its bytes.

    ``to_tile`` converts raw elements to tile elements, ``from_tile`` the reverse. If ``packed``, two elements share a
    byte, the first in its low bits; the functions then take one element per byte.
    """

    element: str
    raw: np.dtype[Any]
    size: int
    shift: np.uint64
    to_tile: Callable[[Array], Array]
    from_tile: Callable[[Array], Array]
    packed: bool = False


def _same(array: Array) -> Array:
    return array


def _bool_from_bytes(raw: Array) -> Array:
    return np.asarray(raw != 0)


def _bytes_from_bool(tile: Array) -> Array:
    return tile.view(np.uint8)


def _tf32_from_words(raw: Array) -> Array:
    return np.asarray(raw & _TF32_MASK).view(np.float32)


def _words_from_tf32(tile: Array) -> Array:
    return tile.view(np.uint32)


@cache
def storage_of(element: str) -> Storage:
    """The representation of a number type that memory can hold."""
    dtype = dtype_of(element)
    fmt = FORMATS[element]
    if fmt.storage_bits < 8:
        raw = np.dtype(np.uint8)
        return Storage(
            element, raw, 1, np.uint64(0), lambda r: r.view(dtype), lambda t: t.view(raw), True
        )
    size = fmt.storage_bytes
    shift = np.uint64(size.bit_length() - 1)
    if element == "i1":
        return Storage(element, _RAW[1], 1, shift, _bool_from_bytes, _bytes_from_bool)
    if element == "tf32":
        return Storage(element, _RAW[4], 4, shift, _tf32_from_words, _words_from_tf32)
    if element in _NATIVE:
        return Storage(element, dtype, size, shift, _same, _same)
    # Moving unsigned integers is several times faster than moving ml_dtypes types.
    raw = _RAW[size]
    return Storage(element, raw, size, shift, lambda r: r.view(dtype), lambda t: t.view(raw))
