"""The model of the tensor cores against the same model in exact rational numbers."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tilewright.numerics.arrays import Array, dtype_of
from tilewright.numerics.tensor_cores import (
    MODES,
    Unit,
    multiply_add,
    multiply_add_f64,
    multiply_add_integers,
    sum_of_products,
    unit_of,
)

_LEAST = {"f16": -14, "bf16": -126, "tf32": -126, "f32": -126, "f8E4M3FN": -6, "f8E5M2": -14}


def _parts(value: float, element: str) -> tuple[Fraction, int]:
    """A signed significand and its stored exponent."""
    exponent = max(math.frexp(value)[1] - 1, _LEAST[element])
    return Fraction(value) / Fraction(2) ** exponent, exponent


def _toward_zero(value: Fraction) -> int:
    return math.floor(value) if value >= 0 else math.ceil(value)


def _chunk(
    pairs: list[tuple[float, float]], acc: float, element: str, to: str, unit: Unit
) -> float:
    terms: list[tuple[Fraction, int]] = []
    for a, b in pairs:
        (m, x), (n, y) = _parts(a, element), _parts(b, element)
        if m * n:
            terms.append((m * n, x + y))
    if acc:
        terms.append(_parts(acc, to))
    largest = max([x for _, x in terms] + [-126])
    total = sum(
        _toward_zero(m * Fraction(2) ** (x - largest + unit.fraction_bits)) for m, x in terms
    )
    exact = Fraction(total) * Fraction(2) ** (largest - unit.fraction_bits)
    if to == "f16":
        return float(np.float16(float(exact)))
    if not exact:
        return 0.0
    top = max(math.frexp(float(exact))[1] - 1, -126)
    quantum = Fraction(2) ** (top - unit.precision + 1)
    cut = _toward_zero(exact / quantum) * quantum
    return math.copysign(math.inf, cut) if abs(cut) >= Fraction(2) ** 128 else float(cut)


def model(lhs: Array, rhs: Array, acc: Array, element: str, unit: Unit) -> Array:
    to = "f16" if acc.dtype == np.float16 else "f32"
    found = acc.copy()
    for i, j in np.ndindex(acc.shape):
        total = float(acc[i, j])
        for k in range(0, lhs.shape[1], unit.chunk):
            pairs = [
                (float(lhs[i, n]), float(rhs[n, j]))
                for n in range(k, min(k + unit.chunk, lhs.shape[1]))
            ]
            total = _chunk(pairs, total, element, to, unit)
        found[i, j] = total
    return found


def _random(rng: np.random.Generator, shape: tuple[int, int], element: str, spread: int) -> Array:
    """Numbers over many exponents, with zeros and subnormal ones."""
    numbers = rng.standard_normal(shape) * 2.0 ** rng.integers(-spread, spread // 2 + 1, shape)
    numbers[rng.random(shape) < 0.1] = 0
    with np.errstate(over="ignore"):
        array = numbers.astype(dtype_of(element))
    if element == "tf32":
        array = (array.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return array


def _same_bits(x: Array, y: Array) -> bool:
    return x.tobytes() == y.tobytes()


UNITS = [
    ("mma", 75, "f16", "f32"),
    ("mma", 80, "f16", "f32"),
    ("mma", 80, "f16", "f16"),
    ("mma", 80, "bf16", "f32"),
    ("mma", 80, "tf32", "f32"),
    ("mma", 89, "f8E4M3FN", "f32"),
    ("mma", 90, "f16", "f32"),
    ("wgmma", 90, "f16", "f32"),
    ("wgmma", 90, "f16", "f16"),
    ("wgmma", 90, "bf16", "f32"),
    ("wgmma", 90, "f8E5M2", "f32"),
    ("wgmma", 90, "f8E4M3FN", "f16"),
]


@pytest.mark.parametrize(
    ("compute", "half", "tf32", "fp8"),
    [
        (80, Unit(24, 8), Unit(24, 4), Unit(13, 16, 14)),
        (89, Unit(24, 8), Unit(24, 4), Unit(13, 16, 14)),
        (90, Unit(25, 16), Unit(25, 8), Unit(25, 32)),
        (120, Unit(25, 16), Unit(25, 8), Unit(25, 32)),
    ],
)
def test_units_of_mma(compute: int, half: Unit, tf32: Unit, fp8: Unit) -> None:
    """Hopper, of compute capability 9.0, is the first that takes twice as many products at a time, and keeps a bit more."""
    assert unit_of("mma", "f16", compute) == unit_of("mma", "bf16", compute) == half
    assert unit_of("mma", "tf32", compute) == tf32
    assert unit_of("mma", "f8E4M3FN", compute) == fp8


@pytest.mark.parametrize("spread", [0, 12])
@pytest.mark.parametrize(("instruction", "compute", "element", "to"), UNITS)
def test_model(instruction: str, compute: int, element: str, to: str, spread: int) -> None:
    rng = np.random.default_rng(spread)
    lhs, rhs = _random(rng, (4, 40), element, spread), _random(rng, (40, 3), element, spread)
    acc = _random(rng, (4, 3), to, spread)
    unit = unit_of(instruction, element, compute)  # pyright: ignore[reportArgumentType]
    found = multiply_add(lhs, rhs, acc, element, unit)
    assert _same_bits(found, model(lhs, rhs, acc, element, unit))


@pytest.mark.parametrize("spread", [0, 12, 45, 60])
@pytest.mark.parametrize(("instruction", "compute", "element", "to"), UNITS)
def test_large_products_are_like_small_ones(
    instruction: str, compute: int, element: str, to: str, spread: int
) -> None:
    """Large ones are computed in f32 where the numbers allow that."""
    rng = np.random.default_rng(spread)
    lhs, rhs = _random(rng, (48, 32), element, spread), _random(rng, (32, 64), element, spread)
    acc = _random(rng, (48, 64), to, spread)
    unit = unit_of(instruction, element, compute)  # pyright: ignore[reportArgumentType]
    parts = [
        multiply_add(lhs[i : i + 4], rhs, acc[i : i + 4], element, unit) for i in range(0, 48, 4)
    ]
    assert _same_bits(multiply_add(lhs, rhs, acc, element, unit), np.concatenate(parts))


@pytest.mark.parametrize(("instruction", "compute", "element", "to"), UNITS)
def test_many_products_at_once(instruction: str, compute: int, element: str, to: str) -> None:
    rng = np.random.default_rng(4)
    lhs = np.stack([_random(rng, (16, 32), element, 12) for _ in range(3)])
    rhs = np.stack([_random(rng, (32, 8), element, 12) for _ in range(3)])
    acc = np.stack([_random(rng, (16, 8), to, 12) for _ in range(3)])
    lhs[1, 3, 5] = np.inf
    unit = unit_of(instruction, element, compute)  # pyright: ignore[reportArgumentType]
    found = sum_of_products(
        lhs.transpose(2, 0, 1)[:, None],
        rhs.transpose(1, 2, 0)[..., None],
        acc.transpose(2, 0, 1),
        element,
        unit,
    )
    one_by_one = [multiply_add(a, b, c, element, unit) for a, b, c in zip(lhs, rhs, acc)]
    assert _same_bits(np.ascontiguousarray(found.transpose(1, 2, 0)), np.stack(one_by_one))


def test_sums_that_overflow_stay_infinite() -> None:
    """Also where more chunks follow."""
    unit = unit_of("mma", "f16", 80)
    lhs, rhs = np.full((1, 32), 60000, np.float16), np.full((32, 1), 60000, np.float16)
    lhs[0, 16:] = -60000
    assert multiply_add(lhs, rhs, np.zeros((1, 1), np.float16), "f16", unit)[0, 0] == np.inf
    bf16 = unit_of("mma", "bf16", 80)
    big = np.full((1, 32), 2.0**70, ml_dtypes.bfloat16)
    assert multiply_add(big, big.T, np.zeros((1, 1), np.float32), "bf16", bf16)[0, 0] == np.inf


def test_subnormal_sums_and_overflow() -> None:
    unit = unit_of("wgmma", "bf16", 90)
    lhs = np.array([[2.0**-70, -(2.0**-75)], [2.0**100, 2.0**100]], ml_dtypes.bfloat16)
    rhs = np.array([[2.0**-72, 2.0**30], [2.0**-72, 2.0**-20]], ml_dtypes.bfloat16)
    acc = np.zeros((2, 2), np.float32)
    found = multiply_add(lhs, rhs, acc, "bf16", unit)
    assert _same_bits(found, model(lhs, rhs, acc, "bf16", unit))
    assert np.isinf(found[1, 1]) and 0 < found[0, 0] < 2.0**-126


@pytest.mark.parametrize("mode", MODES)
def test_specials(mode: str) -> None:
    inf, nan = np.inf, np.nan
    lhs = np.array([[inf, 1], [inf, -inf], [inf, 1], [nan, 1], [1, 1]], np.float16)
    rhs = np.array([[1], [1]], np.float16)
    acc = np.array([[1], [1], [-inf], [1], [-inf]], np.float32)
    found = multiply_add(lhs, rhs, acc, "f16", unit_of("mma", "f16", 90), mode)  # pyright: ignore[reportArgumentType]
    assert found[0, 0] == inf and found[4, 0] == -inf
    assert found[1:4].view(np.uint32).ravel().tolist() == [0x7FFFFFFF] * 3
    half = multiply_add(lhs, rhs, acc.astype(np.float16), "f16", unit_of("mma", "f16", 90))
    assert half.view(np.uint16)[1, 0] == 0x7FFF
    zero = multiply_add(
        np.array([[inf]], np.float16),
        np.zeros((1, 1), np.float16),
        acc[:1],
        "f16",
        unit_of("mma", "f16", 90),
    )
    assert np.isnan(zero[0, 0])


def test_zero_sums_are_positive() -> None:
    lhs, rhs = np.array([[-1.0]], np.float16), np.zeros((1, 1), np.float16)
    found = multiply_add(
        lhs, rhs, np.full((1, 1), -0.0, np.float32), "f16", unit_of("mma", "f16", 80)
    )
    assert found.view(np.uint32)[0, 0] == 0


def test_truncation_is_visible() -> None:
    """A term below the fraction bits is lost, where rounding to nearest keeps it."""
    lhs = np.ones((1, 3), np.float16)
    rhs = np.array([[1024.0], [2.0**-14], [2.0**-14]], np.float16)
    acc = np.zeros((1, 1), np.float32)
    unit = unit_of("mma", "f16", 80)
    assert multiply_add(lhs, rhs, acc, "f16", unit)[0, 0] == 1024 + 2.0**-13
    assert multiply_add(lhs, rhs * 4, acc + 2.0**23, "f16", unit)[0, 0] == 2.0**23 + 4096


def test_tf32_ignores_low_bits() -> None:
    lhs = np.array([[1 + 2.0**-11]], np.float32)
    unit = unit_of("mma", "tf32", 80)
    one = np.ones((1, 1), np.float32)
    for mode in MODES:
        assert multiply_add(lhs, one, one * 0, "tf32", unit, mode)[0, 0] == 1


def test_exact_mode_rounds_once() -> None:
    rng = np.random.default_rng(1)
    lhs, rhs = _random(rng, (4, 32), "f16", 8), _random(rng, (32, 3), "f16", 8)
    acc = _random(rng, (4, 3), "f32", 8)
    found = multiply_add(lhs, rhs, acc, "f16", unit_of("mma", "f16", 80), "exact")
    for i, j in np.ndindex(4, 3):
        exact = Fraction(float(acc[i, j])) + sum(
            Fraction(float(lhs[i, k])) * Fraction(float(rhs[k, j])) for k in range(32)
        )
        got = Fraction(float(found[i, j]))
        for direction in (-np.inf, np.inf):
            other = Fraction(float(np.nextafter(found[i, j], np.float32(direction))))
            assert abs(got - exact) <= abs(other - exact)


def test_exact_mode_knows_the_middle() -> None:
    """A sum just above the middle of two f32 numbers, which float64 would put on it."""
    lhs = np.array([[1.0, 2.0**-12, 2.0**-14]], np.float16)
    rhs = np.array([[1.0], [2.0**-12], [2.0**-14]], np.float16)
    acc = np.array([[2.0**-90]], np.float32)
    found = multiply_add(lhs[:, :2], rhs[:2], acc, "f16", unit_of("mma", "f16", 80), "exact")
    assert found[0, 0] == np.float32(1 + 2.0**-23)


def test_portable_mode() -> None:
    rng = np.random.default_rng(2)
    lhs, rhs = _random(rng, (4, 16), "bf16", 4), _random(rng, (16, 3), "bf16", 4)
    total = np.zeros((4, 3), np.float32)
    found = multiply_add(lhs, rhs, total, "bf16", unit_of("mma", "bf16", 80), "portable")
    for k in range(16):
        total = total + lhs[:, k, None].astype(np.float32) * rhs[None, k].astype(np.float32)
    assert _same_bits(found, total)


def test_f64_is_a_chain_of_fused_steps() -> None:
    lhs, rhs = np.array([[1 + 2.0**-30, 1.0]]), np.array([[1 - 2.0**-30], [-1.0]])
    acc = np.zeros((1, 1))
    assert multiply_add_f64(lhs, rhs, acc)[0, 0] == 0.0
    assert multiply_add_f64(lhs[:, ::-1], rhs[::-1], acc)[0, 0] == -(2.0**-60)


def test_integers() -> None:
    lhs, rhs = np.full((1, 64), -128, np.int8), np.full((64, 1), -128, np.int8)
    acc = np.full((1, 1), 2**31 - 10, np.int32)
    assert multiply_add_integers(lhs, rhs, acc, saturating=True)[0, 0] == 2**31 - 1
    wrapped = multiply_add_integers(lhs, rhs, acc, saturating=False)[0, 0]
    assert wrapped == (2**31 - 10 + 64 * 128 * 128) - 2**32
