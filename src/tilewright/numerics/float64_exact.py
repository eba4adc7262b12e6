"""f64 arithmetic in every rounding direction, and fma.

There is no wider format, so the result rounded to nearest is corrected by the sign of its error,
found by error-free transforms. The few lanes near overflow or underflow, where those transforms
fail, are computed with fractions.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import isqrt

import numpy as np

from tilewright.numerics.arrays import Array
from tilewright.numerics.element_types import FORMATS
from tilewright.numerics.floats import Rounding, bits_to_float, encode
from tilewright.numerics.rounding import round_to_odd, two_product, two_sum

_F64 = FORMATS["f64"]

# Magnitudes within these bounds keep every intermediate of the transforms far from both limits.
_SAFE_LOW = 2.0**-400
_SAFE_HIGH = 2.0**400


def _exact_sqrt(source: Fraction) -> Fraction:
    """Return a value that rounds, in every direction, like the square root of a positive float64."""
    # 2**2400 makes the root an integer of over 600 bits; a final 1 bit represents the rest.
    scaled = source * Fraction(2) ** 2400
    root = isqrt(scaled.numerator // scaled.denominator)
    inexact = root * root != scaled
    return Fraction(2 * root + inexact, 2) / Fraction(2) ** 1200


_EXACT: dict[str, Callable[..., Fraction]] = {
    "addf": lambda lhs, rhs: lhs + rhs,
    "subf": lambda lhs, rhs: lhs - rhs,
    "mulf": lambda lhs, rhs: lhs * rhs,
    "divf": lambda lhs, rhs: lhs / rhs,
    "sqrt": _exact_sqrt,
    "fma": lambda lhs, rhs, acc: lhs * rhs + acc,
}


def _exact_lane(op: str, operands: tuple[float, ...], rounding: Rounding) -> float:
    """Compute one lane with finite operands and a nonzero exact result, or an exact zero."""
    exact = _EXACT[op](*(Fraction(operand) for operand in operands))
    if exact:
        return bits_to_float(encode(exact, _F64, rounding), _F64)
    return -0.0 if rounding == "negative_inf" else 0.0


def _step(nearest: Array, error: Array, rounding: Rounding) -> Array:
    """Round ``nearest + error`` in a direction, where ``nearest`` is the closest float64."""
    if rounding == "nearest_even":
        return nearest
    below, above = error < 0, error > 0
    if rounding == "negative_inf":
        return np.where(below, np.nextafter(nearest, -np.inf), nearest)
    if rounding == "positive_inf":
        return np.where(above, np.nextafter(nearest, np.inf), nearest)
    too_far = np.where(nearest > 0, below, above)
    return np.where(too_far, np.nextafter(nearest, 0.0), nearest)


def _safe(*arrays: Array) -> Array:
    """Return the lanes where all magnitudes are safe; zeros are not."""
    magnitudes = [np.abs(array) for array in arrays]
    return np.logical_and.reduce(
        [(magnitude > _SAFE_LOW) & (magnitude < _SAFE_HIGH) for magnitude in magnitudes]
    )


def _product_with_error(lhs: Array, rhs: Array) -> tuple[Array, Array, Array]:
    product, error = two_product(lhs, rhs)
    return product, error, _safe(lhs, rhs)


def _sum_with_error(lhs: Array, rhs: Array) -> tuple[Array, Array, Array]:
    total, error = two_sum(lhs, rhs)
    # Sums do not underflow, so only the upper limit matters.
    return total, error, (np.abs(lhs) < 2.0**1000) & (np.abs(rhs) < 2.0**1000)


def _difference_with_error(lhs: Array, rhs: Array) -> tuple[Array, Array, Array]:
    return _sum_with_error(lhs, -rhs)


def _quotient_with_error(lhs: Array, rhs: Array) -> tuple[Array, Array, Array]:
    quotient = lhs / rhs
    product, error = two_product(quotient, rhs)
    return quotient, ((lhs - product) - error) * np.sign(rhs), _safe(lhs, rhs)


def _root_with_error(source: Array) -> tuple[Array, Array, Array]:
    root = np.sqrt(source)
    square, error = two_product(root, root)
    return root, (source - square) - error, _safe(source)


def _fma_with_error(lhs: Array, rhs: Array, acc: Array) -> tuple[Array, Array, Array]:
    """Boldo and Melquiond: the low parts are summed to odd, so that the final sum rounds once."""
    product, product_error = two_product(lhs, rhs)
    low_sum, low_error = two_sum(acc, product_error)
    high_sum, high_error = two_sum(product, low_sum)
    rest, rest_error = two_sum(low_error, high_error)
    total, error = two_sum(high_sum, round_to_odd(rest, rest_error))
    acc_is_safe = (acc == 0) | _safe(acc)
    return total, error, _safe(lhs, rhs) & acc_is_safe


_WITH_ERROR: dict[str, Callable[..., tuple[Array, Array, Array]]] = {
    "addf": _sum_with_error,
    "subf": _difference_with_error,
    "mulf": _product_with_error,
    "divf": _quotient_with_error,
    "sqrt": _root_with_error,
    "fma": _fma_with_error,
}

_IEEE: dict[str, Callable[..., Array]] = {
    "addf": np.add,
    "subf": np.subtract,
    "mulf": np.multiply,
    "divf": np.divide,
    "sqrt": np.sqrt,
    "fma": lambda lhs, rhs, acc: lhs * rhs + acc,
}


def cancel_to_negative_zero(result: Array, op: str, operands: tuple[Array, ...]) -> Array:
    """Return ``result`` with -0 where a sum of opposite values is exactly zero, as for downward rounding.

    For addf, subf and fma. A sum of two zeros of the same sign keeps that sign.
    """
    if op == "fma":
        first, second = operands[0] * operands[1], operands[2]
    else:
        first, second = operands
    negative_second = np.signbit(second) ^ (op == "subf")
    opposite = np.signbit(first) != negative_second
    return np.where((result == 0) & opposite, -0.0, result)


def _is_special(op: str, operands: tuple[Array, ...]) -> Array:
    """Return the lanes whose result needs no rounding: nonfinite operands, division by zero, and so on."""
    mask = np.logical_or.reduce([~np.isfinite(operand) for operand in operands])
    if op in ("mulf", "divf"):
        return mask | (operands[0] == 0) | (operands[1] == 0)
    if op == "sqrt":
        return mask | (operands[0] <= 0)
    return mask


def directed(op: str, operands: tuple[Array, ...], rounding: Rounding) -> Array:
    """Compute ``op`` in f64, rounded once in the given direction. Also computes fma to nearest even.

    ``op`` is addf, subf, mulf, divf, sqrt or fma, its operands f64 arrays of one shape. Infinities, NaN and zeros are
    those of IEEE 754.
    """
    if op == "fma":
        return _fma(operands, rounding)
    nearest, error, safe = _WITH_ERROR[op](*operands)
    result = _step(nearest, error, rounding)
    if op in ("addf", "subf") and rounding == "negative_inf":
        result = cancel_to_negative_zero(result, op, operands)
    special = _is_special(op, operands)
    result = np.where(special, _IEEE[op](*operands), result)
    return _replace_hard_lanes(op, operands, rounding, np.asarray(result), ~(special | safe))


def _fma(operands: tuple[Array, ...], rounding: Rounding) -> Array:
    lhs, rhs, acc = operands
    nearest, error, safe = _fma_with_error(lhs, rhs, acc)
    result = _step(nearest, error, rounding)
    if rounding == "negative_inf":
        # If the product underflows, its computed zero is not exact: a hard lane, redone below.
        result = cancel_to_negative_zero(result, "fma", operands)
    special = _is_special("fma", operands)
    # An infinite or NaN operand determines the result, unless the finite product overflows.
    finite_product = np.isfinite(lhs) & np.isfinite(rhs)
    ieee = np.where(finite_product, acc, lhs * rhs + acc)
    result = np.where(special, ieee, result)
    zero_product = ((lhs == 0) | (rhs == 0)) & ~special
    plain = acc + lhs * rhs
    if rounding == "negative_inf":
        plain = cancel_to_negative_zero(plain, "fma", operands)
    result = np.where(zero_product, plain, result)
    hard = ~(special | safe | zero_product)
    return _replace_hard_lanes("fma", operands, rounding, np.asarray(result), hard)


def _replace_hard_lanes(
    op: str, operands: tuple[Array, ...], rounding: Rounding, result: Array, hard: Array
) -> Array:
    if not hard.any():
        return result
    operands = tuple(np.broadcast_to(operand, result.shape) for operand in operands)
    lanes = zip(*(operand[hard].tolist() for operand in operands), strict=True)
    result[hard] = [_exact_lane(op, lane, rounding) for lane in lanes]
    return result
