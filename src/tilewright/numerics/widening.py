"""Narrow floats as f32 or f64, which hold them exactly.

The result is that of NumPy's ``astype`` bit for bit, NaN payloads included. NumPy and ml_dtypes
convert most of these types one element after the other; looking the bit patterns up in a table of
all values is several times as fast, once a tile is larger than what the call itself costs.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tilewright.numerics.arrays import Array, dtype_of, unsigned_view

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_8_BITS = ("f8E4M3FN", "f8E5M2", "f8E8M0FNU", "f4E2M1FN")
# Conversions that NumPy vectorises are absent.
_LOOKED_UP = frozenset(
    {(dtype_of("f16"), _F32)}
    | {(dtype_of(name), wide) for name in _8_BITS for wide in (_F32, _F64)}
)
_MIN_LOOKED_UP = 512
"""Elements; smaller tiles are converted faster than looked up."""


@cache
def _values(narrow: np.dtype[Any], wide: np.dtype[Any]) -> Array:
    """What every bit pattern of a dtype stands for."""
    patterns = np.arange(1 << 8 * narrow.itemsize).astype(f"u{narrow.itemsize}").view(narrow)
    with np.errstate(all="ignore"):
        return patterns.astype(wide)


def _widened(array: Array, wide: np.dtype[Any]) -> Array:
    if array.size >= _MIN_LOOKED_UP and (array.dtype, wide) in _LOOKED_UP:
        return _values(array.dtype, wide).take(unsigned_view(array))
    return array.astype(wide, copy=False)


def as_f32(array: Array) -> Array:
    """Floats of at most 32 bits as f32; the array itself where it is f32. NumPy may warn."""
    return _widened(array, _F32)


def as_f64(array: Array) -> Array:
    """Floats as f64; the array itself where it is f64. NumPy may warn."""
    return _widened(array, _F64)
