"""Matrix products against exact sums."""

from fractions import Fraction

import numpy as np
import pytest
from tests.numerics.reference import as_floats

from tilewright.numerics import FORMATS, matrix
from tilewright.numerics.arrays import dtype_of, from_bits
from tilewright.numerics.rounding import round_float64, to_float64

M, N, K = 4, 8, 32
RNG = np.random.default_rng(12)


def small_values(element: str, shape: tuple[int, ...]) -> np.ndarray:
    return round_float64(RNG.integers(-8, 9, shape) / 4.0, element)


@pytest.mark.parametrize(
    ("element", "acc_element"),
    [
        ("f16", "f16"),
        ("f16", "f32"),
        ("f8E4M3FN", "f16"),
        ("f8E5M2", "f32"),
        ("bf16", "f32"),
        ("tf32", "f32"),
        ("f32", "f32"),
    ],
)
def test_small_sums_are_exact(element, acc_element):
    """Quarters up to 2 and sums of 32 products stay exact in every order of addition."""
    lhs, rhs = small_values(element, (2, M, K)), small_values(element, (2, K, N))
    acc = small_values(acc_element, (2, M, N))
    result = matrix.mmaf(lhs, rhs, acc, element, acc_element=acc_element)
    assert result.dtype == dtype_of(acc_element)
    exact = to_float64(lhs, element) @ to_float64(rhs, element) + to_float64(acc, acc_element)
    assert as_floats(result) == exact.tolist()


@pytest.mark.parametrize(("element", "precision"), [("f32", 24), ("f64", 53)])
def test_error_of_large_sums(element, precision):
    lhs = RNG.standard_normal((M, 256)).astype(dtype_of(element))
    rhs = RNG.standard_normal((256, N)).astype(dtype_of(element))
    acc = RNG.standard_normal((M, N)).astype(dtype_of(element))
    result = matrix.mmaf(lhs, rhs, acc, element, acc_element=element)
    for i in range(M):
        for j in range(N):
            products = [
                Fraction(float(a)) * Fraction(float(b))
                for a, b in zip(lhs[i], rhs[:, j], strict=True)
            ]
            exact = sum(products) + Fraction(float(acc[i, j]))
            # Any order of n roundings errs by at most n half-units of the sum of magnitudes.
            size = sum(map(abs, products)) + abs(Fraction(float(acc[i, j])))
            assert abs(Fraction(float(result[i, j])) - exact) <= 514 * size / 2**precision


@pytest.mark.parametrize("lhs_signedness", ["signed", "unsigned"])
@pytest.mark.parametrize("rhs_signedness", ["signed", "unsigned"])
def test_integers_wrap(lhs_signedness, rhs_signedness):
    lhs = RNG.integers(-128, 128, (M, 64)).astype(np.int8)
    rhs = RNG.integers(-128, 128, (64, N)).astype(np.int8)
    acc = RNG.integers(-(2**31), 2**31, (M, N)).astype(np.int32)
    acc[0] = 2**31 - 1
    result = matrix.mmai(
        lhs, rhs, acc, "i8", signedness_lhs=lhs_signedness, signedness_rhs=rhs_signedness
    )
    assert result.dtype == np.int32

    def numbers(array: np.ndarray, signedness: str) -> list[list[int]]:
        return (array if signedness == "signed" else array.view(np.uint8)).tolist()

    left, right = numbers(lhs, lhs_signedness), numbers(rhs, rhs_signedness)
    for i in range(M):
        for j in range(N):
            total = int(acc[i, j]) + sum(left[i][k] * right[k][j] for k in range(64))
            assert int(result[i, j]) == (total + 2**31) % 2**32 - 2**31


@pytest.mark.parametrize(
    ("element", "scale_element", "block"),
    [
        ("f8E4M3FN", "f8E8M0FNU", 32),
        ("f4E2M1FN", "f8E8M0FNU", 16),
        ("f4E2M1FN", "f8E4M3FN", 16),
        ("f4E2M1FN", "f8E5M3FNU", 16),
    ],
)
def test_scaled(element, scale_element, block):
    depth = 64
    lhs = from_bits(RNG.integers(0, FORMATS[element].mask // 2, (M, depth)), element)
    rhs = from_bits(RNG.integers(0, FORMATS[element].mask // 2, (depth, N)), element)
    scales = 2.0 ** RNG.integers(-3, 4, (M + N, depth // block))
    lhs_scale = round_float64(scales[:M], scale_element)
    rhs_scale = round_float64(scales[M:].T.copy(), scale_element)
    acc = RNG.integers(-4, 4, (M, N)).astype(np.float32)
    result = matrix.mmaf_scaled(
        lhs, rhs, acc, lhs_scale, rhs_scale, element, scale_element=scale_element
    )
    assert result.dtype == np.float32
    left, right = to_float64(lhs, element), to_float64(rhs, element)
    for i in range(M):
        for j in range(N):
            exact = Fraction(float(acc[i, j])) + sum(
                Fraction(float(left[i, k] * scales[i, k // block]))
                * Fraction(float(right[k, j] * scales[M + j, k // block]))
                for k in range(depth)
            )
            assert float(result[i, j]) == float(np.float32(float(exact)))
