"""Conversions between element types.

Every function takes an array, its element name, and keywords: ``to`` names the element type of the
result, the others are attributes as Tile IR spells them.

Tile IR leaves cells of the conversion tables open. What is chosen here:

* NaN to f8E4M3FN gives its NaN pattern 0x7F, as the hardware does; NaN to f4E2M1FN gives +6.
* Infinities and everything out of range saturate to the largest value, with their sign, in every
  8-bit and 4-bit float type, f8E8M0FNU and f8E5M3FNU included.
* f8E8M0FNU and f8E5M3FNU take the magnitude of negative values, as CUDA's conversion to f8E8M0FNU
  does. Zero and what is below the range of f8E8M0FNU become its smallest value, 2**-127.
* ftoi always clamps, and maps NaN to 0, whether `saturating` is set or not;
  ``ftoi_undefined`` tells the lanes where that is a choice.
"""

from __future__ import annotations

import numpy as np

from tilewright.numerics import float64_exact
from tilewright.numerics.arrays import (
    Array,
    bits_of,
    dtype_of,
    from_bits,
    from_bytes,
    to_bytes,
    unsigned_view,
)
from tilewright.numerics.element_types import FORMATS
from tilewright.numerics.floats import Overflow, Rounding
from tilewright.numerics.int_ops import as_numbers
from tilewright.numerics.rounding import quiet, round_float64, round_to_odd, to_float64, two_sum
from tilewright.numerics.widening import as_f32

# Where NumPy's own conversion is right: it is exact, or rounds once to nearest even.
_EXACT = frozenset(
    {(source, "f32") for source in ("f16", "bf16", "tf32")}
    | {(source, "f64") for source in ("f16", "bf16", "tf32", "f32")}
)
_NEAREST_EVEN = frozenset(
    {("f64", "f32"), ("f64", "f16"), ("f32", "f16"), ("f32", "bf16"), ("tf32", "f16")}
)


@quiet
def ftof(source: Array, element: str, *, to: str, rounding: Rounding = "nearest_even") -> Array:
    """Float to float, rounded once; overflow as told at the head of this module.

    Types of 16 bits and more overflow as IEEE arithmetic does: to infinity, or to the largest
    value where the direction is towards zero.
    """
    pair = (element, to)
    if pair == ("f16", "f32"):
        return as_f32(source)
    if pair in _EXACT or (rounding == "nearest_even" and pair in _NEAREST_EVEN):
        return np.asarray(source.astype(dtype_of(to)))
    wide = np.asarray(to_float64(source, element))
    if to == "f64":
        return wide
    return round_float64(wide, to, rounding, _overflow_of(to))


@quiet
def written_floats(numbers: Array, to: str) -> Array:
    """The elements that f64 numbers stand for where they are written as constants: the nearest; unlike
    by ``ftof`` infinities stay what they are in every type that has them."""
    wide = numbers.astype(np.float64)
    if to == "f64" or not FORMATS[to].has_inf:
        return ftof(wide, "f64", to=to)
    return round_float64(wide, to, "nearest_even", "natural")


def _overflow_of(to: str) -> Overflow:
    return "saturate" if FORMATS[to].bits <= 8 else "natural"


def _integer_bounds(to: str, signedness: str) -> tuple[int, int]:
    bits = FORMATS[to].bits
    if signedness == "unsigned":
        return 0, (1 << bits) - 1
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


@quiet
def ftoi(
    source: Array,
    element: str,
    *,
    to: str,
    signedness: str,
    rounding: str = "nearest_int_to_zero",
    saturating: bool = False,
) -> Array:
    """Float to integer, truncated and clamped to the range of ``to``; NaN gives 0."""
    low, high = _integer_bounds(to, signedness)
    whole = np.trunc(to_float64(source, element))
    # high + 1 is a power of two, so exact; high itself is not for 64 bits.
    too_high, too_low = whole >= high + 1, whole < low
    inside = np.where(too_high | too_low | np.isnan(whole), 0.0, whole)
    carrier = np.int64 if signedness == "signed" else np.uint64
    clamped = np.where(
        too_high, carrier(high), np.where(too_low, carrier(low), inside.astype(carrier))
    )
    return _narrowed(clamped.view(np.int64), to)


@quiet
def ftoi_undefined(source: Array, element: str, *, to: str, signedness: str) -> Array:
    """Lanes whose truncated value does not fit, NaN included.

    Without `saturating` their result is undefined from version 13.3 on.
    """
    low, high = _integer_bounds(to, signedness)
    whole = np.trunc(to_float64(source, element))
    return np.asarray(~((whole >= low) & (whole < high + 1)))


@quiet
def itof(
    source: Array, element: str, *, to: str, signedness: str, rounding: Rounding = "nearest_even"
) -> Array:
    """Integer to float, rounded once.

    f16 overflows to infinity; the 8-bit and 4-bit types saturate to their largest value.
    """
    numbers = as_numbers(source, signedness)
    if rounding == "nearest_even" and to in ("f32", "f64"):
        return np.asarray(numbers.astype(dtype_of(to)))
    # Two exact halves: float64 holds 53 bits of an integer, not 64.
    wide = numbers.astype(np.int64 if signedness == "signed" else np.uint64)
    high = np.ldexp((wide >> wide.dtype.type(32)).astype(np.float64), 32)
    low = (wide & wide.dtype.type(0xFFFFFFFF)).astype(np.float64)
    if to == "f64":
        return float64_exact.directed("addf", (high, low), rounding)
    nearest, error = two_sum(high, low)
    return round_float64(round_to_odd(nearest, error), to, rounding, _overflow_of(to))


def _narrowed(numbers: Array, to: str) -> Array:
    """Integers reduced modulo 2**N into the dtype of ``to``."""
    if FORMATS[to].bits <= 4:
        return from_bits(unsigned_view(np.asarray(numbers)), to)
    return np.asarray(numbers).astype(dtype_of(to), copy=False)


def exti(source: Array, element: str, *, to: str, signedness: str) -> Array:
    """Integer to a wider integer; ``unsigned`` fills with zeros, ``signed`` with the sign."""
    numbers = as_numbers(source, signedness)
    if element == "i4" and signedness == "unsigned":
        numbers = numbers & np.uint8(0x0F)
    return np.asarray(numbers).astype(dtype_of(to))


def trunci(source: Array, element: str, *, to: str, overflow: str = "none") -> Array:
    """The low bits of an integer."""
    return _narrowed(source, to)


def trunci_wraps(source: Array, element: str, *, to: str) -> tuple[Array, Array]:
    """Lanes that trunci changes, ``(read signed, read unsigned)``; see ``int_ops.wraps``."""
    kept = trunci(source, element, to=to)
    signed = exti(kept, to, to=element, signedness="signed")
    unsigned = exti(kept, to, to=element, signedness="unsigned")
    return np.asarray(signed != source), np.asarray(unsigned != source)


def bitcast(source: Array, element: str, *, to: str) -> Array:
    """The same bits as another type of the same width."""
    return from_bits(bits_of(source, element), to)


def pack(source: Array, element: str) -> Array:
    """The memory image of a rank-1 tile as i8 elements; i1 elements take one bit, low bits first."""
    if element == "i1":
        return np.packbits(source, bitorder="little").view(np.int8)
    return np.frombuffer(to_bytes(source, element), np.int8).copy()


def unpack(source: Array, element: str = "i8", *, to: str) -> Array:
    """The elements whose memory image is a rank-1 i8 tile; the inverse of ``pack``."""
    raw = np.ascontiguousarray(source).view(np.uint8)
    if to == "i1":
        return np.unpackbits(raw, bitorder="little").astype(np.bool_)
    return from_bytes(raw, to, raw.size * 8 // FORMATS[to].storage_bits)
