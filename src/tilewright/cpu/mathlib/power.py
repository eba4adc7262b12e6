"""pow: ``e**(y log x)`` with the logarithm and the product as sums of two floats."""

from __future__ import annotations

import math

from tilewright.cpu.mathlib.exponential import above_zero, exp_of_sum
from tilewright.cpu.mathlib.lanes import Body, Formulas, Value
from tilewright.cpu.mathlib.logarithm import split

# (log((1 + s) / (1 - s)) - 2 s - 2/3 s**3) / s**5 as a polynomial in s**2.
_TAIL = (
    0.3999999999999998,
    0.28571428571445157,
    0.2222222221752479,
    0.18181818871787014,
    0.1538455676881298,
    0.13336321393992576,
    0.11674737236710499,
    0.11989693159628861,
)
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
# ln 2 in three parts; products of the first with an exponent are exact.
_LN2_HIGH = 0.6931471803691238
_LN2_LOW = 1.9082149292705877e-10
_LN2_LOWEST = 1.1612227229362532e-26
_LOWEST, _HIGHEST = -746.0, 710.0

# For f32 results: the logarithm, (log((1 + s) / (1 - s)) - 2 s) / s**3 in s**2, to 43 bits, and the
# power of two, (2**r - 1) / r, to 34.
_LOG_SHORT = (
    0.6666666667582839,
    0.3999999561299773,
    0.28572110120212113,
    0.22176146748620604,
    0.19584783868678896,
)
_EXP2_SHORT = (
    0.6931471807035997,
    0.2402265106667591,
    0.05550410367727377,
    0.009618038112699743,
    0.001333393396315899,
    0.00015466762671299285,
    1.5196378411899333e-05,
)
_LOWEST_SINGLE, _HIGHEST_SINGLE = -151.0, 200.0
_ROOT_OF_HALF = 0x3F3504F3
_LOG2_E = math.log2(math.e)


def _log_of_sum(f: Formulas, x: Value) -> tuple[Value, Value]:
    """log(x) for positive finite x as a sum of two floats, to 65 bits."""
    exponent, factor = split(f, x)
    t = factor - 1.0
    # s = t / (t + 2) with its rounding error.
    bottom, bottom_rest = f.two_sum(t, 2.0)
    inverse = 1.0 / bottom
    s = t * inverse
    s_rest = (f.fma(-s, bottom, t) - s * bottom_rest) * inverse
    z = s * s
    z_rest = f.fma(s, s, -z) + (s + s) * s_rest
    # The term 2/3 s**3 as a sum of two, the smaller ones as one float.
    cube, cube_rest = f.two_product(s, z)
    cube_rest = cube_rest + f.fma(s, z_rest, s_rest * z)
    third, third_rest = f.two_product(cube, f.number(_TWO_THIRDS[0]))
    third_rest = third_rest + f.fma(cube, _TWO_THIRDS[1], cube_rest * _TWO_THIRDS[0])
    tail = cube * z * f.polynomial(z, _TAIL)
    double = s + s
    high, rest = f.fast_two_sum(double, third)
    rest = rest + ((s_rest + s_rest) + (third_rest + tail))
    total, lost = f.fast_two_sum(exponent * _LN2_HIGH, high)
    rest = rest + lost
    low_product, low_error = f.two_product(exponent, f.number(_LN2_LOW))
    total, lost = f.fast_two_sum(total, low_product)
    rest = rest + (lost + f.fma(exponent, _LN2_LOWEST, low_error))
    return f.fast_two_sum(total, rest)


def _power_of_magnitude(f: Formulas, base: Value, exponent: Value) -> Value:
    """``base**exponent`` for positive finite base and finite exponent."""
    high, low = _log_of_sum(f, base)
    product, error = f.two_product(high, exponent)
    error = f.fma(low, exponent, error)
    inside = (product > _LOWEST) & (product < _HIGHEST)
    rest = f.select(inside, error, 0.0)
    return above_zero(f, product, _LOWEST, _HIGHEST, lambda held: exp_of_sum(f, held, rest))


def _power_single(f: Formulas, base: Value, exponent: Value) -> Value:
    """``base**exponent`` for positive finite base and finite exponent, in f32 through f64."""
    power_of_two, factor = split(f, base, _ROOT_OF_HALF)
    wide = f.widened()
    # The quotient (factor - 1) / (factor + 1), by a division in f32 and one correction.
    inverse = f.widen(1.0 / (factor + 1.0))
    t = f.widen(factor) - 1.0
    s = t * inverse
    s = wide.fma(s, wide.fma(-inverse, t + 2.0, 1.0), s)
    z = s * s
    logarithm = wide.fma(s * z, wide.polynomial(z, _LOG_SHORT), s + s)
    product = wide.fma(logarithm, _LOG2_E, f.widen(power_of_two)) * f.widen(exponent)

    def inside(held: Value) -> Value:
        whole, whole_bits = wide.rounded(held)
        r = held - whole
        value = wide.fma(r, wide.polynomial(r, _EXP2_SHORT), 1.0)
        return value * wide.power_of_two(whole_bits)

    return f.narrow(above_zero(wide, product, _LOWEST_SINGLE, _HIGHEST_SINGLE, inside))


def power(f: Formulas, base: Value, exponent: Value) -> Value:
    """``base**exponent`` with the special cases of C (Annex F of its standard): below 1 ulp."""
    return _power(f, base, exponent, _power_single if f.bits == 32 else _power_of_magnitude)


def _power(f: Formulas, base: Value, exponent: Value, of_magnitude: Body) -> Value:
    magnitude = f.absolute(base)
    result = of_magnitude(f, magnitude, exponent)
    grows = exponent > 0.0
    result = f.select(magnitude.equals(math.inf), f.select(grows, f.number(math.inf), 0.0), result)
    result = f.select(magnitude.equals(0.0), f.select(grows, f.number(0.0), math.inf), result)
    endless = f.absolute(exponent).equals(math.inf)
    towards_zero = (magnitude > 1.0) ^ grows
    at_infinity = f.select(towards_zero, f.number(0.0), math.inf)
    result = f.select(endless, f.select(magnitude.equals(1.0), 1.0, at_infinity), result)
    whole = f.truncated(exponent).equals(exponent)
    half = exponent * 0.5
    odd = whole & ~f.truncated(half).equals(half)
    negative = f.bits_of(base) < 0
    result = f.select(negative & odd, -result, result)
    fractional = (base < 0.0) & (magnitude < math.inf) & ~whole
    result = f.select(fractional, math.nan, result)
    result = f.select(base.is_nan() | exponent.is_nan(), base + exponent, result)
    return f.select(exponent.equals(0.0) | base.equals(1.0), 1.0, result)
