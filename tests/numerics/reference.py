"""Exact arithmetic for the tests, written apart from the code under test.

A float value is a ``Fraction``, or one of the floats inf, -inf, nan and -0.0.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np


class Layout(NamedTuple):
    """The published layout of a float type: field widths, bias, and what the top patterns mean."""

    sign: int
    exponent: int
    mantissa: int
    bias: int
    top: str


LAYOUTS = {
    "f16": Layout(1, 5, 10, 15, "ieee"),
    "bf16": Layout(1, 8, 7, 127, "ieee"),
    "tf32": Layout(1, 8, 10, 127, "ieee"),
    "f32": Layout(1, 8, 23, 127, "ieee"),
    "f64": Layout(1, 11, 52, 1023, "ieee"),
    "f8E4M3FN": Layout(1, 4, 3, 7, "one nan"),
    "f8E5M2": Layout(1, 5, 2, 15, "ieee"),
    "f8E8M0FNU": Layout(0, 8, 0, 127, "one nan"),
    "f4E2M1FN": Layout(1, 2, 1, 1, "finite"),
    "f8E5M3FNU": Layout(0, 5, 3, 15, "one nan"),
}
LARGEST = {
    "f16": Fraction(65504),
    "bf16": (2 - Fraction(1, 2**7)) * 2**127,
    "tf32": (2 - Fraction(1, 2**10)) * 2**127,
    "f32": (2 - Fraction(1, 2**23)) * 2**127,
    "f64": (2 - Fraction(1, 2**52)) * 2**1023,
    "f8E4M3FN": Fraction(448),
    "f8E5M2": Fraction(57344),
    "f8E8M0FNU": Fraction(2**127),
    "f4E2M1FN": Fraction(6),
    "f8E5M3FNU": Fraction(114688),
}
INT_BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}
IEEE_MODES = ("nearest_even", "zero", "negative_inf", "positive_inf")
ALL_MODES = (*IEEE_MODES, "nearest_away")


def value_of(bits: int, name: str) -> Fraction | float:
    """The value of a bit pattern."""
    layout = LAYOUTS[name]
    mantissa = bits % 2**layout.mantissa
    exponent = bits // 2**layout.mantissa % 2**layout.exponent
    negative = layout.sign == 1 and bits >= 2 ** (layout.exponent + layout.mantissa)
    top_exponent = exponent == 2**layout.exponent - 1
    if top_exponent and layout.top == "ieee":
        return math.nan if mantissa else (-math.inf if negative else math.inf)
    if top_exponent and layout.top == "one nan" and mantissa == 2**layout.mantissa - 1:
        return math.nan
    if name == "f8E8M0FNU":
        return Fraction(2) ** (exponent - 127)
    one = Fraction(2) ** -layout.mantissa
    if exponent:
        magnitude = (1 + mantissa * one) * Fraction(2) ** (exponent - layout.bias)
    else:
        magnitude = mantissa * one * Fraction(2) ** (1 - layout.bias)
    if negative:
        return -magnitude if magnitude else -0.0
    return magnitude


def _floor_log2(numerator: int, denominator: int) -> int:
    guess = numerator.bit_length() - denominator.bit_length()
    left, right = numerator << max(-guess, 0), denominator << max(guess, 0)
    return guess if left >= right else guess - 1


def _to_whole(dividend: int, divisor: int, mode: str) -> int:
    below, rest = divmod(dividend, divisor)
    if mode == "negative_inf" or rest == 0:
        return below
    if mode == "positive_inf":
        return below + 1
    if mode == "zero":
        return below + (dividend < 0)
    if 2 * rest != divisor:
        return below + (2 * rest > divisor)
    if mode == "nearest_away":
        return below + (dividend > 0)
    return below + below % 2


def rounded(value: Fraction, name: str, mode: str = "nearest_even") -> float:
    """A nonzero exact value rounded once as IEEE 754 says, as the float that has this value.

    Only for types with infinities.
    """
    layout = LAYOUTS[name]
    numerator, denominator = value.numerator, value.denominator
    exponent = max(_floor_log2(abs(numerator), denominator), 1 - layout.bias)
    unit = exponent - layout.mantissa
    units = _to_whole(numerator << max(-unit, 0), denominator << max(unit, 0), mode)
    sign = 1.0 if numerator > 0 else -1.0
    if abs(units) * Fraction(2) ** unit > LARGEST[name]:
        towards_zero = {"zero": True, "negative_inf": sign > 0, "positive_inf": sign < 0}
        if towards_zero.get(mode, False):
            return sign * float(LARGEST[name])
        return sign * math.inf
    return math.copysign(math.ldexp(abs(units), unit), sign)


def finite_values(name: str) -> list[Fraction]:
    """All finite values of a small type that are not below zero, ascending, without -0."""
    layout = LAYOUTS[name]
    values = [value_of(bits, name) for bits in range(2 ** (layout.exponent + layout.mantissa))]
    return [value for value in values if isinstance(value, Fraction)]


def as_floats(array: np.ndarray) -> list[float]:
    """The elements as Python floats, exactly; no warning for signalling NaNs."""
    with np.errstate(invalid="ignore"):
        return np.asarray(array).astype(np.float64).tolist()


def same(actual: np.ndarray, expected: list[float]) -> np.ndarray:
    """Lanes that agree: equal with the same sign of zero, or both NaN."""
    got, want = np.array(as_floats(actual)), np.array(expected, np.float64)
    equal = (got == want) & (np.signbit(got) == np.signbit(want))
    return equal | (np.isnan(got) & np.isnan(want))
