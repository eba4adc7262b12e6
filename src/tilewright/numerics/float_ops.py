"""Element-wise float arithmetic, rounded once, in every direction that Tile IR has.

Every function takes arrays in the dtypes of ``arrays``, then the element name, then attributes as
keywords, spelled as in Tile IR. Unless stated otherwise, it returns an array of the same element
type. Element types are f16, bf16, f32 and f64.

The NaN that arithmetic produces has an unspecified sign and payload, as in Tile IR; only ``maxf``
and ``minf`` return the canonical NaN. No function warns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from tilewright.numerics import float64_exact
from tilewright.numerics.arrays import Array, dtype_of, from_bits, unsigned_view
from tilewright.numerics.element_types import FORMATS
from tilewright.numerics.floats import Rounding
from tilewright.numerics.int_ops import COMPARISONS
from tilewright.numerics.rounding import quiet, round_float64, round_to_odd, two_product, two_sum

_F32_MIN_NORMAL = np.float32(2.0**-126)


def flush_subnormals(array: Array) -> Array:
    """Return the f32 array with subnormals replaced by zeros of the same sign, in a new array."""
    return np.where(np.abs(array) < _F32_MIN_NORMAL, np.copysign(np.float32(0), array), array)


# Each returns the float64 result closest to the exact one and a value with the sign of the error,
# for operands that are exact in f32 or narrower, so that nothing overflows or underflows.


def _wide_add(lhs: Array, rhs: Array) -> tuple[Array, Array]:
    return two_sum(lhs, rhs)


def _wide_sub(lhs: Array, rhs: Array) -> tuple[Array, Array]:
    return two_sum(lhs, -rhs)


def _wide_mul(lhs: Array, rhs: Array) -> tuple[Array, Array]:
    product = lhs * rhs
    return product, np.zeros_like(product)


def _wide_div(lhs: Array, rhs: Array) -> tuple[Array, Array]:
    quotient = lhs / rhs
    product, error = two_product(quotient, rhs)
    return quotient, ((lhs - product) - error) * np.sign(rhs)


def _wide_sqrt(source: Array) -> tuple[Array, Array]:
    root = np.sqrt(source)
    square, error = two_product(root, root)
    return root, (source - square) - error


def _wide_fma(lhs: Array, rhs: Array, acc: Array) -> tuple[Array, Array]:
    # The product of two 24-bit significands is exact.
    return two_sum(lhs * rhs, acc)


_WIDE: dict[str, Callable[..., tuple[Array, Array]]] = {
    "addf": _wide_add,
    "subf": _wide_sub,
    "mulf": _wide_mul,
    "divf": _wide_div,
    "sqrt": _wide_sqrt,
    "fma": _wide_fma,
}

_NATIVE: dict[str, Callable[..., Array]] = {
    "addf": np.add,
    "subf": np.subtract,
    "mulf": np.multiply,
    "divf": np.divide,
    "sqrt": np.sqrt,
}
"""Operations that NumPy rounds correctly to nearest even in each base float type.

For the half types NumPy computes in f32 and rounds again, which equals one rounding for these
five operations because 24 >= 2 * 11 + 2.
"""

_SIGNED_ZERO_SUMS = {"addf", "subf", "fma"}


def _narrow_rounded(op: str, arrays: tuple[Array, ...], element: str, rounding: Rounding) -> Array:
    """Compute with one rounding in f16, bf16 or f32, through float64 rounded to odd."""
    wide = tuple(array.astype(np.float64) for array in arrays)
    nearest, error = _WIDE[op](*wide)
    exact_enough = round_to_odd(nearest, error)
    if op in _SIGNED_ZERO_SUMS and rounding == "negative_inf":
        exact_enough = float64_exact.cancel_to_negative_zero(exact_enough, op, wide)
    if element == "f32" and rounding == "nearest_even":
        return exact_enough.astype(np.float32)
    return round_float64(exact_enough, element, rounding)


_F32_TIE_MASK = np.int64((1 << 29) - 1)
_F32_TIE = np.int64(1 << 28)


def _fma_f32(arrays: tuple[Array, ...]) -> Array:
    """Round to nearest even. Rounding a float64 sum again is wrong only if it became a tie of f32."""
    lhs, rhs, acc = (array.astype(np.float64) for array in arrays)
    total = np.asarray(lhs * rhs + acc)
    result = total.astype(np.float32)
    doubtful = (total.view(np.int64) & _F32_TIE_MASK) == _F32_TIE
    # Below the normal range ties are at other bits; a zero is exact.
    doubtful |= (np.abs(total) < _F32_MIN_NORMAL) & (total != 0)
    if doubtful.any():
        some = tuple(array[doubtful] for array in arrays)
        result[doubtful] = _narrow_rounded("fma", some, "f32", "nearest_even")
    return result


def _rounded(op: str, arrays: tuple[Array, ...], element: str, rounding: Rounding) -> Array:
    if rounding == "nearest_even":
        if op != "fma":
            return np.asarray(_NATIVE[op](*arrays))
        if element == "f32":
            return _fma_f32(arrays)
    if element == "f64":
        return float64_exact.directed(op, arrays, rounding)
    return _narrow_rounded(op, arrays, element, rounding)


def _arithmetic(
    op: str, arrays: tuple[Array, ...], element: str, rounding: Rounding, flush_to_zero: bool
) -> Array:
    if not flush_to_zero:
        return _rounded(op, arrays, element, rounding)
    flushed = tuple(flush_subnormals(array) for array in arrays)
    return flush_subnormals(_rounded(op, flushed, element, rounding))


@quiet
def addf(
    lhs: Array,
    rhs: Array,
    element: str,
    *,
    rounding: Rounding = "nearest_even",
    flush_to_zero: bool = False,
) -> Array:
    """``lhs + rhs``."""
    return _arithmetic("addf", (lhs, rhs), element, rounding, flush_to_zero)


@quiet
def subf(
    lhs: Array,
    rhs: Array,
    element: str,
    *,
    rounding: Rounding = "nearest_even",
    flush_to_zero: bool = False,
) -> Array:
    """``lhs - rhs``."""
    return _arithmetic("subf", (lhs, rhs), element, rounding, flush_to_zero)


@quiet
def mulf(
    lhs: Array,
    rhs: Array,
    element: str,
    *,
    rounding: Rounding = "nearest_even",
    flush_to_zero: bool = False,
) -> Array:
    """``lhs * rhs``."""
    return _arithmetic("mulf", (lhs, rhs), element, rounding, flush_to_zero)


@quiet
def fma(
    lhs: Array,
    rhs: Array,
    acc: Array,
    element: str,
    *,
    rounding: Rounding = "nearest_even",
    flush_to_zero: bool = False,
) -> Array:
    """``lhs * rhs + acc``, rounded once; flushing applies to all three operands."""
    return _arithmetic("fma", (lhs, rhs, acc), element, rounding, flush_to_zero)


Approximation = Literal["approx", "full"]
"""The inexact modes; they specify accuracy, not a rounding direction."""


@quiet
def divf(
    lhs: Array,
    rhs: Array,
    element: str,
    *,
    rounding: Rounding | Approximation = "nearest_even",
    flush_to_zero: bool = False,
) -> Array:
    """``lhs / rhs``.

    The reference value of the inexact modes ``approx`` and ``full`` is the correctly rounded quotient, where the
    specification allows 2 ulp. ``approx`` multiplies by the reciprocal, which underflows to zero for divisors beyond
    2**126 in magnitude: an infinite dividend then yields NaN, any other a signed zero.
    """
    direction = "nearest_even" if rounding in ("approx", "full") else rounding
    quotient = _arithmetic("divf", (lhs, rhs), element, direction, flush_to_zero)
    if rounding != "approx":
        return quotient
    lost = (np.abs(rhs) > np.float32(2.0**126)) & np.isfinite(rhs)
    return np.where(lost, lhs * np.copysign(np.float32(0), rhs), quotient)


@quiet
def sqrt(
    source: Array,
    element: str,
    *,
    rounding: Rounding | Approximation = "nearest_even",
    flush_to_zero: bool = False,
) -> Array:
    """Square root; -0 stays, other negative values yield NaN (IEEE 754). ``approx`` also rounds correctly."""
    direction = "nearest_even" if rounding in ("approx", "full") else rounding
    return _arithmetic("sqrt", (source,), element, direction, flush_to_zero)


@quiet
def remf(lhs: Array, rhs: Array, element: str) -> Array:
    """``lhs - trunc(lhs / rhs) * rhs``, exact, with the sign of ``lhs``.

    NaN for a zero divisor or an infinite dividend; an infinite divisor yields the dividend.
    """
    if element in ("f16", "bf16"):
        remainder = np.fmod(lhs.astype(np.float32), rhs.astype(np.float32))
        return np.asarray(remainder.astype(dtype_of(element)))
    return np.asarray(np.fmod(lhs, rhs))


def absf(source: Array, element: str) -> Array:
    """``source`` with the sign bit cleared; NaN payloads stay."""
    bits = unsigned_view(source)
    return np.asarray(bits & bits.dtype.type(FORMATS[element].magnitude_mask)).view(source.dtype)


def negf(source: Array, element: str) -> Array:
    """``source`` with the sign bit flipped, also for NaN."""
    bits = unsigned_view(source)
    return np.asarray(bits ^ bits.dtype.type(FORMATS[element].sign_bit)).view(source.dtype)


@quiet
def ceil(source: Array, element: str) -> Array:
    """The smallest integral value not below ``source``; keeps the sign of zero results."""
    return np.asarray(np.ceil(source))


@quiet
def floor(source: Array, element: str) -> Array:
    """The largest integral value not above ``source``."""
    return np.asarray(np.floor(source))


#: Types for which NumPy's own maximum is fast. It is right except for NaN and the signs of zeros.
_FAST_COMPARISONS = frozenset({"f32", "f64"})


def _extremum(
    lhs: Array, rhs: Array, element: str, larger: bool, propagate_nan: bool, flush_to_zero: bool
) -> Array:
    if flush_to_zero:
        lhs, rhs = flush_subnormals(lhs), flush_subnormals(rhs)
    if element in _FAST_COMPARISONS:
        found = np.asarray(np.maximum(lhs, rhs) if larger else np.minimum(lhs, rhs))
        if not ((found == 0) | (found != found)).any():
            return found
    lhs_bits, rhs_bits = unsigned_view(lhs), unsigned_view(rhs)
    take_lhs = lhs > rhs if larger else lhs < rhs
    # Equal values have equal bits except for zeros, where the sign bits decide: +0 is above -0.
    equal_bits = lhs_bits & rhs_bits if larger else lhs_bits | rhs_bits
    bits = np.where(take_lhs, lhs_bits, np.where(lhs == rhs, equal_bits, rhs_bits))
    lhs_nan, rhs_nan = lhs != lhs, rhs != rhs
    either_nan = lhs_nan | rhs_nan
    if either_nan.any():
        canonical = lhs_bits.dtype.type(FORMATS[element].nan_bits)
        only_rhs_nan = rhs_nan & ~lhs_nan
        if not propagate_nan:
            bits = np.where(only_rhs_nan, lhs_bits, bits)
            either_nan = lhs_nan & rhs_nan
        bits = np.where(either_nan, canonical, bits)
    return np.asarray(bits).view(lhs.dtype)


@quiet
def maxf(
    lhs: Array,
    rhs: Array,
    element: str,
    *,
    propagate_nan: bool = False,
    flush_to_zero: bool = False,
) -> Array:
    """The larger operand, +0 above -0.

    A single NaN loses against a number (maximumNumber of IEEE 754-2019), or wins under ``propagate_nan`` (maximum); a
    NaN result is canonical.
    """
    return _extremum(lhs, rhs, element, True, propagate_nan, flush_to_zero)


@quiet
def minf(
    lhs: Array,
    rhs: Array,
    element: str,
    *,
    propagate_nan: bool = False,
    flush_to_zero: bool = False,
) -> Array:
    """The smaller operand, -0 below +0; NaN as in ``maxf`` (minimumNumber and minimum of IEEE 754-2019)."""
    return _extremum(lhs, rhs, element, False, propagate_nan, flush_to_zero)


def _ordered(array: Array) -> Array:
    """Map floats to signed integers in the same order, -0 below +0. An involution on bits."""
    bits = np.asarray(array).view(f"i{array.dtype.itemsize}")
    limit = np.iinfo(bits.dtype)
    return np.asarray(bits ^ ((bits >> (limit.bits - 1)) & bits.dtype.type(limit.max)))


def _reduced(rows: Array, element: str, larger: bool, propagate_nan: bool, flush: bool) -> Array:
    if len(rows) == 1:
        return rows[0, ...]
    if flush:
        rows = flush_subnormals(rows)
    elif rows.dtype.kind == "f":
        # NumPy differs from this only for NaN and zeros of either sign.
        plain = np.maximum if larger else np.minimum
        best = np.asarray(plain.reduce(rows, axis=0))
        if best.all() and not np.isnan(best).any():
            return best
    keys = _ordered(rows)
    limit = np.iinfo(keys.dtype)
    # The extreme integers represent only NaN: here the one that always loses, or always wins.
    nan_key = keys.dtype.type(limit.max if larger == propagate_nan else limit.min)
    is_nan = rows != rows
    any_nan = bool(is_nan.any())
    if any_nan:
        keys = np.where(is_nan, nan_key, keys)
    choose = np.maximum if larger else np.minimum
    best = np.asarray(choose.reduce(keys, axis=0))
    found = _ordered(best).view(rows.dtype)
    if not any_nan:
        return found
    return np.where(best == nan_key, from_bits(np.array(FORMATS[element].nan_bits), element), found)


@quiet
def reduce_maxf(
    rows: Array,
    element: str,
    *,
    propagate_nan: bool = False,
    flush_to_zero: bool = False,
) -> Array:
    """``maxf`` along the first dimension, which the result lacks; a single row is returned unchanged."""
    return _reduced(rows, element, True, propagate_nan, flush_to_zero)


@quiet
def reduce_minf(
    rows: Array,
    element: str,
    *,
    propagate_nan: bool = False,
    flush_to_zero: bool = False,
) -> Array:
    """``minf`` along the first dimension, which the result lacks; a single row is returned unchanged."""
    return _reduced(rows, element, False, propagate_nan, flush_to_zero)


def _less_or_greater(lhs: Array, rhs: Array) -> Array:
    return (lhs < rhs) | (lhs > rhs)


_ORDERED = {**COMPARISONS, "not_equal": _less_or_greater}

_COMPLEMENT = {
    "equal": "not_equal",
    "not_equal": "equal",
    "less_than": "greater_than_or_equal",
    "less_than_or_equal": "greater_than",
    "greater_than": "less_than_or_equal",
    "greater_than_or_equal": "less_than",
}


@quiet
def cmpf(
    lhs: Array, rhs: Array, element: str, *, comparison_predicate: str, comparison_ordering: str
) -> Array:
    """Return an i1 array. With a NaN operand ``ordered`` is false and ``unordered`` true, whatever the predicate.

    -0 equals +0. Predicates and orderings are spelled as in Tile IR: ``less_than``, ``not_equal``.
    """
    if comparison_ordering == "ordered":
        return np.asarray(_ORDERED[comparison_predicate](lhs, rhs))
    return np.asarray(~_ORDERED[_COMPLEMENT[comparison_predicate]](lhs, rhs))
