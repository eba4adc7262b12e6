"""Float arithmetic against fractions: one rounding in every direction."""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from tests.numerics.reference import IEEE_MODES, as_floats, rounded, same

from tilewright.numerics import BASE_FLOAT_TYPES, FORMATS, float_ops
from tilewright.numerics.arrays import bits_of, dtype_of, from_bits
from tilewright.numerics.rounding import encode_exact

SAMPLES = 1500
ARITY = {"addf": 2, "subf": 2, "mulf": 2, "divf": 2, "sqrt": 1, "fma": 3}


def special_patterns(name: str) -> list[int]:
    fmt = FORMATS[name]
    one = fmt.bias << fmt.mantissa_bits
    positive = [
        0,
        1,
        2,
        (1 << fmt.mantissa_bits) - 1,
        1 << fmt.mantissa_bits,
        one - 1,
        one,
        one + 1,
        fmt.max_finite_bits - 1,
        fmt.max_finite_bits,
        fmt.inf_bits,
        fmt.nan_bits,
    ]
    return positive + [bits | fmt.sign_bit for bits in positive]


def operands(name: str, arity: int, seed: int) -> tuple[np.ndarray, ...]:
    """All pairs of special values (triples thinned out), then random patterns: some anywhere, some
    of close exponents, some with few significant bits, where ties and cancellation are frequent."""
    fmt = FORMATS[name]
    rng = np.random.default_rng(seed)
    special = np.array(special_patterns(name), np.uint64)
    grid = np.meshgrid(*[special] * arity, indexing="ij")
    corner = [axis.reshape(-1)[:: 7 if arity == 3 else 1] for axis in grid]
    anywhere = [rng.integers(0, fmt.mask, SAMPLES, np.uint64, endpoint=True) for _ in range(arity)]
    exponent = rng.integers(2, 2**fmt.exponent_bits - 2, SAMPLES)
    close = []
    for _ in range(arity):
        near = np.clip(exponent + rng.integers(-2, 3, SAMPLES), 0, 2**fmt.exponent_bits - 2)
        mantissa = rng.integers(0, 2**fmt.mantissa_bits, SAMPLES)
        mantissa &= ~((1 << rng.integers(0, fmt.mantissa_bits, SAMPLES)) - 1)
        sign = rng.integers(0, 2, SAMPLES).astype(np.uint64) << np.uint64(fmt.bits - 1)
        close.append((near << fmt.mantissa_bits | mantissa).astype(np.uint64) | sign)
    columns = zip(corner, anywhere, close, strict=True)
    return tuple(from_bits(np.concatenate(column), name) for column in columns)


def exact_sqrt(value: Fraction) -> Fraction:
    """The root to 300 bits below one part; a last bit set stands for what is cut off."""
    scaled = value * 4**1500
    root = math.isqrt(math.floor(scaled))
    return Fraction(root * 2 + (root * root != scaled), 2) / 2**1500


EXACT = {
    "addf": lambda a, b: a + b,
    "subf": lambda a, b: a - b,
    "mulf": lambda a, b: a * b,
    "divf": lambda a, b: a / b,
    "sqrt": exact_sqrt,
    "fma": lambda a, b, c: a * b + c,
}


def ieee_special(op: str, args: tuple[float, ...], mode: str) -> float | None:
    """The result where an operand is not finite, or the exact result is zero or infinite."""
    if any(math.isnan(arg) for arg in args):
        return math.nan
    if op == "sqrt":
        (arg,) = args
        return arg if arg == 0 or arg == math.inf else (math.nan if arg < 0 else None)
    if op == "mulf":
        lhs, rhs = args
        if math.isinf(lhs) or math.isinf(rhs) or lhs == 0 or rhs == 0:
            return lhs * rhs
        return None
    if op == "divf":
        lhs, rhs = args
        sign = math.copysign(1, lhs) * math.copysign(1, rhs)
        if rhs == 0:
            return math.nan if lhs == 0 else sign * math.inf
        if math.isinf(lhs):
            return math.nan if math.isinf(rhs) else sign * math.inf
        return sign * 0.0 if math.isinf(rhs) or lhs == 0 else None
    if op == "fma":
        lhs, rhs, addend = args
        if math.isinf(lhs) or math.isinf(rhs) or lhs == 0 or rhs == 0:
            return (
                ieee_special("addf", (lhs * rhs, addend), mode)
                if not math.isnan(lhs * rhs)
                else math.nan
            )
        if math.isinf(addend):
            return addend
        if Fraction(lhs) * Fraction(rhs) + Fraction(addend) == 0:
            return -0.0 if mode == "negative_inf" else 0.0
        return None
    lhs, rhs = args if op == "addf" else (args[0], -args[1])
    if math.isinf(lhs) or math.isinf(rhs):
        return lhs + rhs
    if lhs == rhs == 0 and math.copysign(1, lhs) == math.copysign(1, rhs):
        return lhs
    if Fraction(lhs) + Fraction(rhs) == 0:
        return -0.0 if mode == "negative_inf" else 0.0
    return None


def expected_lane(op: str, args: tuple[float, ...], element: str, mode: str) -> float:
    special = ieee_special(op, args, mode)
    if special is not None:
        if op == "fma" and math.isfinite(special) and special != 0:
            return rounded(Fraction(special), element, mode)
        return special
    return rounded(EXACT[op](*(Fraction(arg) for arg in args)), element, mode)


@pytest.mark.parametrize("mode", IEEE_MODES)
@pytest.mark.parametrize("op", ARITY)
@pytest.mark.parametrize("element", BASE_FLOAT_TYPES)
def test_single_rounding(element, op, mode):
    arrays = operands(element, ARITY[op], seed=len(op) + len(mode))
    result = getattr(float_ops, op)(*arrays, element, rounding=mode)
    assert result.dtype == dtype_of(element)
    lanes = list(zip(*(as_floats(array) for array in arrays), strict=True))
    expected = [expected_lane(op, lane, element, mode) for lane in lanes]
    wrong = np.flatnonzero(~same(result, expected))
    assert not wrong.size, [(lanes[i], float(result[i]), expected[i]) for i in wrong[:3]]


def flushed(value: float) -> float:
    return math.copysign(0.0, value) if abs(value) < 2.0**-126 else value


@pytest.mark.parametrize("mode", ["nearest_even", "positive_inf"])
@pytest.mark.parametrize("op", ARITY)
def test_flush_to_zero(op, mode):
    rng = np.random.default_rng(2)
    bits = [
        rng.integers(0, 0x01800000, 500, np.uint64)
        | rng.integers(0, 2, 500, np.uint64) << np.uint64(31)
        for _ in range(ARITY[op])
    ]
    if op in ("mulf", "divf", "fma"):
        bits[1] |= np.uint64(0x3F000000)
    arrays = tuple(from_bits(pattern, "f32") for pattern in bits)
    result = getattr(float_ops, op)(*arrays, "f32", rounding=mode, flush_to_zero=True)
    lanes = zip(*(as_floats(array) for array in arrays), strict=True)
    expected = [
        flushed(expected_lane(op, tuple(map(flushed, lane)), "f32", mode)) for lane in lanes
    ]
    assert same(result, expected).all()


def test_flushing_keeps_the_sign():
    tiny = np.array([-1e-40, 1e-40], np.float32)
    zeros = float_ops.mulf(tiny, np.ones(2, np.float32), "f32", flush_to_zero=True)
    assert np.signbit(zeros).tolist() == [True, False]
    assert float_ops.mulf(tiny, np.ones(2, np.float32), "f32").tolist() == tiny.tolist()


def test_inexact_division():
    lhs = np.array([1, np.inf, -np.inf, 3e38, 6, np.nan, 1], np.float32)
    rhs = np.array([1e38, 1e38, 2e38, -3e38, 3, 1e38, np.inf], np.float32)
    approx = float_ops.divf(lhs, rhs, "f32", rounding="approx")
    assert same(approx, [0.0, math.nan, math.nan, -0.0, 2.0, math.nan, 0.0]).all()
    full = float_ops.divf(lhs, rhs, "f32", rounding="full")
    assert same(full, (lhs / rhs).tolist()).all()


def test_inexact_sqrt_is_the_rounded_root():
    source = np.array([2, 0.25, -0.0, -1], np.float32)
    assert same(
        float_ops.sqrt(source, "f32", rounding="approx"),
        [float(np.sqrt(np.float32(2))), 0.5, -0.0, math.nan],
    ).all()


@pytest.mark.parametrize("element", BASE_FLOAT_TYPES)
def test_remainder_is_exact(element):
    lhs, rhs = operands(element, 2, seed=9)
    result = float_ops.remf(lhs, rhs, element)
    assert result.dtype == dtype_of(element)
    expected = []
    for dividend, divisor in zip(as_floats(lhs), as_floats(rhs), strict=True):
        if math.isnan(dividend) or math.isnan(divisor) or math.isinf(dividend) or divisor == 0:
            expected.append(math.nan)
        elif math.isinf(divisor):
            expected.append(dividend)
        else:
            quotient = math.trunc(Fraction(dividend) / Fraction(divisor))
            exact = Fraction(dividend) - quotient * Fraction(divisor)
            expected.append(math.copysign(float(exact), dividend))
    assert same(result, expected).all()


@pytest.mark.parametrize("element", BASE_FLOAT_TYPES)
def test_sign_operations_touch_one_bit(element):
    fmt = FORMATS[element]
    rng = np.random.default_rng(1)
    bits = rng.integers(0, fmt.mask, 300, np.uint64, endpoint=True)
    bits[:24] = special_patterns(element)
    array = from_bits(bits, element)
    sign = np.uint64(fmt.sign_bit)
    assert (bits_of(float_ops.negf(array, element), element) == bits ^ sign).all()
    assert (bits_of(float_ops.absf(array, element), element) == bits & ~sign).all()


def scalar_extremum(lhs: float, rhs: float, larger: bool, propagate_nan: bool) -> float:
    if math.isnan(lhs) or math.isnan(rhs):
        if propagate_nan:
            return math.nan
        return rhs if math.isnan(lhs) else lhs
    first, second = sorted((lhs, rhs), key=lambda value: (value, math.copysign(1, value)))
    return second if larger else first


@pytest.mark.parametrize("propagate_nan", [False, True])
@pytest.mark.parametrize("op", ["maxf", "minf"])
@pytest.mark.parametrize("element", BASE_FLOAT_TYPES)
def test_extremes(element, op, propagate_nan):
    lhs, rhs = operands(element, 2, seed=4)
    result = getattr(float_ops, op)(lhs, rhs, element, propagate_nan=propagate_nan)
    pairs = zip(as_floats(lhs), as_floats(rhs), strict=True)
    expected = [scalar_extremum(*pair, op == "maxf", propagate_nan) for pair in pairs]
    assert same(result, expected).all()
    nan_bits = bits_of(result, element)[np.isnan(as_floats(result))]
    assert nan_bits.size
    assert (nan_bits == FORMATS[element].nan_bits).all()


@pytest.mark.parametrize("propagate_nan", [False, True])
@pytest.mark.parametrize("op", ["maxf", "minf"])
@pytest.mark.parametrize("element", BASE_FLOAT_TYPES)
def test_reduced_extremes_are_folded_ones(element, op, propagate_nan):
    """Bit for bit, for columns of two special values, of many, and of NaN alone."""
    pairs = np.stack(operands(element, 2, seed=5))
    fmt = FORMATS[element]
    special = from_bits(np.array(special_patterns(element), np.uint64), element)
    nans = from_bits(np.array([[fmt.nan_bits], [fmt.nan_bits | fmt.sign_bit]], np.uint64), element)
    combine = partial(getattr(float_ops, op), element=element, propagate_nan=propagate_nan)
    for rows in (pairs, special[:, None], np.roll(special, 7)[:, None], nans, nans[:1]):
        folded = rows[0]
        for row in rows[1:]:
            folded = combine(row, folded)
        together = getattr(float_ops, f"reduce_{op}")
        result = together(rows, element, propagate_nan=propagate_nan)
        assert result.dtype == folded.dtype
        assert bits_of(result, element).tolist() == bits_of(folded, element).tolist()


def test_reduced_extremes_flush_their_operands():
    tiny = np.array([[1e-40], [-1.0]], np.float32)
    flushed_max = float_ops.reduce_maxf(tiny, "f32", flush_to_zero=True)
    assert flushed_max.tolist() == [0.0]
    tiny = np.array([[1e-40], [-1e-40]], np.float32)
    flushed_min = float_ops.reduce_minf(tiny, "f32", flush_to_zero=True)
    assert flushed_min.tolist() == [0.0]
    assert np.signbit(flushed_min).tolist() == [True]


def test_fma_f32_next_to_ties():
    """Products half-way between two numbers, with addends that decide, too small for float64."""
    rng = np.random.default_rng(9)
    lhs = (2 * rng.integers(1 << 11, 1 << 12, 600) + 1).astype(np.float32)
    rhs = (2 * rng.integers(1 << 11, 1 << 12, 600) + 1).astype(np.float32)
    scale = np.ldexp(np.float32(1), np.resize([0, -70, -87, 100], 600)).astype(np.float32)
    acc = np.resize(np.array([0, 1, -1, 1e-6, -1e-6], np.float32), 600) * np.float32(1e-30)
    # Just below half of the smallest subnormal: 2**-150 * (1 - 2**-46), under an odd multiple of it.
    below_half = [(1 + 2**-23) * 2.0**-75], [(1 - 2**-23) * 2.0**-75], [(2**22 + 1) * 2.0**-149]
    lanes = tuple(
        np.append(array, np.array(last, np.float32))
        for array, last in zip((lhs * scale, rhs, acc * scale), below_half, strict=True)
    )
    result = float_ops.fma(*lanes, "f32")
    floats = zip(*(as_floats(array) for array in lanes), strict=True)
    expected = [expected_lane("fma", lane, "f32", "nearest_even") for lane in floats]
    assert same(result, expected).all()


def test_extremes_flush_their_operands():
    tiny, less = np.array([1e-40], np.float32), np.array([-1.0], np.float32)
    assert float_ops.maxf(tiny, less, "f32", flush_to_zero=True).tolist() == [0.0]
    assert float_ops.maxf(tiny, less, "f32").tolist() == tiny.tolist()


COMPARE = {
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "less_than": lambda a, b: a < b,
    "less_than_or_equal": lambda a, b: a <= b,
    "greater_than": lambda a, b: a > b,
    "greater_than_or_equal": lambda a, b: a >= b,
}


@pytest.mark.parametrize("predicate", COMPARE)
@pytest.mark.parametrize("element", BASE_FLOAT_TYPES)
def test_comparison(element, predicate):
    lhs, rhs = operands(element, 2, seed=6)
    pairs = list(zip(as_floats(lhs), as_floats(rhs), strict=True))
    for ordering in ("ordered", "unordered"):
        result = float_ops.cmpf(
            lhs, rhs, element, comparison_predicate=predicate, comparison_ordering=ordering
        )
        assert result.dtype == np.bool_
        expected = [
            ordering == "unordered" if math.isnan(a) or math.isnan(b) else COMPARE[predicate](a, b)
            for a, b in pairs
        ]
        assert result.tolist() == expected


@pytest.mark.parametrize("element", BASE_FLOAT_TYPES)
def test_integral_rounding(element):
    (array,) = operands(element, 1, seed=8)
    small = encode_exact(np.arange(-40, 41) / 8, element)
    array = np.concatenate([array, small])
    for op, whole in (("ceil", math.ceil), ("floor", math.floor)):
        result = getattr(float_ops, op)(array, element)
        assert result.dtype == dtype_of(element)
        expected = [
            math.copysign(float(whole(value)), value) if math.isfinite(value) else value
            for value in as_floats(array)
        ]
        assert same(result, expected).all()
