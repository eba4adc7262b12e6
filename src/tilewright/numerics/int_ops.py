"""Element-wise integer operations modulo 2**N, and predicates for undefined results.

Every function takes arrays in the dtypes of ``arrays``, then the element name (i1 to i64), then
attributes as keywords spelled as in Tile IR. Where Tile IR leaves a result undefined, the value
returned here is documented, and a function whose name ends in ``_undefined`` identifies the lanes.

An i1 is 0 or 1 read unsigned, and 0 or -1 read signed. It is computed in i8 and truncated to its
lowest bit.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.numerics.arrays import Array, unsigned_view
from tilewright.numerics.element_types import FORMATS
from tilewright.numerics.rounding import quiet


def as_numbers(array: Array, signedness: str) -> Array:
    """Return the elements read signed or unsigned, in a NumPy integer dtype of that signedness.

    It shares memory with the array where that can be: all but a signed i1. An i4 read unsigned keeps its extended
    sign in the upper bits of the byte.
    """
    if array.dtype == np.bool_:
        number = array.view(np.int8)
        return -number if signedness == "signed" else number.view(np.uint8)
    return array if signedness == "signed" else unsigned_view(array)


def wrap(numbers: Array, like: Array) -> Array:
    """Return numbers modulo 2**N in the dtype of ``like``; may be ``numbers`` itself."""
    if like.dtype == np.bool_:
        return np.asarray(numbers & 1).astype(np.bool_)
    return np.asarray(numbers).astype(like.dtype, copy=False)


def addi(lhs: Array, rhs: Array, element: str, *, overflow: str = "none") -> Array:
    """``lhs + rhs`` modulo 2**N. ``overflow`` is an assertion; ``wraps`` checks it."""
    if element == "i1":
        return np.asarray(lhs ^ rhs)
    return np.asarray(np.add(lhs, rhs))


def subi(lhs: Array, rhs: Array, element: str, *, overflow: str = "none") -> Array:
    """``lhs - rhs`` modulo 2**N. ``overflow`` is as in ``addi``."""
    if element == "i1":
        return np.asarray(lhs ^ rhs)
    return np.asarray(np.subtract(lhs, rhs))


def muli(lhs: Array, rhs: Array, element: str, *, overflow: str = "none") -> Array:
    """``lhs * rhs`` modulo 2**N; for i1 NumPy's product of bools, which is the same. ``overflow`` is as in ``addi``."""
    return np.asarray(np.multiply(lhs, rhs))


def negi(source: Array, element: str, *, overflow: str = "none") -> Array:
    """``-source`` modulo 2**N. The smallest signed number is unchanged, as is every i1. ``overflow`` is as in
    ``addi``.
    """
    return source.copy() if element == "i1" else np.asarray(np.negative(source))


def absi(source: Array, element: str) -> Array:
    """The magnitude of a signed number, to be read unsigned: the smallest number keeps its bits."""
    return source.copy() if element == "i1" else np.asarray(np.absolute(source))


def _multiply_high_64(lhs: Array, rhs: Array) -> Array:
    """Return the upper halves of the 128-bit products of uint64 arrays."""
    low_half = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    lhs_low, lhs_high = lhs & low_half, lhs >> half
    rhs_low, rhs_high = rhs & low_half, rhs >> half
    middle = lhs_high * rhs_low + ((lhs_low * rhs_low) >> half)
    cross = lhs_low * rhs_high + (middle & low_half)
    return lhs_high * rhs_high + (middle >> half) + (cross >> half)


@quiet
def mulhii(x: Array, y: Array, element: str) -> Array:
    """The upper N bits of the 2N-bit product of unsigned operands; always false for i1."""
    if element == "i1":
        return np.zeros(np.broadcast_shapes(x.shape, y.shape), np.bool_)
    lhs, rhs = unsigned_view(x), unsigned_view(y)
    if element == "i64":
        return np.asarray(_multiply_high_64(lhs, rhs)).view(x.dtype)
    product = lhs.astype(np.uint64) * rhs.astype(np.uint64)
    return wrap(product >> np.uint64(FORMATS[element].bits), x)


@quiet
def divi(lhs: Array, rhs: Array, element: str, *, signedness: str, rounding: str = "zero") -> Array:
    """The quotient truncated (``zero``), or rounded down (``negative_inf``) or up (``positive_inf``).

    Undefined for a zero divisor (0 here), and for the smallest number by -1 (the dividend here).
    """
    dividend, divisor = as_numbers(lhs, signedness), as_numbers(rhs, signedness)
    quotient = np.floor_divide(dividend, divisor)
    if rounding == "negative_inf" or (rounding == "zero" and signedness == "unsigned"):
        return wrap(quotient, lhs)
    round_up = (np.remainder(dividend, divisor) != 0) & (divisor != 0)
    if rounding == "zero":
        round_up &= (dividend < 0) != (divisor < 0)
    return wrap(quotient + round_up.astype(quotient.dtype), lhs)


def divi_undefined(lhs: Array, rhs: Array, element: str, *, signedness: str) -> Array:
    """Return the lanes where divi is undefined: a zero divisor, and the smallest signed number by -1."""
    undefined = unsigned_view(rhs) == 0
    if signedness == "signed":
        dividend, divisor = as_numbers(lhs, "signed"), as_numbers(rhs, "signed")
        smallest = -(1 << (FORMATS[element].bits - 1))
        undefined |= (dividend == smallest) & (divisor == -1)
    return np.asarray(undefined)


@quiet
def remi(lhs: Array, rhs: Array, element: str, *, signedness: str) -> Array:
    """``lhs - trunc(lhs / rhs) * rhs``, with the sign of ``lhs``. Undefined by zero; the result here is 0.

    The smallest signed number by -1 yields the mathematical result 0.
    """
    return wrap(np.fmod(as_numbers(lhs, signedness), as_numbers(rhs, signedness)), lhs)


def remi_undefined(lhs: Array, rhs: Array, element: str, *, signedness: str) -> Array:
    """Return the lanes where remi is undefined: a zero divisor."""
    return np.asarray(unsigned_view(rhs) == 0)


def maxi(lhs: Array, rhs: Array, element: str, *, signedness: str) -> Array:
    """The larger operand. For signed i1, false is larger, since true is -1."""
    return wrap(np.maximum(as_numbers(lhs, signedness), as_numbers(rhs, signedness)), lhs)


def mini(lhs: Array, rhs: Array, element: str, *, signedness: str) -> Array:
    """The smaller operand."""
    return wrap(np.minimum(as_numbers(lhs, signedness), as_numbers(rhs, signedness)), lhs)


def andi(lhs: Array, rhs: Array, element: str) -> Array:
    """Bitwise and."""
    return np.asarray(lhs & rhs)


def ori(lhs: Array, rhs: Array, element: str) -> Array:
    """Bitwise or."""
    return np.asarray(lhs | rhs)


def xori(lhs: Array, rhs: Array, element: str) -> Array:
    """Bitwise exclusive or."""
    return np.asarray(lhs ^ rhs)


def shli(lhs: Array, rhs: Array, element: str, *, overflow: str = "none") -> Array:
    """``lhs << rhs`` with ``rhs`` read unsigned; amounts of N or more, which are undefined, yield 0."""
    if element == "i1":
        return np.asarray(lhs & ~rhs)
    # NumPy itself yields 0 for amounts that are negative or too large.
    return np.asarray(np.left_shift(lhs, rhs))


def shri(lhs: Array, rhs: Array, element: str, *, signedness: str) -> Array:
    """``lhs >> rhs`` with ``rhs`` read unsigned; signed fills with the sign, unsigned with zeros.

    Amounts of N or more, which are undefined, leave only the fill.
    """
    if element == "i1":
        return lhs.copy() if signedness == "signed" else np.asarray(lhs & ~rhs)
    if signedness == "signed":
        return np.asarray(np.right_shift(lhs, rhs))
    return np.asarray(np.right_shift(unsigned_view(lhs), unsigned_view(rhs))).view(lhs.dtype)


def shift_too_far(lhs: Array, rhs: Array, element: str) -> Array:
    """Return the lanes of shli or shri whose amount is at least the width, which is undefined."""
    return np.asarray(unsigned_view(rhs) >= FORMATS[element].bits)


#: By ``comparison_predicate``; of floats, those of ordered numbers.
COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less_than": np.less,
    "less_than_or_equal": np.less_equal,
    "greater_than": np.greater,
    "greater_than_or_equal": np.greater_equal,
}


def cmpi(
    lhs: Array, rhs: Array, element: str, *, comparison_predicate: str, signedness: str
) -> Array:
    """Return an i1 array. The predicate is spelled as in Tile IR, such as ``less_than_or_equal``."""
    compare = COMPARISONS[comparison_predicate]
    return np.asarray(compare(as_numbers(lhs, signedness), as_numbers(rhs, signedness)))


# Overflow predicates. Each returns (signed, unsigned) lanes, for operands of i8 to i64, and for i1
# numbers in i8, whose results are then compared with the range of one bit.


def _add_wraps(lhs: Array, rhs: Array) -> tuple[Array, Array]:
    total = lhs + rhs
    return ((lhs ^ total) & (rhs ^ total)) < 0, unsigned_view(total) < unsigned_view(lhs)


def _sub_wraps(lhs: Array, rhs: Array) -> tuple[Array, Array]:
    difference = lhs - rhs
    signed = ((lhs ^ rhs) & (lhs ^ difference)) < 0
    return signed, unsigned_view(lhs) < unsigned_view(rhs)


def _mul_wraps(lhs: Array, rhs: Array) -> tuple[Array, Array]:
    if lhs.dtype != np.int64:
        product = lhs.astype(np.int64) * rhs
        unsigned_product = unsigned_view(lhs).astype(np.uint64) * unsigned_view(rhs)
        largest = np.iinfo(unsigned_view(lhs).dtype).max
        return product != product.astype(lhs.dtype), unsigned_product > largest
    product = lhs * rhs
    high = np.asarray(_multiply_high_64(unsigned_view(lhs), unsigned_view(rhs))).view(np.int64)
    signed_high = high - np.where(lhs < 0, rhs, 0) - np.where(rhs < 0, lhs, 0)
    return signed_high != product >> 63, high != 0


def _shl_wraps(lhs: Array, rhs: Array) -> tuple[Array, Array]:
    shifted = np.asarray(np.left_shift(lhs, rhs))
    back = np.right_shift(unsigned_view(shifted), unsigned_view(rhs))
    return np.right_shift(shifted, rhs) != lhs, back != unsigned_view(lhs)


def _neg_wraps(source: Array) -> tuple[Array, Array]:
    return (source == -source) & (source != 0), source != 0


_WRAPS: dict[str, Callable[..., tuple[Array, Array]]] = {
    "addi": _add_wraps,
    "subi": _sub_wraps,
    "muli": _mul_wraps,
    "shli": _shl_wraps,
    "negi": _neg_wraps,
}

_EXACT_ON_I1: dict[str, Callable[..., Array]] = {
    "addi": np.add,
    "subi": np.subtract,
    "muli": np.multiply,
    "shli": np.left_shift,
    "negi": np.negative,
}


def _i1_wraps(op: str, operands: tuple[Array, ...]) -> tuple[Array, Array]:
    results = []
    for signedness, low, high in (("signed", -1, 0), ("unsigned", 0, 1)):
        numbers = [as_numbers(array, signedness).astype(np.int8) for array in operands]
        if op == "shli":
            numbers[1] = operands[1].view(np.int8)
        exact = _EXACT_ON_I1[op](*numbers)
        results.append(np.asarray((exact < low) | (exact > high)))
    return results[0], results[1]


@quiet
def wraps(op: str, *operands: Array) -> tuple[Array, Array]:
    """Return the lanes whose exact result does not fit: ``(read signed, read unsigned)``.

    ``op`` is addi, subi, muli, negi or shli. `no_signed_wrap` asserts that the first is false
    everywhere, `no_unsigned_wrap` the second, `no_wrap` both. For shli, a lane wraps if shifting back
    does not restore the operand.
    """
    if operands[0].dtype == np.bool_:
        return _i1_wraps(op, operands)
    signed, unsigned = _WRAPS[op](*operands)
    return np.asarray(signed), np.asarray(unsigned)


def breaks_overflow_flag(overflow: str, signed_wraps: Array, unsigned_wraps: Array) -> Array:
    """Return the lanes that violate an `overflow` flag, given the results of ``wraps``; none for the flag ``none``."""
    if overflow == "no_signed_wrap":
        return signed_wraps
    if overflow == "no_unsigned_wrap":
        return unsigned_wraps
    if overflow == "no_wrap":
        return signed_wraps | unsigned_wraps
    return np.zeros_like(signed_wraps)
