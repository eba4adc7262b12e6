"""sin, cos and tan.

An angle is reduced by a multiple of pi/2; sine and cosine of the remainder are minimax polynomials.
Angles too large for the quick reduction are redone in f64, or by the exact reduction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from tilewright.cpu.mathlib.lanes import Formulas, Value, mend
from tilewright.cpu.mathlib.reduction import (
    LARGE,
    any_remainder,
    quick_remainder,
    small_remainder,
)
from tilewright.launching.native_code import ir

# (sin(r) - r) / r**3 and (cos(r) - 1 + r**2 / 2) / r**4 as polynomials in r**2.
_SIN: Mapping[int, tuple[float, ...]] = MappingProxyType(
    {
        32: (-0.16666653752326965, 0.008332123048603535, -0.00019510068523231894),
        64: (
            -0.16666666666666627,
            0.008333333333321216,
            -0.00019841269828843434,
            2.755731335506926e-06,
            -2.50507049962485e-08,
            1.5893694316162494e-10,
        ),
    }
)
_COS: Mapping[int, tuple[float, ...]] = MappingProxyType(
    {
        32: (0.04166664555668831, -0.0013887266395613551, 2.442731238261331e-05),
        64: (
            0.04166666666666659,
            -0.001388888888887176,
            2.480158728802522e-05,
            -2.7557313935973836e-07,
            2.0875667189890008e-09,
            -1.1356766286311427e-11,
        ),
    }
)
# (tan(r) - r) / r**3 as a polynomial in r**2, for f32.
_TAN = (
    0.3333335220813751,
    0.13332583010196686,
    0.05406925454735756,
    0.021232668310403824,
    0.010967271402478218,
    -8.076817175606266e-05,
    0.004461968317627907,
)

Remainder = tuple[Value, Value, Value]
"""An angle without its multiple of pi/2, as a sum of two floats, and the quadrant."""


def _sine(f: Formulas, r: Value, low: Value) -> tuple[Value, Value]:
    """``sin(r + low)`` as a sum of two floats."""
    square = r * r
    cube = square * r
    inner = f.fma(cube, f.polynomial(square, _SIN[f.bits]), f.fma(square * low, -0.5, low))
    return f.fast_two_sum(r, inner)


def _cosine(f: Formulas, r: Value, low: Value) -> tuple[Value, Value]:
    """``cos(r + low)`` as a sum of two floats."""
    half = r * r * 0.5
    square = r * r
    top, lost = f.fast_two_sum(f.number(1.0), -half)
    inner = f.fma(square * square, f.polynomial(square, _COS[f.bits]), f.fma(r, -low, lost))
    # The rounding of the square matters beside 1.
    inner = f.fma(f.fma(r, r, -square), -0.5, inner)
    return f.fast_two_sum(top, inner)


def _wave(f: Formulas, sine: Value, cosine: Value, quadrant: Value) -> Value:
    """The sine of an angle, by that of its remainder and its quadrant."""
    odd = (quadrant & 1).equals(1)
    chosen = f.select(odd, cosine, sine)
    sign = (quadrant & 2) << (f.bits - 2)
    return f.from_bits(f.bits_of(chosen) ^ sign)


def _sin_by(f: Formulas, remainder: Remainder, shift: int) -> Value:
    high, low, quadrant = remainder
    return _wave(f, _sine(f, high, low)[0], _cosine(f, high, low)[0], quadrant + shift)


def _tan_by(f: Formulas, remainder: Remainder) -> Value:
    high, low, quadrant = remainder
    (sine, sine_rest), (cosine, cosine_rest) = _sine(f, high, low), _cosine(f, high, low)
    odd = (quadrant & 1).equals(1)
    top, top_rest = f.select(odd, cosine, sine), f.select(odd, cosine_rest, sine_rest)
    bottom, bottom_rest = f.select(odd, sine, cosine), f.select(odd, sine_rest, cosine_rest)
    inverse = 1.0 / bottom
    quotient = top * inverse
    error = f.fma(-quotient, bottom, top) + f.fma(-quotient, bottom_rest, top_rest)
    better = f.fma(error, inverse, quotient)
    # Exact zeros and the inverse of a subnormal number have no error to correct.
    better = f.select(error.is_nan(), quotient, better)
    better = f.select(top.equals(0.0), top, better)
    return f.from_bits(f.bits_of(better) ^ (quadrant << (f.bits - 1)))


def _in_f64(evaluate: Callable[[Formulas, Value], Value]) -> Callable[[Formulas, Value], Value]:
    return lambda f, x: f.narrow(evaluate(f.widened(), f.widen(x)))


def _by_lane(
    of_remainder: Callable[[Formulas, Remainder], Value],
) -> Callable[[Formulas, Value], Value]:
    """The function by the exact reduction, lane by lane; for f64 in rare lanes, any value in others."""

    def evaluate(f: Formulas, x: Value) -> Value:
        builder = f.builder
        reduce = any_remainder(builder.module)
        with builder.goto_entry_block():
            parts = builder.alloca(ir.DoubleType(), 2)
        rare = f.select(_rare(f, x), x, LARGE[64])
        high = low = f.number(0.0).llvm
        quadrants = f.integer(0).llvm
        for lane in range(f.lanes):
            element = _element(builder, rare.llvm, lane, f.lanes)
            quadrant = builder.call(reduce, [element, parts])
            first = builder.load(parts)
            second = builder.load(builder.gep(parts, [ir.IntType(64)(1)]))
            high = _insert(builder, high, first, lane, f.lanes)
            low = _insert(builder, low, second, lane, f.lanes)
            quadrants = _insert(builder, quadrants, quadrant, lane, f.lanes)
        return of_remainder(f, (Value(f, high), Value(f, low), Value(f, quadrants)))

    return evaluate


def _element(builder: ir.IRBuilder, vector: ir.Value, lane: int, lanes: int) -> ir.Value:
    return vector if lanes == 1 else builder.extract_element(vector, ir.IntType(32)(lane))


def _insert(
    builder: ir.IRBuilder, vector: ir.Value, value: ir.Value, lane: int, lanes: int
) -> ir.Value:
    return value if lanes == 1 else builder.insert_element(vector, value, ir.IntType(32)(lane))


def _rare(f: Formulas, x: Value) -> Value:
    """Whether the quick reduction does not do, except for infinities, which give NaN anyway."""
    magnitude = f.absolute(x)
    return (magnitude >= LARGE[f.bits]) & (magnitude < math.inf)


def _periodic(
    name: str, of_remainder: Callable[[Formulas, Remainder], Value]
) -> Callable[[Formulas, Value], Value]:
    """The f64 function by what it is of the remainder."""

    def evaluate(f: Formulas, x: Value) -> Value:
        usual = of_remainder(f, small_remainder(f, x))
        if name != "cos":
            usual = _keep_zero(f, x, usual)
        return mend(f, f"tilewright.{name}", _by_lane(of_remainder), x, _rare(f, x), usual)

    return evaluate


_sin64 = _periodic("sin", lambda f, remainder: _sin_by(f, remainder, 0))
_cos64 = _periodic("cos", lambda f, remainder: _sin_by(f, remainder, 1))
_tan64 = _periodic("tan", _tan_by)


def _keep_zero(f: Formulas, x: Value, result: Value) -> Value:
    """The zero itself for a zero: sums lose its sign."""
    return f.select(x.equals(0.0), x, result)


def _wave32(f: Formulas, x: Value, shift: int) -> Value:
    r, quadrant = quick_remainder(f, x)
    square = r * r
    sine = f.fma(square * r, f.polynomial(square, _SIN[32]), r)
    cosine = f.fma(square, f.fma(square, f.polynomial(square, _COS[32]), -0.5), 1.0)
    return _wave(f, sine, cosine, quadrant + shift)


def _tan_single(f: Formulas, x: Value) -> Value:
    high, low, quadrant = small_remainder(f, x)
    square, square_lost = f.two_product(high, high)
    cube, cube_lost = f.two_product(square, high)
    series = f.polynomial(square, _TAN)
    # What ``low`` adds grows with the slope of the tangent, of which this is enough.
    rest = f.fma(low * square, 1.5, low)
    rest = f.fma(series, f.fma(square_lost, high, cube_lost), rest)
    tangent, lost = f.fast_two_sum(high, f.fma(cube, series, rest))
    inverse = -1.0 / tangent
    error = f.fma(inverse, lost, f.fma(inverse, tangent, 1.0))
    cotangent = f.fma(inverse, error, inverse)
    return _keep_zero(f, x, f.select((quadrant & 1).equals(1), cotangent, tangent))


def sin(f: Formulas, x: Value) -> Value:
    """Sine: below 2 ulp in f32, 1 ulp in f64."""
    if f.bits == 64:
        return _sin64(f, x)
    usual = _keep_zero(f, x, _wave32(f, x, 0))
    return mend(f, "tilewright.sin", _in_f64(_sin64), x, _rare(f, x), usual)


def cos(f: Formulas, x: Value) -> Value:
    """Cosine: below 2 ulp in f32, 1 ulp in f64."""
    if f.bits == 64:
        return _cos64(f, x)
    return mend(f, "tilewright.cos", _in_f64(_cos64), x, _rare(f, x), _wave32(f, x, 1))


def tan(f: Formulas, x: Value) -> Value:
    """Tangent: below 1 ulp."""
    if f.bits == 64:
        return _tan64(f, x)
    return mend(f, "tilewright.tan", _in_f64(_tan64), x, _rare(f, x), _tan_single(f, x))
