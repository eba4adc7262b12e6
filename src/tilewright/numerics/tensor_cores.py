"""Matrix products as the tensor cores of NVIDIA GPUs compute them.

The PTX ISA does not specify how floats are added inside ``mma`` and ``wgmma``. Published measurements
agree on one model, which is the default here: k is divided into chunks. In each chunk, all products
and the accumulator are aligned to the largest exponent among them, truncated towards zero below a
fixed number of fraction bits, and added exactly. The sum is converted to the accumulator's type,
towards zero for f32. Use this mode to compare with hardware, and another one for results that must not
depend on the GPU generation.

``tensor-core``
    The model.
``exact``
    The exact sum of all products and the accumulator, rounded once, to nearest even.
``portable``
    Starting from the accumulator, one product after another in ascending k; each sum is rounded to
    f32, to nearest even, and the result to the accumulator's type.
``rough``
    In f32, in any order. For observing what a kernel does rather than what it computes; not a launch mode.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from tilewright.numerics.arrays import Array
from tilewright.numerics.float_ops import fma
from tilewright.numerics.rounding import quiet

Mode = Literal["tensor-core", "exact", "portable", "rough"]
MODES: tuple[Mode, ...] = ("tensor-core", "exact", "portable")

#: The least exponent of normal numbers, which subnormal ones share.
_LEAST_EXPONENT = {
    "f16": -14,
    "bf16": -126,
    "tf32": -126,
    "f32": -126,
    "f8E4M3FN": -6,
    "f8E5M2": -14,
}
#: Masks of a float64 pattern that keep its first 14 or 24 significant bits.
_KEPT_BITS = {n: np.uint64(0xFFFFFFFFFFFFFFFF << (53 - n) & 0xFFFFFFFFFFFFFFFF) for n in (14, 24)}
# Sums of terms aligned above this are not subnormal in f32.
_MAY_BE_SUBNORMAL = 2.0**-90
#: The least power that sums are aligned to.
_LEAST_POWER, _MOST_POWER = 2.0**-126, 2.0**1000
_EXPONENT_BITS = np.uint64(0x7FF0000000000000)
#: Elements whose products are in the range of f32.
_NARROW = frozenset({"f16", "f8E4M3FN", "f8E5M2"})
#: For other elements: the bound on exponents, and the least result size for which checking them pays.
_NEAR, _LARGE = 50, 2048
# The number of sums of a chunk computed at a time, so that they stay in cache.
_BATCH = 1 << 15
_CANONICAL_NAN = {2: (np.uint16, 0x7FFF), 4: (np.uint32, 0x7FFFFFFF)}


@dataclass(frozen=True, slots=True)
class Unit:
    """How a tensor core adds.

    ``fraction_bits`` are kept below the largest exponent, ``chunk`` products are added at a time, and
    an f32 result keeps ``precision`` significant bits of a sum.
    """

    fraction_bits: int
    chunk: int
    precision: int = 24


def unit_of(instruction: Literal["mma", "wgmma"], element: str, compute: int) -> Unit:
    """Return the unit that multiplies elements of a type; ``compute`` is 80, 89, 90 ...

    Ampere's and Ada's (below 90) add 16 bytes of each operand along k at a time, Hopper's and later 32. Measured, not
    documented by the PTX ISA (see the module).
    """
    size = {"tf32": 4, "f16": 2, "bf16": 2}.get(element, 1)
    is_fp8 = size == 1
    if instruction == "wgmma":
        return Unit(13, 32, 14) if is_fp8 else Unit(25, 32 // size)
    if compute >= 90:
        return Unit(25, 32 // size)
    if is_fp8:
        return Unit(13, 16, 14)
    return Unit(24, 16 // size)


@quiet
def multiply_add(
    lhs: Array,
    rhs: Array,
    acc: Array,
    element: str,
    unit: Unit,
    mode: Mode = "tensor-core",
    right_element: str = "",
) -> Array:
    """``lhs @ rhs + acc`` for floats of at most 32 bits, in the dtype of ``acc`` (f16 or f32).

    (m, k), (k, n) and (m, n); the result is a new array. ``element`` is the type of both operands, or of the left one
    if ``right_element`` is given. The low 13 bits of ``tf32`` operands are ignored.
    """
    if mode == "rough":
        return (lhs.astype(np.float32) @ rhs.astype(np.float32) + acc).astype(acc.dtype)
    if mode == "tensor-core":
        left, right = lhs.T[:, :, None], rhs[:, None, :]
        return sum_of_products(left, right, acc, element, unit, right_element)
    if element == "tf32":
        lhs, rhs = _cut(lhs), _cut(rhs)
    found = _finite(lhs, rhs, acc, mode)
    if np.isfinite(found).all():
        return found
    special = _special(lhs.T[:, :, None], rhs[:, None, :], acc)
    lhs, rhs, acc = (_without_special(x) for x in (lhs, rhs, acc))
    return _with_special(_finite(lhs, rhs, acc, mode), special)


@quiet
def rough_sum_of_products(left: Array, right: Array, acc: Array) -> Array:
    """``sum_of_products`` in the mode ``rough``."""
    products = np.multiply(left, right, dtype=np.float32)
    return (np.add.reduce(products, axis=0) + acc).astype(acc.dtype)


@quiet
def sum_of_products(
    left: Array, right: Array, acc: Array, element: str, unit: Unit, right_element: str = ""
) -> Array:
    """``(left * right).sum(axis=0) + acc`` as tensor cores compute it, in the dtype of ``acc``.

    The first axis is k. The other axes of both operands broadcast to the shape of ``acc``, so that many
    products are computed at once.
    """
    if element == "tf32":
        left, right = _cut(left), _cut(right)
    elements = element, right_element or element
    found = _chunked(left, right, acc, elements, unit)
    if np.isfinite(found).all():
        return found
    special = _special(left, right, acc)
    left, right, acc = (_without_special(x) for x in (left, right, acc))
    return _with_special(_chunked(left, right, acc, elements, unit, overflows=True), special)


def _finite(lhs: Array, rhs: Array, acc: Array, mode: Mode) -> Array:
    """The result of the other modes for finite operands. Where the correct result is not finite, the returned
    value is not finite either."""
    a, b, c = (x.astype(np.float64) for x in (lhs, rhs, acc))
    if mode == "portable":
        return _portable(a, b, c, acc.dtype)
    if not all(np.isfinite(x).all() for x in (a, b, c)):
        return np.full_like(acc, np.nan)
    return _exact(a, b, c, acc.dtype)


def multiply_add_f64(lhs: Array, rhs: Array, acc: Array) -> Array:
    """``multiply_add`` for f64 in every mode: fused multiply-adds in ascending k.

    (m, k), (k, n) and (m, n).
    """
    total = acc
    for k in range(lhs.shape[1]):
        left = np.broadcast_to(lhs[:, k, None], acc.shape)
        right = np.broadcast_to(rhs[None, k, :], acc.shape)
        total = fma(left, right, total, "f64")
    return total


def multiply_add_integers(lhs: Array, rhs: Array, acc: Array, *, saturating: bool) -> Array:
    """The exact product and sum of small integers as i32: clamped, or modulo 2**32.

    Leading axes hold several products.
    """
    # Sums of 16-bit products are exact in float64, whose matmul is much faster.
    product = (lhs.astype(np.float64) @ rhs.astype(np.float64)).astype(np.int64) + acc
    if saturating:
        product = np.clip(product, -(1 << 31), (1 << 31) - 1)
    return product.astype(np.int32)


def _cut(array: Array) -> Array:
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32) & np.uint32(0xFFFFE000)
    return bits.view(np.float32)


def _leading_powers(array: Array) -> Array:
    """Return the largest powers of two in float64 numbers: 0 for zero, infinity if not finite."""
    return (array.view(np.uint64) & _EXPONENT_BITS).view(np.float64)


def _stored_powers(array: Array, element: str) -> Array:
    """Like ``_leading_powers``, with the exponents stored in the elements' type; in float64."""
    wide = np.ascontiguousarray(array, np.float64)
    found = np.maximum(_leading_powers(wide), 2.0 ** _LEAST_EXPONENT[element])
    return np.where(wide == 0, 0.0, found)


@cache
def _tables(dtype: np.dtype, element: str, working: type) -> tuple[Array, Array]:
    """Return values and powers of all numbers of a type of at most 16 bits, indexed by their bits."""
    numbers = np.arange(1 << 8 * dtype.itemsize).astype(f"u{dtype.itemsize}").view(dtype)
    return numbers.astype(working), _stored_powers(numbers, element).astype(working)


def _values_and_powers(array: Array, element: str, working: type) -> tuple[Array, Array]:
    array = np.ascontiguousarray(array)
    if array.itemsize > 2:
        return array.astype(working), _stored_powers(array, element).astype(working)
    values, powers = _tables(array.dtype, element, working)
    bits = array.view(f"u{array.itemsize}")
    return values[bits], powers[bits]


def _narrows(left: Array, right: Array, acc: Array, element: str, unit: Unit) -> bool:
    """Whether products are exact in f32 and in range, and scaled sums in range of i32.

    Factors have up to 11 significant bits, and scaled products are below
    ``2 ** (fraction_bits + 2)``.
    """
    if unit.chunk << (unit.fraction_bits + 2) > 1 << 31:
        return False
    if element in _NARROW:
        return True
    # Scanning all numbers takes longer than a small product.
    return acc.size >= _LARGE and _is_near_one(left) and _is_near_one(right)


def _is_near_one(array: Array) -> bool:
    """Whether all nonzero numbers are in a range whose products f32 can represent."""
    magnitudes = np.abs(array.astype(np.float32))
    most, least = magnitudes.max(initial=0), magnitudes.min(where=magnitudes != 0, initial=1)
    return bool(most < 2.0**_NEAR and least >= 2.0**-_NEAR)


def _chunked(
    left: Array,
    right: Array,
    acc: Array,
    elements: tuple[str, str],
    unit: Unit,
    *,
    overflows: bool = False,
) -> Array:
    """Add chunk by chunk. Exponents are held as powers of two, so sums of exponents are exact products.

    A value that is not finite has an infinite power, which makes the result nonfinite. So does a sum that
    overflows before the last chunk, unless ``overflows`` is set, in which case it stays infinite.
    """
    is_narrow = _narrows(left, right, acc, elements[0], unit)
    working = np.float32 if is_narrow else np.float64
    sum_of = _narrow_sum if is_narrow else _wide_sum
    left, left_powers = _values_and_powers(left, elements[0], working)
    right, right_powers = _values_and_powers(right, elements[1], working)
    if right.shape[-1] == 1 and acc.ndim > 2:
        # NumPy is slow on short inner loops with one constant operand.
        right, right_powers = (x.repeat(acc.shape[-1], axis=-1) for x in (right, right_powers))
    wide = acc.astype(np.float64)
    is_half = acc.dtype == np.float16
    step = max(1, _BATCH * acc.shape[0] // (unit.chunk * max(acc.size, 1)))
    raised = 2.0**unit.fraction_bits
    found = np.empty(acc.shape, acc.dtype)
    for top in range(0, acc.shape[0], step):
        total = wide[top : top + step]
        for k in range(0, left.shape[0], unit.chunk):
            chunk = slice(k, k + unit.chunk), slice(top, top + step)
            of_left = chunk if left.shape[1] > 1 else chunk[0]
            of_right = chunk if right.shape[1] > 1 else chunk[0]
            products = left[of_left] * right[of_right]
            powers = left_powers[of_left] * right_powers[of_right]
            # Zero or subnormal f32 accumulators are raised with the rest.
            own = _stored_powers(total, "f16") if is_half else _leading_powers(total)
            largest = np.maximum(np.maximum.reduce(powers, axis=0), own)
            np.maximum(largest, _LEAST_POWER, out=largest)
            if overflows:
                np.minimum(largest, _MOST_POWER, out=largest)
            scale = raised / largest
            summed = sum_of(products, scale)
            summed += np.trunc(total * scale)
            summed *= largest
            summed *= 1 / raised
            total = _converted(summed, unit.precision, acc.dtype, largest)
        found[top : top + step] = total
    return found


def _wide_sum(products: Array, scale: Array) -> Array:
    """Sum products multiplied by a scale and truncated below one. Overwrites the products."""
    products *= scale
    np.trunc(products, out=products)
    return np.add.reduce(products, axis=0)


def _narrow_sum(products: Array, scale: Array) -> Array:
    """Like ``_wide_sum``, in f32 and i32. A scale out of range of f32 occurs only for all-zero products."""
    products *= np.minimum(scale, 2.0**127).astype(np.float32)
    return np.add.reduce(products.astype(np.int32), axis=0, dtype=np.int32).astype(np.float64)


def _converted(values: Array, precision: int, dtype: np.dtype, largest: Array) -> Array:
    """Convert exact sums to numbers of the accumulator's type, in float64.

    ``largest``: the powers that the terms of the sums were aligned to.
    """
    if dtype == np.float16:
        return values.astype(np.float16).astype(np.float64)
    cut = (values.view(np.uint64) & _KEPT_BITS[precision]).view(np.float64)
    if np.minimum.reduce(largest, axis=None) < _MAY_BE_SUBNORMAL:
        quantum = 2.0 ** -(126 + precision - 1)
        cut = np.where(np.abs(cut) < 2.0**-126, np.trunc(values / quantum) * quantum, cut)
    # Values too large become infinite; an exact sum of zero is +0.
    return cut.astype(np.float32).astype(np.float64) + 0.0


def _exact(a: Array, b: Array, c: Array, dtype: np.dtype) -> Array:
    found = np.empty(c.shape, dtype)
    columns = np.ascontiguousarray(b.T)
    for i in range(c.shape[0]):
        rows = (a[i] * columns).tolist()
        for j, terms in enumerate(rows):
            found[i, j] = _rounded_sum([*terms, float(c[i, j])], dtype)
    return found


def _rounded_sum(terms: list[float], dtype: np.dtype) -> np.floating:
    """Return the exact sum, rounded once."""
    near = math.fsum(terms)
    rest = math.fsum([*terms, -near])
    if rest:
        # Prevent double rounding of a sum that float64 rounds to a tie of the narrow type.
        toward = math.nextafter(near, math.copysign(math.inf, rest))
        if float(dtype.type(near)) != float(dtype.type(toward)):
            near = toward
    return dtype.type(near)


def _portable(a: Array, b: Array, c: Array, dtype: np.dtype) -> Array:
    total = c.astype(np.float32)
    for k in range(a.shape[1]):
        total = (total + a[:, k, None] * b[None, k, :]).astype(np.float32)
    return total.astype(dtype)


def _special(left: Array, right: Array, acc: Array) -> Array:
    """Return NaN or an infinity where the result is one, else 0; operands as in ``sum_of_products``."""
    left, right, total = (x.astype(np.float64) for x in (left, right, acc))
    total = np.where(np.isfinite(total), 0.0, total)
    for k in range(left.shape[0]):
        product = left[k] * right[k]
        total = total + np.where(np.isfinite(product), 0.0, product)
    return total


def _without_special(array: Array) -> Array:
    return np.where(np.isfinite(array), array, array.dtype.type(0))


def _with_special(found: Array, special: Array) -> Array:
    found = np.where(np.isinf(special), special.astype(found.dtype), found)
    unsigned, bits = _CANONICAL_NAN[found.itemsize]
    found.view(unsigned)[np.isnan(special)] = bits
    return found
