"""Products of f16 as sums of two, and of floats of 8 bits as bf16, in registers with two axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.products.test_products import UNIT, Tiles, launch, product

from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.cpu.target import cpu_target
from tilewright.lowering import lower_to_tileaa
from tilewright.numerics.arrays import dtype_of

Array = np.ndarray[Any, Any]
AMX = pytest.mark.skipif(
    not (cpu_target().has("amx-bf16") and cpu_target().has("amx-tile")),
    reason="this processor has no registers with two axes",
)
#: Tiles, and extents M, N, K of arrays that they fill or that end inside of them.
SHAPES = [
    ((64, 64, 32), (128, 128, 96)),
    ((64, 64, 64), (64, 64, 64)),
    ((64, 128, 16), (77, 140, 45)),
    ((128, 64, 8), (130, 70, 24)),
]


def _told(module: Any) -> list[str]:
    compiled = compile_kernel(lower_to_tileaa(module).module, None, CompileOptions())
    return [remark.message for remark in compiled.remarks if remark.kind == "product"]


def _sums(a: Array, b: Array, dims: Tiles, begin: float = 0) -> Array:
    c = np.full((a.shape[0], b.shape[1]), 99, np.float32)
    launch(product("f16", "f32", dims, begin=begin), dims, (a, b, c), a.shape[1])
    return c


@AMX
def test_which_products_of_f16_are_split() -> None:
    assert "f16.parts" in _told(product("f16", "f32", (64, 64, 32)))[0]
    assert "f16.parts" not in _told(product("f16", "f32", (32, 64, 32)))[0]
    assert "f16.parts" not in _told(product("f16", "f32", (64, 32, 32)))[0]


@AMX
@pytest.mark.parametrize("element", ["f8E4M3FN", "f8E5M2"])
def test_floats_of_8_bits_are_multiplied_as_bf16(element: str) -> None:
    told = _told(product(element, "f32", (32, 32, 32)))[0]
    assert "as bf16" in told and "two axes" in told
    assert "as f32" in _told(product(element, "f32", (8, 32, 32)))[0]


@pytest.mark.parametrize("dims, size", SHAPES, ids=str)
@pytest.mark.parametrize("element", ["f8E4M3FN", "f8E5M2"])
def test_every_float_of_8_bits(element: str, dims: Tiles, size: Tiles) -> None:
    """All finite ones, subnormal ones among them, times whole numbers: the sums are exact."""
    m, n, k = size
    every = np.arange(256, dtype=np.uint8).view(dtype_of(element))
    every = every[np.isfinite(every.astype(np.float64))]
    a = np.resize(every, (m, k))
    b = np.zeros((k, n), a.dtype)
    b[np.arange(n) % k, np.arange(n)] = 2
    c = np.full((m, n), np.nan, np.float32)
    launch(product(element, "f32", dims), dims, (a, b, c), k)
    assert (c == a.astype(np.float64) @ b.astype(np.float64)).all()


@pytest.mark.parametrize("dims, size", SHAPES, ids=str)
def test_every_f16(dims: Tiles, size: Tiles) -> None:
    """All finite ones in turn, each times one: the parts add up to the number."""
    m, n, k = size
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    every = every[np.isfinite(every)]
    b = np.zeros((k, n), np.float16)
    b[np.arange(n) % k, np.arange(n)] = 1
    rows = m * k
    for first in range(0, len(every), rows):
        a = np.resize(every[first : first + rows], (m, k))
        assert (_sums(a, b, dims) == a.astype(np.float64) @ b.astype(np.float64)).all()


@pytest.mark.parametrize("dims, size", SHAPES, ids=str)
def test_infinite_factors_and_no_numbers(dims: Tiles, size: Tiles) -> None:
    """Infinity times a number whose low part is zero, times zero, and plus its opposite."""
    m, n, k = size
    rng = np.random.default_rng(m)
    a = rng.integers(-9, 10, (m, k)).astype(np.float16)
    b = rng.standard_normal((k, n)).astype(np.float16)
    a[1, 2], a[3, k - 1], a[5, 0], a[m - 1, 1] = np.inf, -np.inf, np.nan, 65504
    a[7, 3], a[7, 5] = np.inf, -np.inf
    b[4, n - 1], b[2, 0], b[k - 1, 2], b[3, 3] = np.inf, 0, -1, 1
    with np.errstate(invalid="ignore"):
        wanted = a.astype(np.float64) @ b.astype(np.float64)
    found = _sums(a, b, dims)
    assert (np.isnan(found) == np.isnan(wanted)).all()
    infinite = np.isinf(wanted)
    assert (found[infinite] == wanted[infinite]).all() and infinite.any()
    finite = np.isfinite(wanted)
    some = [np.nan_to_num(each.astype(np.float64), posinf=0, neginf=0) for each in (a, b)]
    bound = (2 * k + 2) * UNIT * (np.abs(some[0]) @ np.abs(some[1]))
    assert (np.abs(found[finite] - wanted[finite]) <= bound[finite]).all()


def test_infinite_factors_of_many_rounds() -> None:
    """So deep that sums are written and read again in between; infinity is in the first round or in the last one."""
    dims, (m, n, k) = (64, 64, 64), (64, 128, 2000)
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-4, 5, s).astype(np.float16) for s in ((m, k), (k, n)))
    a[0, 0], a[40, k - 1] = np.inf, -np.inf
    b[0], b[k - 1] = 1, 2
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    assert (_sums(a, b, dims, 3) == 3 + wanted).all()
