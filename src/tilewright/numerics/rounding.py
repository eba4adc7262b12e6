"""Vectorised single rounding of float64 values to every narrower float format.

To obtain exact results in a narrow format: compute in float64 together with the sign of the error
(error-free transforms), fold that sign into the last bit (*rounding to odd*), then round to the
target. A float64 rounded to odd retains enough of the exact value for any target of at most 51
significant bits, in every direction, including subnormals.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.numerics.arrays import Array, dtype_of
from tilewright.numerics.element_types import FORMATS, ElementFormat
from tilewright.numerics.floats import Overflow, Rounding, bits_to_float
from tilewright.numerics.widening import as_f64

quiet = np.errstate(all="ignore")
"""Decorator for functions in which IEEE exceptions are ordinary results."""


def unguarded(function: Callable[..., Array]) -> Callable[..., Array]:
    """Return a ``quiet`` function without its guard, which costs more than computing many a small tile.

    For callers that have disabled NumPy's warnings themselves. Other functions are returned unchanged.
    """
    return getattr(function, "__wrapped__", function)


def two_sum(lhs: Array, rhs: Array) -> tuple[Array, Array]:
    """Return ``(sum, error)`` with ``sum + error == lhs + rhs`` exactly, unless something overflows.

    ``sum`` is rounded to nearest; both are of the operands' dtype (the algorithm of Knuth and Møller).
    """
    total = lhs + rhs
    virtual = total - lhs
    return total, (lhs - (total - virtual)) + (rhs - virtual)


# Splits a float64 into two halves of at most 26 bits (Veltkamp).
_SPLITTER = float(2**27 + 1)


def two_product(lhs: Array, rhs: Array) -> tuple[Array, Array]:
    """Return ``(product, error)`` in float64 with ``product + error == lhs * rhs`` exactly.

    Holds if both operands are below 2**995 and the product is zero or within 2**-960 .. 2**1020.
    """
    product = lhs * rhs
    scaled = lhs * _SPLITTER
    lhs_high = scaled - (scaled - lhs)
    lhs_low = lhs - lhs_high
    scaled = rhs * _SPLITTER
    rhs_high = scaled - (scaled - rhs)
    rhs_low = rhs - rhs_high
    error = ((lhs_high * rhs_high - product) + lhs_high * rhs_low + lhs_low * rhs_high) + (
        lhs_low * rhs_low
    )
    return product, error


def round_to_odd(nearest: Array, error: Array) -> Array:
    """Round the exact value ``nearest + error`` to odd, where ``nearest`` is the closest float64.

    Only the sign of ``error`` matters. Infinities and NaN are unchanged. A second rounding, to nearest or directed,
    to at most 51 bits then gives what one would (Boldo and Melquiond).
    """
    bits = np.asarray(nearest).view(np.int64)
    # The error of an infinite operand is NaN, which counts as none.
    inexact = (error < 0) | (error > 0)
    inexact_and_even = inexact & ((bits & 1) == 0) & np.isfinite(nearest)
    # Patterns grow with the magnitude, so away from zero is +1 whatever the sign.
    step = np.where((error > 0) == (nearest > 0), 1, -1)
    return np.asarray(bits + step * inexact_and_even).view(np.float64)


def _round_half_away(scaled: Array) -> Array:
    whole = np.trunc(scaled)
    return whole + np.where(np.abs(scaled - whole) >= 0.5, np.sign(scaled), 0.0)


_TO_INTEGER: dict[str, Callable[[Array], Array]] = {
    "nearest_even": np.rint,
    "nearest_away": _round_half_away,
    "zero": np.trunc,
    "negative_inf": np.floor,
    "positive_inf": np.ceil,
}


def _to_powers_of_two(values: Array, fmt: ElementFormat, rounding: Rounding) -> Array:
    """Round nonnegative values to powers of two, at least the smallest of the format.

    The only significant bit is odd, so nearest_even rounds ties up, like nearest_away.
    """
    fraction, exponent = np.frexp(values)
    threshold = {"zero": 1.0, "negative_inf": 1.0, "positive_inf": 0.5}.get(rounding, 0.75)
    up = fraction > threshold if rounding == "positive_inf" else fraction >= threshold
    power = np.maximum(exponent - 1 + up, fmt.min_exponent)
    power = np.where(values == 0, fmt.min_exponent, power)
    return np.where(np.isfinite(values), np.ldexp(1.0, power), values)


@quiet
def round_float64(
    values: Array, element: str, rounding: Rounding = "nearest_even", overflow: Overflow = "natural"
) -> Array:
    """Round float64 ``values`` once to a narrower type, and return them in that type's dtype.

    ``overflow`` is explained at ``floats.Overflow``. NaN becomes the largest value in a type without
    NaN. Unsigned types take the magnitude: CUDA's own conversion to f8E8M0FNU discards the sign, and
    Tile IR does not specify it.
    """
    fmt = FORMATS[element]
    if not fmt.signed:
        values = np.abs(values)
    if fmt.has_zero:
        _, exponent = np.frexp(values)
        quantum = np.maximum(exponent - fmt.precision, fmt.min_exponent - fmt.mantissa_bits)
        rounded = np.ldexp(_TO_INTEGER[rounding](np.ldexp(values, -quantum)), quantum)
        # Rounding half away loses the sign of a zero.
        rounded = np.copysign(rounded, values)
    else:
        rounded = _to_powers_of_two(values, fmt, rounding)
    largest = bits_to_float(fmt.max_finite_bits, fmt)
    too_large = np.abs(rounded) > largest
    if overflow == "saturate":
        rounded = np.where(too_large, np.copysign(largest, rounded), rounded)
    elif too_large.any():
        rounded = np.where(too_large, _overflow_values(values, fmt, rounding, largest), rounded)
    return encode_exact(rounded, element)


def _overflow_values(
    values: Array, fmt: ElementFormat, rounding: Rounding, largest: float
) -> Array:
    beyond = np.inf if fmt.has_inf else (largest if fmt.nan == "none" else np.nan)
    towards_zero = {
        "zero": np.True_,
        "negative_inf": values > 0,
        "positive_inf": values < 0,
    }.get(rounding, np.False_)
    stays_finite = towards_zero & np.isfinite(values)
    return np.copysign(np.where(stays_finite, largest, beyond), values)


@quiet
def encode_exact(values: Array, element: str) -> Array:
    """Return float64 ``values``, all of them representable in the type, in the dtype of that type.

    NaN becomes the largest value in a type without NaN; other values that the type lacks are not looked for.
    """
    fmt = FORMATS[element]
    if fmt.nan == "none":
        largest = bits_to_float(fmt.max_finite_bits, fmt)
        values = np.where(np.isnan(values), largest, values)
    if element == "f8E5M3FNU":
        # No library has this type. The finite values ascend with their patterns; NaN sorts last.
        return np.asarray(np.searchsorted(_F8E5M3FNU_VALUES[:-1], values)).astype(np.uint8)
    if element == "tf32":
        # A payload could set bits below those that tf32 keeps.
        values = np.where(np.isnan(values), np.nan, values)
    return np.asarray(values).astype(dtype_of(element))


def _all_values_of(element: str) -> Array:
    fmt = FORMATS[element]
    return np.array([bits_to_float(bits, fmt) for bits in range(1 << fmt.bits)])


_F8E5M3FNU_VALUES = _all_values_of("f8E5M3FNU")


@quiet
def to_float64(array: Array, element: str) -> Array:
    """Return the exact values of float elements as float64, in a new array unless they are f64."""
    if element == "f8E5M3FNU":
        return np.asarray(_F8E5M3FNU_VALUES[array])
    return as_f64(array)
