"""Functions of MLIR's ``math`` that Tile IR lacks, with the error bounds of ``math_ops``.

f32 and narrower floats are computed in f64 and rounded once. Rounding to integers and bit counts are
exact. Special values are those of the C standard.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from tilewright.numerics import int_ops, math_ops
from tilewright.numerics.arrays import Array, dtype_of
from tilewright.numerics.rounding import quiet

_ERF = np.frompyfunc(math.erf, 1, 1)


def _erf(source: Array) -> Array:
    return np.asarray(_ERF(source)).astype(np.float64)


def _round(source: Array) -> Array:
    """Round to the nearest integer, halves away from zero."""
    whole = np.trunc(source)
    # The remainder is exact, unlike a sum with one half.
    moved = np.where(np.abs(source - whole) >= 0.5, whole + np.copysign(1.0, source), whole)
    return np.copysign(moved, source)


_FLOAT64: dict[str, Callable[..., Array]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "copysign": np.copysign,
    "erf": _erf,
    "expm1": np.expm1,
    "log10": np.log10,
    "log1p": np.log1p,
    "round": _round,
    "roundeven": np.rint,
    "trunc": np.trunc,
}


def _rounded_once(function: Callable[..., Array]) -> Callable[..., Array]:
    @quiet
    def evaluate(*arrays: Array) -> Array:
        *sources, element = arrays
        if element == "f64":
            return np.asarray(function(*sources))
        wide = np.asarray(function(*(source.astype(np.float64) for source in sources)))
        # As in ``math_ops``, narrower floats are rounded through f32.
        return wide.astype(np.float32).astype(dtype_of(element), copy=False)  # pyright: ignore[reportArgumentType]

    return evaluate


def _bits(source: Array, element: str) -> list[Array]:
    """Return the bits of integers, lowest first."""
    width = int(element[1:])
    words = int_ops.as_numbers(source, "unsigned").astype(np.uint64)
    return [(words >> np.uint64(place)) & np.uint64(1) != 0 for place in range(width)]


def _run_of_zeros(bits: list[Array]) -> Array:
    """Return the number of leading zeros in a list of bits."""
    count = np.zeros(bits[0].shape, np.int64)
    open_ = np.ones(bits[0].shape, np.bool_)
    for bit in bits:
        open_ &= ~bit
        count += open_
    return count


def ctlz(source: Array, element: str) -> Array:
    """The number of leading zero bits; the width for 0. In the type of ``source``: an i1 holds it modulo 2."""
    return _as_count(_run_of_zeros(_bits(source, element)[::-1]), source)


def cttz(source: Array, element: str) -> Array:
    """The number of trailing zero bits; the width for 0. In the type of ``source``: an i1 holds it modulo 2."""
    return _as_count(_run_of_zeros(_bits(source, element)), source)


def ctpop(source: Array, element: str) -> Array:
    """The number of one bits, in the type of ``source``."""
    total = np.zeros(source.shape, np.int64)
    for bit in _bits(source, element):
        total += bit
    return _as_count(total, source)


def _as_count(count: Array, source: Array) -> Array:
    if source.dtype == np.bool_:
        return count & 1 != 0
    return count.astype(source.dtype)


def ipowi(source: Array, exponent: Array, element: str) -> Array:
    """``source`` to an integer power, modulo 2**N; truncated towards zero for negative exponents.

    0 to a negative power is undefined; the result here is 0.
    """
    powers = int_ops.as_numbers(exponent, "signed").astype(np.int64)
    one = np.ones_like(source)
    result, square, rest = one, source, np.abs(powers).astype(np.uint64)
    while rest.any():
        result = np.where(rest & np.uint64(1) != 0, int_ops.muli(result, square, element), result)
        square = int_ops.muli(square, square, element)
        rest = rest >> np.uint64(1)
    # Only 1 and -1 have integer reciprocals, which are themselves.
    base = int_ops.as_numbers(source, "signed")
    return np.where((powers >= 0) | (np.abs(base) == 1), result, np.zeros_like(source))


#: The functions by mnemonic, without the prefix ``math.``.
FURTHER: Mapping[str, Callable[..., Array]] = MappingProxyType(
    {
        **{name: _rounded_once(function) for name, function in _FLOAT64.items()},
        "ctlz": ctlz,
        "ctpop": ctpop,
        "cttz": cttz,
        "fpowi": math_ops.fpowi,
        "ipowi": ipowi,
    }
)
