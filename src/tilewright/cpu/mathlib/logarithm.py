"""log and log2.

A number is split into a power of two and a factor near 1, whose logarithm is a minimax polynomial:
for f32 in ``factor - 1``, for f64 in ``s = (factor - 1) / (factor + 1)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from tilewright.cpu.mathlib.lanes import Formulas, Value
from tilewright.launching.native_code import ir

# (log(1 + t) - t) / t**2 for -1/3 <= t <= 1/3.
_LOG32 = (
    -0.5,
    0.3333320915699005,
    -0.24999716877937317,
    0.20010744035243988,
    -0.16682323813438416,
    0.14001187682151794,
    -0.12166939675807953,
    0.1400471031665802,
    -0.12949754297733307,
)
# (log2(1 + t) - t / ln 2) / t**2 there.
_LOG2_32 = (
    -0.7213475704193115,
    0.4808984100818634,
    -0.36066868901252747,
    0.2885305881500244,
    -0.24070367217063904,
    0.20643360912799835,
    -0.17521020770072937,
    0.15451329946517944,
    -0.1880566030740738,
    0.17545944452285767,
)
# (log((1 + s) / (1 - s)) - 2 s) / s**3 as a polynomial in s**2, for factors of sqrt(1/2) to sqrt(2).
_LOG64 = (
    0.6666666666666735,
    0.3999999999941307,
    0.2857142874281131,
    0.22222198523979858,
    0.1818356713655674,
    0.1531397298767817,
    0.14796776512075677,
)
_LN2 = MappingProxyType(
    {
        32: (0.693145751953125, 1.428606765330187e-06),
        64: (0.6931471803691238, 1.9082149292705877e-10),
    }
)
_LOG2_E: Mapping[int, tuple[float, float]] = MappingProxyType(
    {
        32: (1.4426950216293335, 1.925963033500011e-08),
        64: (1.4426950408889634, 2.0355273740931033e-17),
    }
)
_FRACTION = {32: 23, 64: 52}
#: The bits of the smallest factor: 2/3 for f32, sqrt(1/2) for f64.
_SMALLEST_FACTOR = {32: 0x3F2AAAAB, 64: 0x3FE6A09E667F3BCD}
_SMALLEST_NORMAL = {32: 2.0**-126, 64: 2.0**-1022}


def split(f: Formulas, x: Value, smallest: int | None = None) -> tuple[Value, Value]:
    """``x = 2**exponent * factor`` for positive finite x; the exponent as a float.

    ``smallest``: the bits of the smallest factor, where it is not that of the logarithms.
    """
    fraction = _FRACTION[f.bits]
    tiny = x < _SMALLEST_NORMAL[f.bits]
    normal = f.select(tiny, x * 2.0**fraction, x)
    bits = f.bits_of(normal)
    distance = bits - (_SMALLEST_FACTOR[f.bits] if smallest is None else smallest)
    exponent = distance >> fraction
    factor = f.from_bits(bits - (exponent << fraction))
    whole = _to_float(f, exponent)
    return f.select(tiny, whole - float(fraction), whole), factor


def _to_float(f: Formulas, integer: Value) -> Value:
    """A small integer as a float."""
    narrow = f.builder.trunc(integer.llvm, f.over(ir.IntType(32))) if f.bits == 64 else integer.llvm
    return Value(f, f.builder.sitofp(narrow, f.float_type))


def _special(f: Formulas, x: Value, usual: Value) -> Value:
    """-inf at zero, NaN below and for NaN, inf at inf."""
    result = f.select(x > 0.0, usual, math.nan)
    result = f.select(x.equals(0.0), -math.inf, result)
    return f.select(x.equals(math.inf), math.inf, result)


def _natural32(f: Formulas, exponent: Value, factor: Value) -> Value:
    t = factor - 1.0
    high, low = _LN2[32]
    inner = f.fma(exponent, low, t * t * f.polynomial(t, _LOG32))
    total, error = f.fast_two_sum(exponent * high, t)
    return total + (error + inner)


def _series(f: Formulas, factor: Value) -> tuple[Value, Value, Value]:
    """``t = factor - 1``, half its square, and what ``log(1 + t) - t + t**2 / 2`` is."""
    t = factor - 1.0
    s = t / (t + 2.0)
    z = s * s
    half_square = t * t * 0.5
    tail = z * f.polynomial(z, _LOG64)
    return t, half_square, s * (half_square + tail)


def _natural64(f: Formulas, exponent: Value, factor: Value) -> Value:
    t, half_square, tail = _series(f, factor)
    high, low = _LN2[64]
    rest = f.fma(exponent, low, tail)
    return f.fma(exponent, high, -((half_square - rest) - t))


def _binary32(f: Formulas, exponent: Value, factor: Value) -> Value:
    t = factor - 1.0
    high, low = _LOG2_E[32]
    top, lost = f.two_product(t, f.number(high))
    small = f.fma(t * t, f.polynomial(t, _LOG2_32), f.fma(t, low, lost))
    return _sum(f, exponent, top, small)


def _binary64(f: Formulas, exponent: Value, factor: Value) -> Value:
    t, half_square, tail = _series(f, factor)
    top, lost = f.fast_two_sum(t, -half_square)
    return _to_base_2(f, exponent, top, lost + tail)


def _to_base_2(f: Formulas, exponent: Value, top: Value, rest: Value) -> Value:
    """``exponent + (top + rest) / ln 2``."""
    high, low = _LOG2_E[f.bits]
    product, product_error = f.two_product(top, f.number(high))
    small = product_error + f.fma(top, low, rest * high)
    return _sum(f, exponent, product, small)


def _sum(f: Formulas, exponent: Value, product: Value, small: Value) -> Value:
    """Their sum; the product is not larger than any exponent but zero."""
    total, error = f.fast_two_sum(exponent, product)
    return total + (error + small)


def _logarithm(kernels: Mapping[int, Callable[..., Value]]) -> Callable[[Formulas, Value], Value]:
    def evaluate(f: Formulas, x: Value) -> Value:
        exponent, factor = split(f, x)
        return _special(f, x, kernels[f.bits](f, exponent, factor))

    return evaluate


log = _logarithm({32: _natural32, 64: _natural64})
log2 = _logarithm({32: _binary32, 64: _binary64})
