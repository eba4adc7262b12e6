"""exp, exp2 and the hyperbolic functions.

The argument is reduced by a multiple of ln 2, which leaves at most ln(2)/2, and a minimax polynomial
is taken there. Where more than the width of a float is needed, as for tanh, the polynomial's
result is kept as a sum of two floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tilewright.cpu.mathlib.lanes import Formulas, Value

_LOG2_E = math.log2(math.e)


@dataclass(frozen=True, slots=True)
class _Constants:
    """Of one width. ``exp`` are the coefficients of ``(e**r - 1 - r) / r**2``, ``exp2`` those of
    ``(2**r - 1) / r``; ``ln2`` in two parts, the first short enough for exact products."""

    exp: tuple[float, ...]
    exp2: tuple[float, ...]
    ln2: tuple[float, float]
    lowest: float
    highest: float
    lowest2: float
    highest2: float
    tanh_one: float


_TABLE: Mapping[int, _Constants] = MappingProxyType(
    {
        32: _Constants(
            exp=(
                0.4999999403953552,
                0.1666651964187622,
                0.041668396443128586,
                0.008368787355720997,
                0.001381439040414989,
            ),
            exp2=(
                0.6931471824645996,
                0.24022647738456726,
                0.055503323674201965,
                0.009618437848985195,
                0.0013398886658251286,
                0.00015353248454630375,
            ),
            ln2=(0.693145751953125, 1.428606765330187e-06),
            lowest=-104.0,
            highest=89.0,
            lowest2=-151.0,
            highest2=129.0,
            tanh_one=20.0,
        ),
        64: _Constants(
            exp=(
                0.5000000000000011,
                0.1666666666666641,
                0.041666666666529156,
                0.008333333333495127,
                0.001388888894393134,
                0.00019841269505858447,
                2.48014927544781e-05,
                2.7557586373614672e-06,
                2.7630381337136023e-07,
                2.500026557120032e-08,
            ),
            exp2=(
                0.6931471805599453,
                0.24022650695910072,
                0.05550410866482169,
                0.00961812910762833,
                0.0013333558146392708,
                0.00015403530393640798,
                1.5252733854305244e-05,
                1.3215486594862155e-06,
                1.0178051946339721e-07,
                7.054974486230324e-09,
                4.4565699842380395e-10,
                2.5625427077900445e-11,
            ),
            ln2=(0.6931471803691238, 1.9082149292705877e-10),
            lowest=-746.0,
            highest=710.0,
            lowest2=-1076.0,
            highest2=1025.0,
            tanh_one=44.0,
        ),
    }
)

# (sinh(x) - x) / x**3 as a polynomial in x**2, for |x| <= 1.
_SINH = (
    0.16666666666666669,
    0.008333333333333148,
    0.00019841269841431764,
    2.7557319157103095e-06,
    2.505212313225462e-08,
    1.605726007983785e-10,
    7.758740399202405e-13,
)


# The same for f32.
_SINH_SINGLE = (
    0.1666666716337204,
    0.008333349600434303,
    0.0001983615948120132,
    2.8169538381916936e-06,
)
# (tanh(x) - x) / x**3 the same way, below ``_TANH_SMALL``.
_TANH_SINGLE = (
    -0.33333319425582886,
    0.13332892954349518,
    -0.053921889513731,
    0.021634390577673912,
    -0.008207009173929691,
    0.002527158008888364,
    -0.0004346305795479566,
)
_TANH_SMALL = 0.92
#: From there on tanh is 1 in f32.
_TANH_ONE_SINGLE = 10.0
#: Beyond it hyperbolic functions overflow f32.
_LARGEST_SINGLE = 89.5
_BITS_OF_PRODUCT = (2 * 127 - 4) << 23


def exp(f: Formulas, x: Value) -> Value:
    """e**x: below 1 ulp."""
    table = _TABLE[f.bits]

    def inside(held: Value) -> Value:
        return _exp_single(f, held) if f.bits == 32 else exp_of_sum(f, held, None)

    return above_zero(f, x, table.lowest, table.highest, inside)


def above_zero(
    f: Formulas, x: Value, lowest: float, highest: float, power: Callable[[Value], Value]
) -> Value:
    """A power of the nearest number below ``highest``, and zero for numbers below ``lowest``.

    Zero comes of no product: what underflows takes processors a hundred cycles, and minus infinity is
    what masks put in the place of numbers.
    """
    vanishes = x < lowest
    held = f.select(vanishes, 0.0, f.select(x > highest, highest, x))
    return f.select(vanishes, 0.0, power(held))


def _exp_single(f: Formulas, x: Value) -> Value:
    """e**x without corrections, which f32 needs for no bound of 1 ulp."""
    table = _TABLE[f.bits]
    whole, exponent = f.rounded(x, _LOG2_E)
    r = f.fma(whole, -table.ln2[1], f.fma(whole, -table.ln2[0], x))
    return f.scaled(f.fma(r, f.polynomial(r, (1.0, *table.exp)), 1.0), whole, exponent)


def exp_of_sum(f: Formulas, high: Value, low: Value | None) -> Value:
    """e to the power of ``high + low``: below 1 ulp if ``low`` is small beside ``high``, which ``exp`` has clamped."""
    table = _TABLE[f.bits]
    whole, exponent = f.rounded(high, _LOG2_E)
    rest = f.fma(whole, -table.ln2[0], high)
    small = whole * -table.ln2[1]
    if low is not None:
        small = small + low
    r = rest + small
    # What the sum lost; it matters beside r, not inside the polynomial.
    lost = small - (r - rest)
    inner = f.fma(r * r, f.polynomial(r, table.exp), lost)
    return f.scaled((r + inner) + 1.0, whole, exponent)


def exp2(f: Formulas, x: Value) -> Value:
    """2**x: below 1 ulp; exact for integers."""
    table = _TABLE[f.bits]

    def inside(held: Value) -> Value:
        whole, exponent = f.rounded(held)
        r = held - whole
        return f.scaled(f.fma(r, f.polynomial(r, table.exp2), 1.0), whole, exponent)

    return above_zero(f, x, table.lowest2, table.highest2, inside)


def _reduced(f: Formulas, x: Value) -> tuple[Value, Value, Value]:
    """``e**x = 2**exponent * (1 + high + low)``: high, low, exponent."""
    table = _TABLE[f.bits]
    whole, exponent = f.rounded(x, _LOG2_E)
    rest = f.fma(whole, -table.ln2[0], x)
    small = whole * -table.ln2[1]
    r, lost = f.two_sum(rest, small)
    inner = f.fma(r * r, f.polynomial(r, table.exp), lost)
    high, low = f.fast_two_sum(r, inner)
    return high, low, exponent


def _tanh_single(f: Formulas, x: Value) -> Value:
    """A polynomial for small numbers, ``1 - 2 / (e**2x + 1)`` for others."""
    table = _TABLE[32]
    magnitude = f.absolute(x)
    square = magnitude * magnitude
    small = f.fma(magnitude * square, f.polynomial(square, _TANH_SINGLE), magnitude)
    held = f.select(magnitude > _TANH_ONE_SINGLE, _TANH_ONE_SINGLE, magnitude)
    whole, exponent = f.rounded(held, 2.0 * _LOG2_E)
    rest = f.fma(whole, -table.ln2[0], held + held)
    r = f.fma(whole, -table.ln2[1], rest)
    scale = f.power_of_two(exponent)
    # A power of two and 1 are added exactly.
    total = f.fma(scale, r * f.polynomial(r, (1.0, *table.exp)), scale + 1.0)
    large = 1.0 - 2.0 / total
    return f.copysign(f.select(magnitude < _TANH_SMALL, small, large), x)


def tanh(f: Formulas, x: Value) -> Value:
    """Hyperbolic tangent: below 1 ulp; in f64 as ``E / (E + 2)`` with ``E = e**2x - 1``."""
    if f.bits == 32:
        return _tanh_single(f, x)
    magnitude = f.absolute(x)
    high, low, exponent = _reduced(f, f.clamp(magnitude + magnitude, 0.0, _TABLE[f.bits].tanh_one))
    scale = f.power_of_two(exponent)
    top, rest = f.fast_two_sum(scale - 1.0, scale * high)
    rest = f.fma(scale, low, rest)
    bottom, bottom_rest = f.two_sum(top, 2.0)
    inverse = 1.0 / bottom
    quotient = top * inverse
    error = f.fma(-quotient, bottom, top) + f.fma(-quotient, bottom_rest + rest, rest)
    return f.copysign(f.fma(error, inverse, quotient), x)


def _half_exp(f: Formulas, x: Value) -> tuple[Value, Value, Value]:
    """``e**x / 2`` as a sum of two floats, and ``e**-x / 2``, for x from 0 to 711."""
    high, low, exponent = _reduced(f, x)
    top, rest = f.fast_two_sum(f.number(1.0), high)
    rest = rest + low
    half = exponent >> 1
    first, second = f.power_of_two(half), f.power_of_two(exponent - half - 1)
    growing, growing_rest = top * first * second, rest * first * second
    inverse = 0.25 / growing
    quadruple = inverse * -4.0
    error = f.fma(quadruple, growing, 1.0) + quadruple * growing_rest
    # An infinite e**x leaves no error to correct.
    shrinking = f.select(error.is_nan(), inverse, f.fma(inverse, error, inverse))
    return growing, growing_rest, shrinking


def _half_exp_single(f: Formulas, x: Value) -> tuple[Value, Value, Value]:
    """A quarter of ``e**x`` as a sum of two floats of f32, and of ``e**-x``, for x from 0 to 89.5.

    The even and the odd part of the polynomial serve both.
    """
    table = _TABLE[32]
    whole, exponent = f.rounded(x, _LOG2_E)
    rest = f.fma(whole, -table.ln2[0], x)
    small = whole * -table.ln2[1]
    r = rest + small
    lost = small - (r - rest)
    square = r * r
    even, odd = f.polynomial(square, table.exp[::2]), f.polynomial(square, table.exp[1::2]) * r
    high, low = f.fast_two_sum(r, f.fma(square, even + odd, lost))
    top, top_rest = f.fast_two_sum(f.number(1.0), high)
    up = f.power_of_two(exponent - 2)
    # Bits of powers of two: those of a product of 2**-4, or of zero where there is no such power.
    opposite = _BITS_OF_PRODUCT - f.bits_of(up)
    down = f.from_bits(f.call("smax", opposite, f.integer(0)))
    shrinking = f.fma(square, even - odd, 1.0 - r) * down
    return top * up, (top_rest + low) * up, shrinking


def _sinh_single(f: Formulas, x: Value) -> Value:
    magnitude = f.absolute(x)
    growing, rest, shrinking = _half_exp_single(f, f.clamp(magnitude, 0.0, _LARGEST_SINGLE))
    large = growing + (rest - shrinking)
    square = x * x
    small = f.fma(x * square, f.polynomial(square, _SINH_SINGLE), x)
    return f.select(magnitude < 1.0, small, f.copysign(large + large, x))


def _cosh_single(f: Formulas, x: Value) -> Value:
    growing, rest, shrinking = _half_exp_single(f, f.clamp(f.absolute(x), 0.0, _LARGEST_SINGLE))
    half = growing + (rest + shrinking)
    return half + half


def sinh(f: Formulas, x: Value) -> Value:
    """Hyperbolic sine: below 1 ulp in f32, 2 ulp in f64."""
    if f.bits == 32:
        return _sinh_single(f, x)
    magnitude = f.absolute(x)
    growing, rest, shrinking = _half_exp(f, f.clamp(magnitude, 0.0, 711.0))
    large = f.copysign(_sum(f, growing, -shrinking, rest), x)
    square = x * x
    small = f.fma(x * square, f.polynomial(square, _SINH), x)
    return f.select(magnitude < 1.0, small, large)


def cosh(f: Formulas, x: Value) -> Value:
    """Hyperbolic cosine: below 1 ulp."""
    if f.bits == 32:
        return _cosh_single(f, x)
    growing, rest, shrinking = _half_exp(f, f.clamp(f.absolute(x), 0.0, 711.0))
    return _sum(f, growing, shrinking, rest)


def _sum(f: Formulas, large: Value, small: Value, rest: Value) -> Value:
    """``large + small + rest``, rounded nearly once; ``large`` may be infinite."""
    total, lost = f.fast_two_sum(large, small)
    return f.select(large < math.inf, total + (lost + rest), large)
