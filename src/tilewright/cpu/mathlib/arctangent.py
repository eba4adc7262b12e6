"""atan2: the arctangent of the smaller over the larger magnitude, moved to the right octant."""

from __future__ import annotations

from tilewright.cpu.mathlib.lanes import Formulas, Value

# (atan(q) - q) / q**3 as a polynomial in q**2, for 0 <= q <= 1.
_ATAN = (
    -0.33333333333333287,
    0.19999999999990448,
    -0.14285714285036633,
    0.11111111086447696,
    -0.09090908547263844,
    0.07692299711889941,
    -0.06666583723758472,
    0.05881716159713711,
    -0.05259433813733676,
    0.047449262014463964,
    -0.042863911391944225,
    0.03821006835816162,
    -0.0327854355626764,
    0.02615167564319707,
    -0.01861420922528794,
    0.011317660454204454,
    -0.005612394703998201,
    0.0021515919471898574,
    -0.0005928946450830501,
    0.00010387219547602725,
    -8.654235413719492e-06,
)
# The same to 36 bits, for f32.
_ATAN_SHORT = (
    -0.3333333311086106,
    0.19999984213124417,
    -0.14285320755803893,
    0.11106142288584595,
    -0.0905362306366175,
    0.07510486439027432,
    -0.06056892899132987,
    0.044178022996527865,
    -0.026546569922601515,
    0.011777790945947735,
    -0.0033261452223584237,
    0.0004406334949838918,
)
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
_PI = (3.141592653589793, 1.2246467991473532e-16)


def atan2(f: Formulas, y: Value, x: Value) -> Value:
    """The angle of ``y / x`` in the quadrant of both signs, as C's: below 1 ulp (f32), 2 ulp (f64)."""
    if f.bits == 32:
        wide = f.widened()
        return f.narrow(_atan2(wide, f.widen(y), f.widen(x), _ATAN_SHORT))
    return _atan2(f, y, x, _ATAN)


def _atan2(f: Formulas, y: Value, x: Value, coefficients: tuple[float, ...]) -> Value:
    rise, run = f.absolute(y), f.absolute(x)
    steep = rise > run
    top, bottom = f.select(steep, run, rise), f.select(steep, rise, run)
    ratio = f.select(top.equals(0.0), 0.0, top / bottom)
    ratio = f.select(top.equals(bottom) & (top > 0.0), 1.0, ratio)
    square = ratio * ratio
    angle = f.fma(ratio * square, f.polynomial(square, coefficients), ratio)
    backwards = f.bits_of(x) < 0
    angle = f.select(steep ^ backwards, -angle, angle)
    start, start_rest = (
        f.select(steep, f.number(_HALF_PI[part]), f.select(backwards, f.number(_PI[part]), 0.0))
        for part in range(2)
    )
    angle = start + (angle + start_rest)
    result = f.copysign(angle, y)
    return f.select(x.is_nan() | y.is_nan(), x + y, result)
