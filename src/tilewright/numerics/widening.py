"""Narrow floats as f32 or f64, which represent them exactly.

Results equal NumPy's ``astype`` bit for bit, including NaN payloads. NumPy and ml_dtypes convert most
of these types one element at a time; for all but small tiles, looking bit patterns up in a table of
all values is several times faster.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tilewright.numerics.arrays import Array, dtype_of, unsigned_view

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_8_BITS = ("f8E4M3FN", "f8E5M2", "f8E8M0FNU", "f4E2M1FN")
# Conversions that NumPy vectorises are not listed.
_LOOKED_UP = frozenset(
    {(dtype_of("f16"), _F32)}
    | {(dtype_of(name), wide) for name in _8_BITS for wide in (_F32, _F64)}
)
_MIN_LOOKED_UP = 512
"""The number of elements; smaller tiles are converted faster than looked up."""


@cache
def _values(narrow: np.dtype[Any], wide: np.dtype[Any]) -> Array:
    """Return the value of every bit pattern of a dtype."""
    patterns = np.arange(1 << 8 * narrow.itemsize).astype(f"u{narrow.itemsize}").view(narrow)
    with np.errstate(all="ignore"):
        return patterns.astype(wide)


def _widened(array: Array, wide: np.dtype[Any]) -> Array:
    if array.size >= _MIN_LOOKED_UP and (array.dtype, wide) in _LOOKED_UP:
        return _values(array.dtype, wide).take(unsigned_view(array))
    return array.astype(wide, copy=False)


def as_f32(array: Array) -> Array:
    """Return floats of at most 32 bits as f32, in a new array; the array itself if it is f32. NumPy may warn."""
    return _widened(array, _F32)


def as_f64(array: Array) -> Array:
    """Return floats as f64, in a new array; the array itself if it is f64. NumPy may warn."""
    return _widened(array, _F64)
