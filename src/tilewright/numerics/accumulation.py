"""Matrix products with a specified order of additions, the same on every machine.

They replace those of ``matrix`` if an :class:`Arithmetic` asks for another accumulation or for tf32
products. What each choice computes is documented there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tilewright.numerics import matrix
from tilewright.numerics.arrays import Array, dtype_of
from tilewright.numerics.convert import ftof
from tilewright.numerics.rounding import quiet, to_float64

if TYPE_CHECKING:
    from tilewright.numerics.arithmetic import Arithmetic

Sum = Callable[[Array, Array, Array], Array]
"""Maps (lhs, rhs, acc) of one dtype to ``lhs @ rhs + acc`` in the dtype of ``acc``."""


def _column(lhs: Array, rhs: Array, k: int) -> Array:
    """Return the products of all rows and columns at one k."""
    return lhs[..., :, k, None] * rhs[..., None, k, :]


def _ascending(lhs: Array, rhs: Array, acc: Array) -> Array:
    total = acc.copy()
    for k in range(lhs.shape[-1]):
        total += _column(lhs, rhs, k).astype(acc.dtype, copy=False)
    return total


def _pairwise(lhs: Array, rhs: Array, acc: Array) -> Array:
    terms = np.stack([_column(lhs, rhs, k) for k in range(lhs.shape[-1])])
    terms = terms.astype(acc.dtype, copy=False)
    # Tile extents are powers of two.
    while (count := terms.shape[0]) > 1:
        terms = terms[: count // 2] + terms[count // 2 :]
    return terms[0] + acc


def _blocks(lhs: Array, rhs: Array, acc: Array, *, size: int) -> Array:
    lhs, rhs = lhs.astype(np.float64, copy=False), rhs.astype(np.float64, copy=False)
    total = acc
    for start in range(0, lhs.shape[-1], size):
        wide = total.astype(np.float64)
        for k in range(start, min(start + size, lhs.shape[-1])):
            wide += _column(lhs, rhs, k)
        total = wide.astype(acc.dtype)
    return total


def _sum_of(arithmetic: Arithmetic) -> Sum:
    if arithmetic.block_size is not None:
        return partial(_blocks, size=arithmetic.block_size)
    return {"ascending": _ascending, "pairwise": _pairwise}[arithmetic.accumulation]


def _to_tf32(array: Array, *, rounding: str) -> Array:
    return ftof(array, "f32", to="tf32", rounding=rounding)  # pyright: ignore[reportArgumentType]


_TF32_ROUNDING = {"tf32": "nearest_away", "tf32-truncated": "zero"}


@quiet
def _mmaf(
    lhs: Array,
    rhs: Array,
    acc: Array,
    element: str,
    *,
    acc_element: str,
    fast_acc: bool = False,
    add: Sum,
) -> Array:
    wide = np.float64 if element == "f64" else np.float32
    found = add(lhs.astype(wide), rhs.astype(wide), acc.astype(wide))
    return found.astype(dtype_of(acc_element), copy=False)


def mmaf_of(arithmetic: Arithmetic, element: str) -> Callable[..., Array]:
    """Return ``matrix.mmaf``, or its replacement for operands of that type."""
    product = matrix.mmaf
    if arithmetic.accumulation != "blas":
        product = partial(_mmaf, add=_sum_of(arithmetic))
    rounding = _TF32_ROUNDING.get(arithmetic.f32_products)
    if element != "f32" or rounding is None:
        return product
    narrow = partial(_to_tf32, rounding=rounding)

    def rounded(lhs: Array, rhs: Array, *rest: object, **keywords: object) -> Array:
        return product(narrow(lhs), narrow(rhs), *rest, **keywords)  # pyright: ignore[reportArgumentType]

    return rounded


@quiet
def _mmaf_scaled(
    lhs: Array,
    rhs: Array,
    acc: Array,
    lhs_scale: Array,
    rhs_scale: Array,
    element: str,
    *,
    scale_element: str,
    add: Sum,
) -> Array:
    block = lhs.shape[-1] // lhs_scale.shape[-1]
    lhs_factors = np.repeat(to_float64(lhs_scale, scale_element), block, axis=-1)
    rhs_factors = np.repeat(to_float64(rhs_scale, scale_element), block, axis=-2)
    return add(to_float64(lhs, element) * lhs_factors, to_float64(rhs, element) * rhs_factors, acc)


def mmaf_scaled_of(arithmetic: Arithmetic) -> Callable[..., Array]:
    """Return ``matrix.mmaf_scaled``, or its replacement."""
    if arithmetic.accumulation == "blas":
        return matrix.mmaf_scaled
    return partial(_mmaf_scaled, add=_sum_of(arithmetic))
