"""Conversions between element types.

Every function takes an array, its element name, and keywords: ``to`` is the element type of the
result, the others are attributes as Tile IR spells them.

Choices for cells of the conversion tables that Tile IR leaves open:

* NaN to f8E4M3FN yields its NaN pattern 0x7F, as in hardware; NaN to f4E2M1FN yields +6.
* Infinities and values out of range saturate to the largest value, with their sign, in every
  8-bit and 4-bit float type, including f8E8M0FNU and f8E5M3FNU.
* f8E8M0FNU and f8E5M3FNU take the magnitude of negative values, like CUDA's conversion to
  f8E8M0FNU. Zero and values below the range of f8E8M0FNU become its smallest value, 2**-127.
* ftoi always clamps, and maps NaN to 0, whether or not `saturating` is set;
  ``ftoi_undefined`` identifies the lanes where this is a choice.
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

# Conversions for which NumPy is right: exact, or rounded once to nearest even.
_EXACT = frozenset(
    {(source, "f32") for source in ("f16", "bf16", "tf32")}
    | {(source, "f64") for source in ("f16", "bf16", "tf32", "f32")}
)
_NEAREST_EVEN = frozenset(
    {("f64", "f32"), ("f64", "f16"), ("f32", "f16"), ("f32", "bf16"), ("tf32", "f16")}
)


@quiet
def ftof(source: Array, element: str, *, to: str, rounding: Rounding = "nearest_even") -> Array:
    """Float to float, rounded once. For overflow see the module's documentation.

    Types of 16 bits and more overflow as in IEEE 754: to infinity, or to the largest value if the rounding direction
    is towards zero. ``rounding`` may be any direction; ``legality`` says which ones the specification allows.
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
    """Return the elements that f64 numbers denote in constants: the nearest ones. Unlike ``ftof``, infinities
    stay infinite in every type that has them."""
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
    """Float to integer, truncated and clamped to the range of ``to``; NaN becomes 0.

    That is what the specification asks with ``saturating`` (13.4), and before 13.3 of every conversion but of
    infinities; else it leaves these lanes undefined, see ``ftoi_undefined``.
    """
    low, high = _integer_bounds(to, signedness)
    whole = np.trunc(to_float64(source, element))
    # high + 1 is a power of two, hence exact; high itself is not for 64 bits.
    too_high, too_low = whole >= high + 1, whole < low
    inside = np.where(too_high | too_low | np.isnan(whole), 0.0, whole)
    carrier = np.int64 if signedness == "signed" else np.uint64
    clamped = np.where(
        too_high, carrier(high), np.where(too_low, carrier(low), inside.astype(carrier))
    )
    return _narrowed(clamped.view(np.int64), to)


@quiet
def ftoi_undefined(source: Array, element: str, *, to: str, signedness: str) -> Array:
    """Return the lanes whose truncated value does not fit, including NaN: bools, of the shape of ``source``.

    Without `saturating`, their result is undefined from version 13.3 on.
    """
    low, high = _integer_bounds(to, signedness)
    whole = np.trunc(to_float64(source, element))
    return np.asarray(~((whole >= low) & (whole < high + 1)))


@quiet
def itof(
    source: Array, element: str, *, to: str, signedness: str, rounding: Rounding = "nearest_even"
) -> Array:
    """Integer to float, rounded once.

    f16 overflows to infinity; 8-bit and 4-bit types saturate to their largest value. A signed i1 is 0 or -1.
    """
    numbers = as_numbers(source, signedness)
    if rounding == "nearest_even" and to in ("f32", "f64"):
        return np.asarray(numbers.astype(dtype_of(to)))
    # Two exact halves, since float64 holds 53 bits of an integer, not 64.
    wide = numbers.astype(np.int64 if signedness == "signed" else np.uint64)
    high = np.ldexp((wide >> wide.dtype.type(32)).astype(np.float64), 32)
    low = (wide & wide.dtype.type(0xFFFFFFFF)).astype(np.float64)
    if to == "f64":
        return float64_exact.directed("addf", (high, low), rounding)
    nearest, error = two_sum(high, low)
    return round_float64(round_to_odd(nearest, error), to, rounding, _overflow_of(to))


def _narrowed(numbers: Array, to: str) -> Array:
    """Return integers modulo 2**N in the dtype of ``to``."""
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
    """The low bits of an integer. ``overflow`` is an assertion, which ``trunci_wraps`` checks."""
    return _narrowed(source, to)


def trunci_wraps(source: Array, element: str, *, to: str) -> tuple[Array, Array]:
    """Return the lanes that trunci changes, ``(read signed, read unsigned)``; see ``int_ops.wraps``.

    The first is where the dropped bits differ from the sign that is left, the second where they are not 0.
    """
    kept = trunci(source, element, to=to)
    signed = exti(kept, to, to=element, signedness="signed")
    unsigned = exti(kept, to, to=element, signedness="unsigned")
    return np.asarray(signed != source), np.asarray(unsigned != source)


def bitcast(source: Array, element: str, *, to: str) -> Array:
    """The same bits as another type of the same width. Which pairs are legal is the verifier's matter."""
    return from_bits(bits_of(source, element), to)


def pack(source: Array, element: str) -> Array:
    """Return the memory image of a rank-1 tile as i8 elements; i1 elements take one bit, low bits first.

    Bytes are little-endian; of two 4-bit elements in a byte the first is in the low bits. The result is a new array.
    """
    if element == "i1":
        return np.packbits(source, bitorder="little").view(np.int8)
    return np.frombuffer(to_bytes(source, element), np.int8).copy()


def unpack(source: Array, element: str = "i8", *, to: str) -> Array:
    """Return the elements whose memory image is a rank-1 i8 tile, the inverse of ``pack``, in a new array."""
    raw = np.ascontiguousarray(source).view(np.uint8)
    if to == "i1":
        return np.unpackbits(raw, bitorder="little").astype(np.bool_)
    return from_bytes(raw, to, raw.size * 8 // FORMATS[to].storage_bits)
