"""Converts Python numbers and NumPy arrays to constants without loss."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.constants import TileConstantAttr, value_to_bits
from tilewright.numerics.arrays import dtype_of
from tilewright.numerics.element_types import FORMATS

#: The element type of each dtype; if several share a dtype, the common one.
_OF_DTYPE = {
    dtype_of(name): name
    for name in reversed([n for n in T.ELEMENT_TYPES if n not in ("tf32", "i4")])
}


def is_number(value: object) -> bool:
    """Whether a value is a number of Python or NumPy, or an array of numbers."""
    return isinstance(value, Real | np.generic | np.ndarray)


def element_of_dtype(dtype: np.dtype[Any]) -> str:
    """Return the element type of an array. Raises ValueError if Tile IR has none."""
    if dtype.kind == "u":
        # Integers have no signedness in Tile IR; the bits are kept.
        dtype = np.dtype(f"i{dtype.itemsize}")
    if (found := _OF_DTYPE.get(dtype)) is None:
        raise ValueError(f"no Tile IR element type corresponds to NumPy's {dtype}")
    return found


def shape_of(value: object) -> tuple[int, ...]:
    """Return the shape of nested lists or of an array, () for a number.

    Of lists the first entry at each depth counts; that the others are as long is not checked.
    """
    if isinstance(value, np.ndarray):
        return value.shape
    if isinstance(value, Sequence) and not isinstance(value, str):
        return (len(value), *(shape_of(value[0]) if value else ()))
    return ()


def constant_attribute(value: Any, ty: T.TileType) -> TileConstantAttr:
    """Return a constant of a type: a number fills it, lists and arrays give its elements in row-major order.

    Raises ValueError for a wrong number of elements, and for numbers that the element type cannot hold:
    fractions and out-of-range values for integers; TypeError for what is no number. Floats are rounded to nearest.
    """
    flat = _flatten(value)
    count = len(flat)
    if count not in (1, ty.element_count):
        raise ValueError(f"{count} numbers do not fill {ty.element_count} elements")
    shape = shape_of(value)
    if isinstance(value, np.ndarray) and count > 1 and shape != ty.dims:
        raise ValueError(
            f"an array of shape {list(shape)} does not match a tile of shape {list(ty.dims)}"
        )
    return TileConstantAttr.from_bits(ty, [element_bits(v, ty.element) for v in flat])


def element_bits(value: Any, element: str) -> int:
    """Return the bits of a number as an element, in the low bits of an int.

    Raises ValueError if the type cannot hold it, TypeError for what is no number. Floats are rounded to nearest even.
    """
    fmt = FORMATS.get(element)
    if fmt is None:
        raise ValueError(f"there are no constants of type {element}")
    if isinstance(value, np.generic):
        value = value.item() if isinstance(value.item(), int | float | bool) else float(value)
    if not isinstance(value, Real):
        raise TypeError(f"expected a number, got {value!r}")
    if fmt.is_int and fmt.bits > 1:
        if not isinstance(value, Integral) and not float(value).is_integer():
            raise ValueError(f"{value} is not an integer, as {element} requires")
        low, high = -(1 << (fmt.bits - 1)), (1 << fmt.bits) - 1
        number: Any = value
        if not low <= number <= high:
            raise ValueError(f"{value} does not fit {element}")
    return value_to_bits(value, element)  # pyright: ignore[reportArgumentType]


def _flatten(value: Any) -> list[Any]:
    if isinstance(value, np.ndarray):
        return list(value.reshape(-1))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [leaf for part in value for leaf in _flatten(part)]
    return [value]
