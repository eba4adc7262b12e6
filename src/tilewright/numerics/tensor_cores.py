"""Matrix products as the tensor cores of NVIDIA GPUs compute them.

The PTX ISA leaves open how floats are added inside ``mma`` and ``wgmma``. Published measurements
agree on one model, which is the default here: the depth is cut into chunks; of a chunk, all
products and the accumulator are aligned to the largest exponent among them, cut off toward zero
below a fixed number of fraction bits, and added exactly; the sum is converted to the accumulator's
type, toward zero for f32. What is compared with hardware should be compared in this mode; what must
not depend on a generation, in one of the others.

``tensor-core``
    The model.
``exact``
    The exact sum of all products and the accumulator, rounded once, to nearest even.
``portable``
    From the accumulator, one product after the other by ascending k; each sum is rounded to f32,
    to nearest even, and the result to the accumulator's type.
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

Mode = Literal["tensor-core", "exact", "portable"]
MODES: tuple[Mode, ...] = ("tensor-core", "exact", "portable")

#: The least exponent of normal numbers, which subnormal ones keep.
_LEAST_EXPONENT = {
    "f16": -14,
    "bf16": -126,
    "tf32": -126,
    "f32": -126,
    "f8E4M3FN": -6,
    "f8E5M2": -14,
}
#: The bits of a float64 number that its first 14, or 24, significant bits are in.
_KEPT_BITS = {n: np.uint64(0xFFFFFFFFFFFFFFFF << (53 - n) & 0xFFFFFFFFFFFFFFFF) for n in (14, 24)}
# Sums of terms that were aligned above are no subnormal numbers of f32.
_MAY_BE_SUBNORMAL = -90
#: What stands for the exponent of zero: less than that of any product.
_NO_EXPONENT = -8192
# The sums of a chunk that are worked on at a time, so that they stay in the cache.
_BATCH = 1 << 15
_CANONICAL_NAN = {2: (np.uint16, 0x7FFF), 4: (np.uint32, 0x7FFFFFFF)}


@dataclass(frozen=True, slots=True)
class Unit:
    """How a tensor core adds.

    ``fraction_bits`` are kept below the largest exponent, ``chunk`` products are added at a time,
    and ``precision`` significant bits of a sum go into an f32 result.
    """

    fraction_bits: int
    chunk: int
    precision: int = 24


def unit_of(instruction: Literal["mma", "wgmma"], element: str, compute: int) -> Unit:
    """The unit that multiplies elements of a type; ``compute`` is 80, 89, 90 ..."""
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
    lhs: Array, rhs: Array, acc: Array, element: str, unit: Unit, mode: Mode = "tensor-core"
) -> Array:
    """``lhs @ rhs + acc`` of floats of at most 32 bits, in the dtype of ``acc`` (f16 or f32).

    ``element`` is the type of both operands; of ``tf32`` ones the low 13 bits are ignored.
    """
    if element == "tf32":
        lhs, rhs = _cut(lhs), _cut(rhs)
    found = _finite(lhs, rhs, acc, element, unit, mode)
    if np.isfinite(found).all():
        return found
    a, b, c = (x.astype(np.float64) for x in (lhs, rhs, acc))
    special = _special(a, b, c)
    lhs, rhs, acc = (np.where(np.isfinite(x), x, x.dtype.type(0)) for x in (lhs, rhs, acc))
    return _with_special(_finite(lhs, rhs, acc, element, unit, mode), special)


def _finite(lhs: Array, rhs: Array, acc: Array, element: str, unit: Unit, mode: Mode) -> Array:
    """The result for finite operands; for others, something that is not finite in all places
    where the result is not."""
    if mode == "tensor-core":
        return _chunked(lhs, rhs, acc, element, unit)
    a, b, c = (x.astype(np.float64) for x in (lhs, rhs, acc))
    if mode == "portable":
        return _portable(a, b, c, acc.dtype)
    if not all(np.isfinite(x).all() for x in (a, b, c)):
        return np.full_like(acc, np.nan)
    return _exact(a, b, c, acc.dtype)


def multiply_add_f64(lhs: Array, rhs: Array, acc: Array) -> Array:
    """The same for f64 in every mode: one fused multiply-add after the other by ascending k."""
    total = acc
    for k in range(lhs.shape[1]):
        left = np.broadcast_to(lhs[:, k, None], acc.shape)
        right = np.broadcast_to(rhs[None, k, :], acc.shape)
        total = fma(left, right, total, "f64")
    return total


def multiply_add_integers(lhs: Array, rhs: Array, acc: Array, *, saturating: bool) -> Array:
    """The exact product and sum of small integers as i32: clamped, or modulo 2**32."""
    # Sums of 16-bit products are exact in float64, whose matmul is much faster.
    product = (lhs.astype(np.float64) @ rhs.astype(np.float64)).astype(np.int64) + acc
    if saturating:
        product = np.clip(product, -(1 << 31), (1 << 31) - 1)
    return product.astype(np.int32)


def multiply_add_bits(lhs: Array, rhs: Array, acc: Array) -> Array:
    """``acc`` and the number of places where both operands, of bool, are set."""
    product = lhs.astype(np.float64) @ rhs.astype(np.float64)
    return (acc + product.astype(np.int64)).astype(np.int32)


def _cut(array: Array) -> Array:
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32) & np.uint32(0xFFFFE000)
    return bits.view(np.float32)


def _raw_exponents(array: Array) -> Array:
    """Exponents of float64 numbers; less than all others for zeros."""
    return ((array.view(np.int64) >> 52) & 0x7FF) - 1023


def _stored_exponents(array: Array, element: str) -> Array:
    """Exponents as the type of the elements stores them, as int16; least of all for zeros."""
    wide = np.ascontiguousarray(array, np.float64)
    found = np.maximum(_raw_exponents(wide), _LEAST_EXPONENT[element])
    return np.where(wide == 0, _NO_EXPONENT, found).astype(np.int16)


@cache
def _exponent_table(dtype: np.dtype, element: str) -> Array:
    """The exponents of all numbers of a type of at most 16 bits, by their bits."""
    unsigned = np.dtype(f"u{dtype.itemsize}")
    return _stored_exponents(
        np.arange(1 << 8 * dtype.itemsize).astype(unsigned).view(dtype), element
    )


def _exponents(array: Array, element: str) -> Array:
    if array.itemsize > 2:
        return _stored_exponents(array, element)
    bits = np.ascontiguousarray(array).view(f"u{array.itemsize}")
    return _exponent_table(array.dtype, element)[bits]


def _power(exponent: Array) -> Array:
    """``2.0 ** exponent`` of normal float64 numbers."""
    return ((exponent + 1023) << 52).view(np.float64)


def _chunked(lhs: Array, rhs: Array, acc: Array, element: str, unit: Unit) -> Array:
    left = np.ascontiguousarray(lhs.T)
    left_exponents, right_exponents = _exponents(left, element), _exponents(rhs, element)
    left, right, wide = (x.astype(np.float64) for x in (left, rhs, acc))
    is_half = acc.dtype == np.float16
    depth, rows = left.shape
    columns = right.shape[1]
    step = max(1, _BATCH // (unit.chunk * columns))
    found = np.empty((rows, columns), acc.dtype)
    for top in range(0, rows, step):
        part = slice(top, top + step)
        total = wide[part]
        for k in range(0, depth, unit.chunk):
            chunk = slice(k, k + unit.chunk)
            products = left[chunk, part, None] * right[chunk, None, :]
            exponents = left_exponents[chunk, part, None] + right_exponents[chunk, None, :]
            # Those of an accumulator of f32 that is zero or subnormal are raised with the rest.
            own = _exponents(total.astype(np.float16), "f16") if is_half else _raw_exponents(total)
            largest = np.maximum(exponents.max(axis=0), own).astype(np.int64, copy=False)
            np.maximum(largest, -126, out=largest)
            scale = _power(unit.fraction_bits - largest)
            products *= scale
            np.trunc(products, out=products)
            summed = products.sum(axis=0)
            summed += np.trunc(total * scale)
            summed *= _power(largest - unit.fraction_bits)
            total = _converted(summed, unit.precision, acc.dtype, int(largest.min()))
        found[part] = total
    return found


def _converted(values: Array, precision: int, dtype: np.dtype, exponent: int) -> Array:
    """Exact sums as numbers of the accumulator's type, in float64.

    ``exponent``: the least of those that the terms of a sum were aligned to.
    """
    if dtype == np.float16:
        return values.astype(np.float16).astype(np.float64)
    cut = (values.view(np.uint64) & _KEPT_BITS[precision]).view(np.float64)
    if exponent < _MAY_BE_SUBNORMAL:
        quantum = 2.0 ** -(126 + precision - 1)
        cut = np.where(np.abs(cut) < 2.0**-126, np.trunc(values / quantum) * quantum, cut)
    # What is too large becomes infinite; an exact sum of zero is +0.
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
    """The exact sum, rounded once."""
    near = math.fsum(terms)
    rest = math.fsum([*terms, -near])
    if rest:
        # A sum that float64 rounds to the middle of two narrow numbers must not stay there.
        toward = math.nextafter(near, math.copysign(math.inf, rest))
        if float(dtype.type(near)) != float(dtype.type(toward)):
            near = toward
    return dtype.type(near)


def _portable(a: Array, b: Array, c: Array, dtype: np.dtype) -> Array:
    total = c.astype(np.float32)
    for k in range(a.shape[1]):
        total = (total + a[:, k, None] * b[None, k, :]).astype(np.float32)
    return total.astype(dtype)


def _special(a: Array, b: Array, c: Array) -> Array:
    """NaN or an infinity where one comes out, else 0."""
    total = np.where(np.isfinite(c), 0.0, c)
    for k in range(a.shape[1]):
        product = a[:, k, None] * b[None, k, :]
        total = total + np.where(np.isfinite(product), 0.0, product)
    return total


def _with_special(found: Array, special: Array) -> Array:
    found = np.where(np.isinf(special), special.astype(found.dtype), found)
    unsigned, bits = _CANONICAL_NAN[found.itemsize]
    found.view(unsigned)[np.isnan(special)] = bits
    return found
