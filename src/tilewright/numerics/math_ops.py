"""Element-wise mathematical functions: approximations within stated bounds.

f32 is computed in f64 and rounded once, so the error stays below 0.51 ulp, which is closer than any
GPU guarantees. f16 and bf16 are that f32 value rounded again, as Tile IR specifies. f64 is NumPy's
result, within 4 ulp. Special values are those of the C standard.

The modes ``approx`` and ``full`` of exp and tanh have the same reference value here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.numerics.arrays import Array, dtype_of
from tilewright.numerics.float_ops import flush_subnormals
from tilewright.numerics.int_ops import as_numbers
from tilewright.numerics.rounding import quiet


def _reciprocal_sqrt(source: Array) -> Array:
    return 1.0 / np.sqrt(source)


_FLOAT64: dict[str, Callable[..., Array]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "rsqrt": _reciprocal_sqrt,
    "fpowf": np.power,
    "atan2": np.arctan2,
}


def _evaluate(op: str, arrays: tuple[Array, ...], element: str) -> Array:
    if element == "f64":
        return np.asarray(_FLOAT64[op](*arrays))
    wide = _FLOAT64[op](*(array.astype(np.float64) for array in arrays))
    single = np.asarray(wide).astype(np.float32)
    return single if element == "f32" else single.astype(dtype_of(element))


@quiet
def exp(source: Array, element: str, *, rounding: str = "full") -> Array:
    """e to the power of ``source``."""
    return _evaluate("exp", (source,), element)


@quiet
def tanh(source: Array, element: str, *, rounding: str = "full") -> Array:
    """Hyperbolic tangent."""
    return _evaluate("tanh", (source,), element)


@quiet
def exp2(source: Array, element: str, *, flush_to_zero: bool = False) -> Array:
    """2 to the power of ``source``."""
    if not flush_to_zero:
        return _evaluate("exp2", (source,), element)
    return flush_subnormals(_evaluate("exp2", (flush_subnormals(source),), element))


@quiet
def rsqrt(source: Array, element: str, *, flush_to_zero: bool = False) -> Array:
    """``1 / sqrt(source)``: an infinity of the same sign at zeros, 0 at +inf, NaN below zero."""
    if not flush_to_zero:
        return _evaluate("rsqrt", (source,), element)
    return flush_subnormals(_evaluate("rsqrt", (flush_subnormals(source),), element))


@quiet
def log(source: Array, element: str) -> Array:
    """Natural logarithm: -inf at zero, NaN below."""
    return _evaluate("log", (source,), element)


@quiet
def log2(source: Array, element: str) -> Array:
    """Logarithm to base 2: -inf at zero, NaN below."""
    return _evaluate("log2", (source,), element)


@quiet
def sin(source: Array, element: str) -> Array:
    """Sine of an angle in radians; NaN at infinity."""
    return _evaluate("sin", (source,), element)


@quiet
def cos(source: Array, element: str) -> Array:
    """Cosine of an angle in radians; NaN at infinity."""
    return _evaluate("cos", (source,), element)


@quiet
def tan(source: Array, element: str) -> Array:
    """Tangent of an angle in radians; NaN at infinity."""
    return _evaluate("tan", (source,), element)


@quiet
def sinh(source: Array, element: str) -> Array:
    """Hyperbolic sine."""
    return _evaluate("sinh", (source,), element)


@quiet
def cosh(source: Array, element: str) -> Array:
    """Hyperbolic cosine."""
    return _evaluate("cosh", (source,), element)


@quiet
def fpowf(source: Array, exponent: Array, element: str) -> Array:
    """``source`` to a float power, with the special cases of C's pow; named pow up to 13.3."""
    return _evaluate("fpowf", (source, exponent), element)


@quiet
def fpowi(source: Array, exponent: Array, element: str) -> Array:
    """``source`` to an integer power, read signed. Anything to the power 0 is 1, even NaN.

    An i64 exponent, which Tile IR does not allow here, would be rounded to f64.
    """
    power = as_numbers(exponent, "signed").astype(np.float64)
    if element == "f64":
        return np.asarray(np.power(source, power))
    single = np.asarray(np.power(source.astype(np.float64), power)).astype(np.float32)
    return single.astype(dtype_of(element), copy=False)


@quiet
def atan2(x: Array, y: Array, element: str) -> Array:
    """The angle of the ratio ``x / y`` in the quadrant given by both signs: C's atan2(x, y)."""
    return _evaluate("atan2", (x, y), element)
