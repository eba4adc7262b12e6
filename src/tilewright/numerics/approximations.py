"""Models of the approximate operations of GPUs: errors of their size, not their bits.

The functions are those of ``semantics.ELEMENTWISE``, with the same arguments, where the modes of
Tile IR allow an error; other modes and f64 give the reference value. Every step is a correctly
rounded f32 operation, so that the results are the same on every machine. f16 and bf16 go through
f32. Where hardware looks values up in a table of bounded relative error, the model rounds the
exact value to as many significant bits as that bound stands for.

| Operation | Model | Error |
|---|---|---|
| divf approx | ``lhs * (1 / rhs)``; a subnormal reciprocal is flushed | below 2 ulp |
| divf full | the same on the significands, then scaled | below 2 ulp |
| sqrt approx | ``x * (1 / sqrt(x))`` | below 2 ulp |
| rsqrt | ``1 / sqrt(x)``, both steps rounded | below 2 ulp |
| exp2 | rounded to 22 bits | 2**-22 relative |
| exp approx | ``exp2(x * log2(e))``, the product rounded to f32 | grows with x |
| tanh approx | rounded to 11 bits | 2**-11 relative |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from tilewright.numerics import float_ops, math_ops
from tilewright.numerics.arrays import Array, dtype_of
from tilewright.numerics.float_ops import flush_subnormals
from tilewright.numerics.rounding import quiet

EXP2_BITS = 22
TANH_BITS = 11

_ONE = np.float32(1)
_LOG2_E = np.float32(math.log2(math.e))


def round_significand(values: Array, bits: int) -> Array:
    """Float64 values rounded to nearest even at this many significant bits."""
    fraction, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.rint(np.ldexp(fraction, bits)), exponent - bits))


def _flushed(function: Callable[..., Array], arrays: tuple[Array, ...], flush: bool) -> Array:
    if not flush:
        return np.asarray(function(*arrays))
    return flush_subnormals(np.asarray(function(*map(flush_subnormals, arrays))))


def _by_reciprocal(lhs: Array, rhs: Array) -> Array:
    return lhs * flush_subnormals(_ONE / rhs)


def _by_scaled_reciprocal(lhs: Array, rhs: Array) -> Array:
    top, top_exponent = np.frexp(lhs)
    bottom, bottom_exponent = np.frexp(rhs)
    # float64, so that scaling into the subnormal numbers is the only further rounding.
    quotient = (top * (_ONE / bottom)).astype(np.float64)
    return np.ldexp(quotient, top_exponent - bottom_exponent).astype(np.float32)


@quiet
def divf(
    lhs: Array,
    rhs: Array,
    element: str,
    *,
    rounding: str = "nearest_even",
    flush_to_zero: bool = False,
) -> Array:
    """``lhs`` times the rounded reciprocal of ``rhs``, in the modes approx and full."""
    models = {"approx": _by_reciprocal, "full": _by_scaled_reciprocal}
    if rounding not in models:
        return float_ops.divf(lhs, rhs, element, rounding=rounding, flush_to_zero=flush_to_zero)  # pyright: ignore[reportArgumentType]
    return _flushed(models[rounding], (lhs, rhs), flush_to_zero)


def _reciprocal_root(source: Array) -> Array:
    return _ONE / np.sqrt(source)


def _root(source: Array) -> Array:
    by_reciprocal = source * _reciprocal_root(source)
    return np.where((source == 0) | (source == np.inf), source, by_reciprocal)


@quiet
def sqrt(
    source: Array, element: str, *, rounding: str = "nearest_even", flush_to_zero: bool = False
) -> Array:
    """``source`` times its reciprocal root, in the mode approx."""
    if rounding != "approx":
        return float_ops.sqrt(source, element, rounding=rounding, flush_to_zero=flush_to_zero)  # pyright: ignore[reportArgumentType]
    return _flushed(_root, (source,), flush_to_zero)


def _exp2(source: Array) -> Array:
    wide = np.exp2(source.astype(np.float64))
    return round_significand(wide, EXP2_BITS).astype(np.float32)


@quiet
def rsqrt(source: Array, element: str, *, flush_to_zero: bool = False) -> Array:
    """The rounded reciprocal of the rounded root."""
    if element == "f64":
        return math_ops.rsqrt(source, element)
    wide = source.astype(np.float32)
    return _flushed(_reciprocal_root, (wide,), flush_to_zero).astype(dtype_of(element))


@quiet
def exp2(source: Array, element: str, *, flush_to_zero: bool = False) -> Array:
    """2 to the power of ``source``, to 22 bits."""
    if element == "f64":
        return math_ops.exp2(source, element)
    wide = source.astype(np.float32)
    return _flushed(_exp2, (wide,), flush_to_zero).astype(dtype_of(element))


@quiet
def exp(source: Array, element: str, *, rounding: str = "full") -> Array:
    """2 to the power of the rounded ``source * log2(e)``, to 22 bits, in the mode approx."""
    if rounding != "approx":
        return math_ops.exp(source, element, rounding=rounding)
    return _exp2(np.asarray(source * _LOG2_E))


@quiet
def tanh(source: Array, element: str, *, rounding: str = "full") -> Array:
    """Hyperbolic tangent to 11 bits, in the mode approx."""
    if rounding != "approx":
        return math_ops.tanh(source, element, rounding=rounding)
    wide = np.tanh(source.astype(np.float64))
    return round_significand(wide, TANH_BITS).astype(np.float32)


#: The operations of ``semantics.ELEMENTWISE`` that have a model here, by mnemonic.
APPROXIMATE: Mapping[str, Callable[..., Array]] = MappingProxyType(
    {"divf": divf, "exp": exp, "exp2": exp2, "rsqrt": rsqrt, "sqrt": sqrt, "tanh": tanh}
)
