"""The options of what Tile IR leaves open: how they are written, and values worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright.diagnostics import TileIRError
from tilewright.numerics import approximations, float_ops, math_ops
from tilewright.numerics.accumulation import mmaf_of, mmaf_scaled_of
from tilewright.numerics.approximations import APPROXIMATE, round_significand
from tilewright.numerics.arithmetic import REFERENCE, Arithmetic
from tilewright.numerics.matrix import mmaf, mmaf_scaled
from tilewright.numerics.semantics import ELEMENTWISE


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    ("text", "arithmetic", "shown"),
    [
        ("", REFERENCE, "reference"),
        ("accumulation=blas", REFERENCE, "reference"),
        ("f32-products=tf32", Arithmetic(f32_products="tf32"), "f32_products=tf32"),
        (
            " reductions=tree, accumulation = blocks:16 ",
            Arithmetic(accumulation="blocks:16", reductions="tree"),
            "accumulation=blocks:16,reductions=tree",
        ),
        (
            "flush_denormal_addf=true,approximations=hardware",
            Arithmetic(approximations="hardware", flush_denormal_addf=True),
            "approximations=hardware,flush_denormal_addf=true",
        ),
    ],
)
def test_text(text: str, arithmetic: Arithmetic, shown: str) -> None:
    assert Arithmetic.parse(text) == arithmetic
    assert str(arithmetic) == shown
    assert arithmetic.is_reference == (shown == "reference")
    if not arithmetic.is_reference:
        assert Arithmetic.parse(shown) == arithmetic


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("products=tf32", "there is no option 'products'; options: f32_products, accumulation"),
        ("f32_products", "one of f32, tf32, tf32-truncated, not ''"),
        ("f32_products=f16", "not 'f16'"),
        ("accumulation=blocks", "blas, ascending, pairwise, blocks:N, not 'blocks'"),
        ("accumulation=blocks:0", "not 'blocks:0'"),
        ("accumulation=blocks:-4", "not 'blocks:-4'"),
        ("reductions=tree,reductions=tree", "given twice"),
        ("flush_denormal_addf=1", "true or false, not '1'"),
    ],
)
def test_bad_text(text: str, message: str) -> None:
    with pytest.raises(TileIRError) as caught:
        Arithmetic.parse(text)
    (found,) = caught.value.diagnostics
    assert found.code == "bad-arithmetic"
    assert message in found.message


def test_bad_values() -> None:
    for options in ({"reductions": None}, {"flush_denormal_addf": 1}, {"accumulation": 4}):
        with pytest.raises(TileIRError, match="bad-arithmetic"):
            Arithmetic(**options)  # pyright: ignore[reportArgumentType]


# Matrix products. 2**24 + 1 is no f32 but a tie, which goes down to the even 2**24; 2**24 + 3 is
# one as well, and goes up to 2**24 + 4.

LARGE = 2.0**24


def row_by_column(row: np.ndarray, acc: float, **options: Any) -> float:
    """A row times a column of ones, plus ``acc``."""
    ones = np.ones((row.size, 1), row.dtype)
    element = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}[row.dtype]
    product = mmaf_of(Arithmetic(**options), element)
    acc_tile = np.full((1, 1), acc, row.dtype)
    return float(product(row[None, :], ones, acc_tile, element, acc_element=element)[0, 0])


@pytest.mark.parametrize(
    ("accumulation", "acc", "expected"),
    [
        # (((0 + 2**24) + 1) + 1) + 1: every 1 is lost.
        ("ascending", 0, LARGE),
        # ((1 + 2**24) + 1) ...: the accumulator comes first and is lost as well.
        ("ascending", 1, LARGE),
        # (2**24 + 1) + (1 + 1)
        ("pairwise", 0, LARGE + 2),
        # ... + 1 is the tie 2**24 + 3.
        ("pairwise", 1, LARGE + 4),
        # (0 + 2**24 + 1) is a tie that goes down; then + 2.
        ("blocks:2", 0, LARGE + 2),
        # (1 + 2**24 + 1), then + 2.
        ("blocks:2", 1, LARGE + 4),
        # 2**24 + 3 goes up.
        ("blocks:4", 0, LARGE + 4),
        ("blocks:100", 0, LARGE + 4),
        ("blocks:1", 0, LARGE),
    ],
)
def test_accumulation(accumulation: str, acc: float, expected: float) -> None:
    assert row_by_column(f32(LARGE, 1, 1, 1), acc, accumulation=accumulation) == expected


def test_accumulation_of_f64() -> None:
    huge = 2.0**53
    row = np.array([huge, 1, 1, 1])
    assert row_by_column(row, 0, accumulation="ascending") == huge
    assert row_by_column(row, 0, accumulation="blocks:4") == huge
    assert row_by_column(row, 0, accumulation="pairwise") == huge + 2


@pytest.mark.parametrize(
    ("f32_products", "operand", "expected"),
    [
        ("f32", 1 + 2.0**-11, 1 + 2.0**-11),
        # Half a unit of tf32: away from zero.
        ("tf32", 1 + 2.0**-11, 1 + 2.0**-10),
        ("tf32", -1 - 2.0**-11, -1 - 2.0**-10),
        ("tf32", 1 + 2.0**-11 - 2.0**-23, 1),
        ("tf32-truncated", 1 + 2.0**-10 - 2.0**-23, 1),
        ("tf32-truncated", -1 - 2.0**-10 + 2.0**-23, -1),
        ("tf32-truncated", np.inf, np.inf),
    ],
)
@pytest.mark.parametrize("accumulation", ["blas", "ascending"])
def test_tf32_products(
    f32_products: str, operand: float, expected: float, accumulation: str
) -> None:
    options = {"f32_products": f32_products, "accumulation": accumulation}
    assert row_by_column(f32(operand), 0, **options) == expected
    wide = np.array([1 + 2.0**-40])
    assert row_by_column(wide, 0, **options) == wide[0]


def test_every_accumulation_of_exact_sums_is_the_reference() -> None:
    rng = np.random.default_rng(1)
    lhs, rhs = (rng.integers(-8, 9, (2, 16, 16)).astype(np.float16) for _ in range(2))
    acc = rng.integers(-8, 9, (2, 16, 16)).astype(np.float32)
    expected = mmaf(lhs, rhs, acc, "f16", acc_element="f32")
    scales = [np.full(shape, 2, ml_dtypes.float8_e8m0fnu) for shape in ((32, 2), (2, 32))]
    narrow = [rng.integers(-4, 5, (32, 64)).astype(ml_dtypes.float8_e4m3fn) for _ in range(2)]
    operands = (narrow[0], narrow[1].T, np.ones((32, 32), np.float32), *scales)
    scaled = mmaf_scaled(*operands, "f8E4M3FN", scale_element="f8E8M0FNU")
    for accumulation in ("blas", "ascending", "pairwise", "blocks:3", "blocks:16"):
        mode = Arithmetic(accumulation=accumulation)
        found = mmaf_of(mode, "f16")(lhs, rhs, acc, "f16", acc_element="f32")
        assert found.dtype == np.float32 and np.array_equal(found, expected)
        found = mmaf_scaled_of(mode)(*operands, "f8E4M3FN", scale_element="f8E8M0FNU")
        assert found.dtype == np.float32 and np.array_equal(found, scaled)


# Approximations.


@pytest.mark.parametrize("rounding", ["approx", "full"])
def test_division_multiplies_by_the_reciprocal(rounding: str) -> None:
    # 1/3 rounds up to 11184811 * 2**-25. Five times that is 13981013.75 * 2**-23, which rounds to
    # 13981014; the quotient itself is 13981013.33 and rounds to 13981013.
    found = approximations.divf(f32(5), f32(3), "f32", rounding=rounding)
    assert found[0] == 13981014 * 2.0**-23
    assert float_ops.divf(f32(5), f32(3), "f32")[0] == 13981013 * 2.0**-23


def test_special_divisions() -> None:
    lhs = f32(1, np.inf, 0, 1, 1, -2, 1)
    rhs = f32(2.0**127, 2.0**127, 0, 0, -np.inf, 2.0**-140, 2.0**126)
    approx = approximations.divf(lhs, rhs, "f32", rounding="approx")
    full = approximations.divf(lhs, rhs, "f32", rounding="full")
    nan, inf = np.nan, np.inf
    # Beyond 2**126 the reciprocal is lost; below 2**-128 it is infinite.
    assert np.array_equal(approx, f32(0, nan, nan, inf, -0.0, -inf, 2.0**-126), equal_nan=True)
    assert np.array_equal(
        full, f32(2.0**-127, inf, nan, inf, -0.0, -inf, 2.0**-126), equal_nan=True
    )
    assert np.signbit(approx[4])
    flushed = approximations.divf(lhs, rhs, "f32", rounding="full", flush_to_zero=True)
    assert (flushed[0], flushed[5]) == (0, -inf)


def test_rounded_significands() -> None:
    # tanh(0.5) = 0.462117... is 1892.83 / 4096; exp2(0.5) = 1.414213562... is 2965820.8 * 2**-21.
    assert approximations.tanh(f32(0.5), "f32", rounding="approx")[0] == 1893 / 4096
    assert approximations.exp2(f32(0.5), "f32")[0] == 2965821 * 2.0**-21
    assert round_significand(np.array([5.0, 7.0, 0.0, np.inf]), 2).tolist() == [4, 8, 0, np.inf]


def test_exp_is_exp2_of_a_rounded_product() -> None:
    # log2(e) is 12102203 * 2**-23 in f32, 1.9e-8 too small. Fifty times that is
    # 9454846.09 * 2**-17, rounded to 9454846: the exponent is 1.68e-6 too small, and the power by
    # 1.17e-6 of itself.
    found = float(approximations.exp(f32(50), "f32", rounding="approx")[0])
    power = 2.0 ** (9454846 * 2.0**-17)
    assert abs(found / power - 1) <= 2.0**-22
    assert -1.17e-6 - 2.0**-22 < found / math.exp(50) - 1 < -1.17e-6 + 2.0**-22


def test_narrow_types_go_through_f32() -> None:
    half = np.array([0.5], np.float16)
    assert approximations.exp2(half, "f16").dtype == np.float16
    assert approximations.rsqrt(np.array([4], ml_dtypes.bfloat16), "bf16")[0] == 0.5


def test_other_modes_and_f64_stay_exact() -> None:
    rng = np.random.default_rng(2)
    single, double = rng.random(100).astype(np.float32), rng.random(100)
    for name in ("divf", "sqrt"):
        operands = (single, single[::-1])[: 2 if name == "divf" else 1]
        for rounding in ("nearest_even", "zero"):
            options = {"element": "f32", "rounding": rounding}
            expected = ELEMENTWISE[name](*operands, **options)
            assert np.array_equal(APPROXIMATE[name](*operands, **options), expected)
    for name in ("exp", "tanh"):
        assert np.array_equal(APPROXIMATE[name](single, "f32"), ELEMENTWISE[name](single, "f32"))
    for name in ("exp2", "rsqrt"):
        assert np.array_equal(APPROXIMATE[name](double, "f64"), ELEMENTWISE[name](double, "f64"))


def _ulps_apart(one: np.ndarray, other: np.ndarray) -> int:
    return int(np.abs(one.view(np.int32).astype(np.int64) - other.view(np.int32)).max())


def test_errors_stay_within_the_stated_bounds() -> None:
    rng = np.random.default_rng(3)
    patterns = rng.integers(1 << 23, 0xFE << 23, (2, 100_000)).astype(np.uint32)
    lhs, rhs = patterns.view(np.float32)
    exact = float_ops.divf(lhs, rhs, "f32")
    near = rhs <= 2.0**126
    full = approximations.divf(lhs, rhs, "f32", rounding="full")
    approx = approximations.divf(lhs[near], rhs[near], "f32", rounding="approx")
    root = approximations.sqrt(lhs, "f32", rounding="approx")
    # The exact values are rounded too, to within half a unit.
    assert 1 <= _ulps_apart(full, exact) <= 2
    assert 1 <= _ulps_apart(approx, exact[near]) <= 2
    assert 1 <= _ulps_apart(root, np.sqrt(lhs)) <= 2
    assert 1 <= _ulps_apart(approximations.rsqrt(lhs, "f32"), math_ops.rsqrt(lhs, "f32")) <= 2
    numbers = rng.uniform(-8, 8, 100_000).astype(np.float32)
    wide = numbers.astype(np.float64)
    for found, value, bits in (
        (approximations.tanh(numbers, "f32", rounding="approx"), np.tanh(wide), 11),
        (approximations.exp2(numbers, "f32"), np.exp2(wide), 22),
    ):
        worst = float(np.max(np.abs(found / value - 1)))
        assert 2.0 ** -(bits + 1) < worst <= 2.0**-bits
