"""Atomics of every element type: computed right, or refused by cuTile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

ct = pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

from tilewright.cutile import launch  # noqa: E402
from tilewright.cutile.arrays import NUMPY_DTYPES  # noqa: E402

Array = np.ndarray[Any, Any]


@ct.kernel
def add(x, values):
    ct.atomic_add(x, (ct.arange(8, dtype=ct.int32),), ct.load(values, (0,), (8,)))


@ct.kernel
def largest(x, values):
    ct.atomic_max(x, (ct.arange(8, dtype=ct.int32),), ct.load(values, (0,), (8,)))


@ct.kernel
def either(x, values):
    ct.atomic_xor(x, (ct.arange(8, dtype=ct.int32),), ct.load(values, (0,), (8,)))


@ct.kernel
def exchange(x, values):
    ct.atomic_xchg(x, (ct.arange(8, dtype=ct.int32),), ct.load(values, (0,), (8,)))


@ct.kernel
def compare(x, values):
    at = (ct.arange(8, dtype=ct.int32),)
    ct.atomic_cas(x, at, ct.load(x, (0,), (8,)), ct.load(values, (0,), (8,)))


@ct.kernel
def add_tile(x, values):
    x.tiled_view((8,)).atomic_store_add((0,), ct.load(values, (0,), (8,)))


WHOLE = frozenset({"int32", "uint32", "int64", "uint64"})
WIDE = WHOLE | {"float32", "float64"}
SUMS = WIDE | {"float16", "bfloat16"}


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
@pytest.mark.parametrize(
    ("kernel", "taken", "expected"),
    [
        (add, SUMS, np.add),
        (add_tile, SUMS, np.add),
        (largest, WHOLE, np.maximum),
        (either, WHOLE, np.bitwise_xor),
        (exchange, WIDE, lambda x, values: values),
        (compare, WIDE, lambda x, values: values),
    ],
)
def test_computed_or_refused(
    kernel: Any, taken: frozenset[str], expected: Callable[[Array, Array], Array], dtype: str
) -> None:
    for machine in ("reference", "cpu"):
        x = (np.arange(8) % 3 + 1).astype(NUMPY_DTYPES[dtype])
        values = (np.arange(8) % 2 + 1).astype(NUMPY_DTYPES[dtype])
        before = x.copy()
        if dtype in taken:
            launch(0, (1,), kernel, (x, values), machine=machine)
            assert (x == expected(before, values)).all()
            continue
        with pytest.raises(ct.TileTypeError, match=f"dtype: {dtype}"):
            launch(0, (1,), kernel, (x, values), machine=machine)
        assert (x == before).all()
