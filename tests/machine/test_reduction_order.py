"""Sums and products are taken one element after the other, whatever way NumPy is asked for them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tilewright.machine.ops.reductions import reduce_in_order
from tilewright.numerics import float_ops
from tilewright.numerics.arrays import dtype_of

_SHAPES = ((1, 64), (5, 3), (8, 16), (16, 8), (7, 8), (1024, 8), (2, 512), (4, 8, 32), (300,))
_DTYPES = (np.float16, np.float32, np.float64, ml_dtypes.bfloat16, np.int8, np.int64)


def _one_by_one(function: np.ufunc, tile: np.ndarray, axis: int) -> np.ndarray:
    first, *others = np.moveaxis(tile, axis, 0)
    total = np.array(first)
    for row in others:
        total = np.asarray(function(row, total)).astype(tile.dtype)
    return total


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("shape", _SHAPES)
@pytest.mark.parametrize("function", [np.add, np.multiply])
def test_order(function: np.ufunc, shape: tuple[int, ...], dtype: type) -> None:
    random = np.random.default_rng(7)
    tile = (random.standard_normal(shape) * 3).astype(dtype)
    tile.flat[::5] = -0.0
    with np.errstate(all="ignore"):
        for given in (tile, tile[..., ::-1], tile.T):
            for axis in range(given.ndim):
                found = reduce_in_order(function, given, axis)
                expected = _one_by_one(function, given, axis)
                assert found.dtype == tile.dtype and found.shape == expected.shape
                assert found.tobytes() == expected.tobytes()


def test_the_order_can_be_told() -> None:
    """Numbers whose pairwise sum is another one."""
    tile = np.full((64, 1024), np.float32(0.1))
    assert not np.array_equal(reduce_in_order(np.add, tile, 1), tile.sum(axis=1))


@pytest.mark.parametrize("dtype", _DTYPES[:4])
@pytest.mark.parametrize("shape", [(4, 16), (4, 2), (1, 16)])
def test_nothing_is_added_to_the_elements(shape: tuple[int, ...], dtype: type) -> None:
    zeros = np.full(shape, -0.0, dtype)
    assert np.signbit(reduce_in_order(np.add, zeros, 0)).all()


@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("propagate_nan", [False, True])
@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("name", ["maxf", "minf"])
def test_extremes_are_those_of_the_operation(
    name: str, flush: bool, propagate_nan: bool, element: str
) -> None:
    """Also where NaN, both zeros and infinities are among the elements."""
    if flush and element != "f32":
        pytest.skip("only f32 flushes")
    options = {"element": element, "propagate_nan": propagate_nan, "flush_to_zero": flush}
    combine, together = getattr(float_ops, name), getattr(float_ops, f"reduce_{name}")
    random = np.random.default_rng(11)
    special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5, -2.0, 1e-40])
    for pool in (special[:2], special[[0, 1, 5, 6]], special[3:7], special, special[5:7]):
        rows = random.choice(pool, (9, 64)).astype(dtype_of(element))
        for count in (1, 2, 9):
            expected = rows[0]
            for row in rows[1:count]:
                expected = combine(row, expected, **options)
            found = together(rows[:count], **options)
            assert np.array_equal(np.isnan(found), np.isnan(expected))
            kept = ~np.isnan(expected)
            assert found[kept].tobytes() == expected[kept].tobytes()
