"""Matrix multiply-accumulate: ``result[i, j] = sum over k of lhs[i, k] * rhs[k, j] + acc[i, j]``.

Operands have rank 2, or rank 3 with a leading batch dimension. Tile IR fixes neither the order of
the float additions, nor their intermediate precision, nor the number of roundings; another
implementation may differ by an error that grows with K. The reference choices are:

* mmaf multiplies and adds in f32 (f64 operands: in f64), then adds the accumulator and rounds
  once to its type. Products of f16 and narrower operands are exact in f32. The order of the
  additions is that of NumPy's dot and matmul.
* mmaf_scaled multiplies operands by their scales and adds in f64, then rounds once to f32.
* mmai is exact modulo 2**32.
"""

from __future__ import annotations

import numpy as np

from tilewright.numerics.arrays import Array, dtype_of
from tilewright.numerics.int_ops import as_numbers
from tilewright.numerics.rounding import quiet, to_float64
from tilewright.numerics.widening import as_f32, as_f64

# With fewer lanes NumPy may treat the axis of a sum as the fast one, along which it adds pairwise.
_MIN_LANES = 8


def multiply_add(lhs: Array, rhs: Array, acc: Array) -> Array:
    """mmaf for operands that are all f32 or all f64: (m, k), (k, n) and (m, n), or three of rank 3. NumPy may warn.

    The result is a new array.
    """
    # For matrices dot makes the same BLAS call as matmul, with less overhead.
    product = np.dot(lhs, rhs) if lhs.ndim == 2 else np.matmul(lhs, rhs)
    return np.add(acc, product, product)


def add_products(lhs: Array, rhs: Array, acc: Array, work: Array) -> Array:
    """Apply ``multiply_add`` to each pair of tiles along the first dimension, in order.

    ``lhs`` is (pairs, m, k), ``rhs`` (pairs, k, n), ``acc`` and the result (m, n). ``work`` has space for one tile
    more than there are pairs, and is overwritten.
    """
    if acc.size < _MIN_LANES:
        for left, right in zip(lhs, rhs, strict=True):
            acc = multiply_add(left, right, acc)
        return acc
    work[0] = acc
    np.matmul(lhs, rhs, work[1:])
    # Along the slow axis of memory NumPy adds row by row, all lanes at once.
    return np.add.reduce(work, 0)


@quiet
def mmaf(
    lhs: Array, rhs: Array, acc: Array, element: str, *, acc_element: str, fast_acc: bool = False
) -> Array:
    """Float product and sum; ``element`` is the type of lhs and rhs. ``fast_acc`` has no effect.

    (m, k), (k, n) and (m, n), or each with a leading batch dimension. ``acc_element`` is the type of ``acc`` and of
    the result.
    """
    found = multiply_add(*map(as_f64 if element == "f64" else as_f32, (lhs, rhs, acc)))
    return found.astype(dtype_of(acc_element), copy=False)


@quiet
def mmai(
    lhs: Array, rhs: Array, acc: Array, element: str, *, signedness_lhs: str, signedness_rhs: str
) -> Array:
    """i8 products summed in i32, wrapping. Shapes are those of ``mmaf``; each factor has a signedness of its own."""
    # Sums of 16-bit products are exact in float64 up to K = 2**37, and its matmul is much faster.
    product = np.matmul(
        as_numbers(lhs, signedness_lhs).astype(np.float64),
        as_numbers(rhs, signedness_rhs).astype(np.float64),
    )
    return (product.astype(np.int64) + acc).astype(np.int32)


@quiet
def mmaf_scaled(
    lhs: Array,
    rhs: Array,
    acc: Array,
    lhs_scale: Array,
    rhs_scale: Array,
    element: str,
    *,
    scale_element: str,
) -> Array:
    """Like mmaf into f32, with a scale for every block of V = K / K_s operands along K.

    ``lhs_scale`` is M x K_s and ``rhs_scale`` K_s x N, or each with a batch dimension; K is a multiple of K_s. Scales
    are of type ``scale_element``.
    """
    block = lhs.shape[-1] // lhs_scale.shape[-1]
    lhs_factors = np.repeat(to_float64(lhs_scale, scale_element), block, axis=-1)
    rhs_factors = np.repeat(to_float64(rhs_scale, scale_element), block, axis=-2)
    product = np.matmul(
        to_float64(lhs, element) * lhs_factors, to_float64(rhs, element) * rhs_factors
    )
    return (product + acc).astype(np.float32)
