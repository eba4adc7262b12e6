"""Conversions: all values of the narrow types, corners and random values of the wide ones."""

import math
from bisect import bisect_right
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from tests.numerics.reference import (
    ALL_MODES,
    INT_BITS,
    LARGEST,
    LAYOUTS,
    as_floats,
    finite_values,
    rounded,
    same,
)

from tilewright.numerics import FORMATS, convert
from tilewright.numerics.arrays import bits_of, dtype_of, from_bits
from tilewright.numerics.legality import ftof_rounding_modes
from tilewright.numerics.rounding import round_float64, to_float64

SATURATING = ("f8E4M3FN", "f8E5M2", "f8E8M0FNU", "f4E2M1FN", "f8E5M3FNU")
IEEE = ("f16", "bf16", "tf32", "f32")


@np.errstate(all="ignore")
def samples(name: str) -> np.ndarray:
    """Every value of a type of at most 16 bits; of a wider one values near those of narrow types."""
    fmt = FORMATS[name]
    if fmt.bits <= 16:
        return from_bits(np.arange(2**fmt.bits, dtype=np.uint64), name)
    rng = np.random.default_rng(fmt.bits)
    anywhere = rng.integers(0, fmt.mask, 1500, np.uint64, endpoint=True)
    narrow = [float(value) for other in SATURATING for value in finite_values(other)]
    middles = [(a + b) / 2 for a, b in pairwise(narrow)]
    f16 = rng.integers(0, 2**16, 500).astype(np.uint16).view(np.float16).astype(np.float64)
    f16_middles = f16 * (1 + 2.0**-11)
    f32 = rng.integers(0, 2**32, 500).astype(np.uint32).view(np.float32).astype(np.float64)
    close = np.concatenate([narrow, middles, f16, f16_middles, f32, f32 * (1 + 2.0**-24)])
    close = np.concatenate([close, np.nextafter(close, np.inf), np.nextafter(close, -np.inf)])
    held = (close if name == "f64" else close.astype(np.float32)).astype(dtype_of(name))
    if name == "tf32":
        held = (held.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.concatenate([from_bits(anywhere, name), held, -held])


class Saturating:
    """Rounding into a small type by looking its values up."""

    def __init__(self, name: str):
        self.name = name
        self.values = finite_values(name)
        self.floats = [float(value) for value in self.values]
        self.signed = LAYOUTS[name].sign == 1

    def __call__(self, value: float, mode: str) -> float:
        if math.isnan(value):
            return self.floats[-1] if self.name == "f4E2M1FN" else math.nan
        if not self.signed:
            value = abs(value)
        sign = math.copysign(1.0, value)
        direction = {"negative_inf": "positive_inf", "positive_inf": "negative_inf"}
        return sign * self.magnitude(abs(value), direction.get(mode, mode) if sign < 0 else mode)

    def magnitude(self, value: float, mode: str) -> float:
        if value >= self.floats[-1]:
            return self.floats[-1]
        if value <= self.floats[0]:
            return self.floats[0]
        index = bisect_right(self.floats, value) - 1
        low, high = self.values[index], self.values[index + 1]
        if low == value or mode in ("zero", "negative_inf"):
            return float(low)
        if mode == "positive_inf":
            return float(high)
        below, above = Fraction(value) - low, high - Fraction(value)
        if below != above:
            return float(low if below < above else high)
        even = index % 2 == 0 and self.name != "f8E8M0FNU"
        return float(low if mode == "nearest_even" and even else high)


def ieee(value: float, target: str, mode: str) -> float:
    if value == 0 or not math.isfinite(value):
        return value
    return rounded(Fraction(value), target, mode)


@pytest.mark.parametrize("target", SATURATING)
@pytest.mark.parametrize("source", LAYOUTS)
def test_ftof_to_small_types(source, target):
    array = samples(source)
    choose = Saturating(target)
    values = as_floats(to_float64(array, source))
    for mode in ftof_rounding_modes(source, target):
        result = convert.ftof(array, source, to=target, rounding=mode)
        assert result.dtype == dtype_of(target)
        expected = [choose(value, mode) for value in values]
        wrong = np.flatnonzero(~same(to_float64(result, target), expected))
        assert not wrong.size, [(values[i], expected[i]) for i in wrong[:3]]


@pytest.mark.parametrize("target", [*IEEE, "f64"])
@pytest.mark.parametrize("source", LAYOUTS)
def test_ftof_to_wide_types(source, target):
    array = samples(source)
    values = as_floats(to_float64(array, source))
    if FORMATS[source].bits == 16 and FORMATS[target].bits > 16:
        array, values = array[::5], values[::5]
    for mode in ftof_rounding_modes(source, target):
        result = convert.ftof(array, source, to=target, rounding=mode)
        assert result.dtype == dtype_of(target)
        if target == "f64":
            expected = values
        else:
            expected = [ieee(value, target, mode) for value in values]
        wrong = np.flatnonzero(~same(result, expected))
        assert not wrong.size, [(values[i], expected[i]) for i in wrong[:3]]


@pytest.mark.parametrize("mode", ALL_MODES)
@pytest.mark.parametrize("target", ["f8E4M3FN", "f8E8M0FNU", "f4E2M1FN", "f8E5M3FNU", *IEEE])
def test_rounding_in_directions_that_ftof_lacks(target, mode):
    values = samples("f64")
    result = round_float64(values, target, mode, "saturate" if target in SATURATING else "natural")
    if target in SATURATING:
        choose = Saturating(target)
        expected = [choose(value, mode) for value in values.tolist()]
    else:
        expected = [ieee(value, target, mode) for value in values.tolist()]
    assert same(to_float64(result, target), expected).all()


def test_nan_stays_a_tf32():
    array = from_bits(np.array([0x7F800001, 0xFFFFFFFF], np.uint64), "f32")
    for mode in ("nearest_even", "zero", "nearest_away"):
        result = convert.ftof(array, "f32", to="tf32", rounding=mode)
        assert np.isnan(result).all()
        assert not (result.view(np.uint32) & 0x1FFF).any()


INT_SAMPLES = [0, 1, -1, 2, 3, 7, 100, 127, 128, 255, 256, 449, 65503, 65519, 65520, 65536]
INT_SAMPLES += [2**24 + 1, 2**24 + 3, 2**31 - 1, 2**31, 2**32 - 1, 2**53 + 1, 2**53 + 3]
INT_SAMPLES += [2**62 + 2**8 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**63 + 2**39 + 1, 2**63 + 2**10]


@pytest.mark.parametrize("target", [name for name in LAYOUTS if name != "f8E8M0FNU"])
@pytest.mark.parametrize("signedness", ["signed", "unsigned"])
@pytest.mark.parametrize("source", INT_BITS)
def test_itof(source, signedness, target):
    bits = INT_BITS[source]
    rng = np.random.default_rng(bits)
    patterns = rng.integers(0, 2**bits - 1, 300, np.uint64, endpoint=True)
    patterns >>= rng.integers(0, bits, 300).astype(np.uint64)
    patterns = np.concatenate([patterns, np.array([n % 2**bits for n in INT_SAMPLES], np.uint64)])
    numbers = [
        n - 2**bits if signedness == "signed" and n >> (bits - 1) else n for n in patterns.tolist()
    ]
    result = convert.itof(from_bits(patterns, source), source, to=target, signedness=signedness)
    assert result.dtype == dtype_of(target)
    if target in SATURATING:
        choose = Saturating(target)
        magnitude = [abs(n) if not LAYOUTS[target].sign else n for n in numbers]
        clamped = [max(-(10**6), min(10**6, n)) for n in magnitude]
        expected = [choose(float(n), "nearest_even") for n in clamped]
    else:
        expected = [rounded(Fraction(n), target) if n else 0.0 for n in numbers]
    assert same(to_float64(result, target), expected).all()


@pytest.mark.parametrize("target", INT_BITS)
@pytest.mark.parametrize("signedness", ["signed", "unsigned"])
@pytest.mark.parametrize("source", LAYOUTS)
def test_ftoi(source, signedness, target):
    array = samples(source)[::3]
    bits = INT_BITS[target]
    edges = [
        sign * 2.0**n + d for sign in (-1, 1) for n in (7, 15, 31, 32, 63, 64) for d in (-1, 0, 1)
    ]
    if source in ("f32", "f64"):
        array = np.concatenate([array, np.array(edges, dtype_of(source))])
    low, high = (
        (0, 2**bits - 1) if signedness == "unsigned" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    )
    expected, undefined = [], []
    for value in as_floats(to_float64(array, source)):
        if math.isnan(value):
            number = None
        else:
            number = math.trunc(value) if math.isfinite(value) else (value > 0) * 2**70 - 2**69
        undefined.append(number is None or not low <= number <= high)
        expected.append(0 if number is None else max(low, min(high, number)) % 2**bits)
    result = convert.ftoi(array, source, to=target, signedness=signedness)
    assert result.dtype == dtype_of(target)
    assert bits_of(result, target).tolist() == expected
    lanes = convert.ftoi_undefined(array, source, to=target, signedness=signedness)
    assert lanes.tolist() == undefined


ALL_INTS = {**INT_BITS, "i4": 4}


@pytest.mark.parametrize("wide", ALL_INTS)
@pytest.mark.parametrize("narrow", ALL_INTS)
def test_width_changes(narrow, wide):
    low_bits, high_bits = ALL_INTS[narrow], ALL_INTS[wide]
    if low_bits >= high_bits:
        return
    rng = np.random.default_rng(3)
    patterns = rng.integers(0, 2**low_bits - 1, 300, np.uint64, endpoint=True)
    source = from_bits(patterns, narrow)
    for signedness in ("signed", "unsigned"):
        result = convert.exti(source, narrow, to=wide, signedness=signedness)
        assert result.dtype == dtype_of(wide)
        fill = 2**high_bits - 2**low_bits if signedness == "signed" else 0
        expected = [n + fill if n >> (low_bits - 1) else n for n in patterns.tolist()]
        assert bits_of(result, wide).tolist() == expected
    patterns = rng.integers(0, 2**high_bits - 1, 300, np.uint64, endpoint=True)
    patterns[::2] = patterns[::2] >> np.uint64(high_bits - low_bits)
    source = from_bits(patterns, wide)
    result = convert.trunci(source, wide, to=narrow)
    assert result.dtype == dtype_of(narrow)
    assert bits_of(result, narrow).tolist() == [n % 2**low_bits for n in patterns.tolist()]
    signed, unsigned = convert.trunci_wraps(source, wide, to=narrow)
    top = 2 ** (low_bits - 1)
    numbers = [n - 2**high_bits if n >> (high_bits - 1) else n for n in patterns.tolist()]
    assert signed.tolist() == [not -top <= n < top for n in numbers]
    assert unsigned.tolist() == [n >= 2 * top for n in patterns.tolist()]


@pytest.mark.parametrize(
    ("source", "target"),
    [("f32", "i32"), ("bf16", "f16"), ("i8", "f8E5M3FNU"), ("f8E8M0FNU", "f8E5M2")],
)
def test_bitcast(source, target):
    patterns = np.random.default_rng(0).integers(
        0, FORMATS[source].mask, 100, np.uint64, endpoint=True
    )
    result = convert.bitcast(from_bits(patterns, source), source, to=target)
    assert result.dtype == dtype_of(target)
    assert (bits_of(result, target) == patterns).all()


@pytest.mark.parametrize("name", [name for name in FORMATS if FORMATS[name].bits != 8])
def test_pack_and_unpack(name):
    patterns = np.random.default_rng(0).integers(
        0, FORMATS[name].mask, 64, np.uint64, endpoint=True
    )
    source = from_bits(patterns, name)
    packed = convert.pack(source, name)
    assert packed.dtype == np.int8
    width = 1 if name == "i1" else FORMATS[name].storage_bits
    assert packed.size == 64 * width // 8
    back = convert.unpack(packed, to=name)
    assert (bits_of(back, name) == patterns).all()


def test_packed_bytes():
    assert convert.pack(np.array([0x04030201], np.int32), "i32").tolist() == [1, 2, 3, 4]
    ones = np.zeros(16, np.bool_)
    ones[[0, 9]] = True
    assert convert.pack(ones, "i1").tolist() == [1, 2]
    assert convert.unpack(np.array([0x31], np.int8), to="i4").tolist() == [1, 3]


def test_largest_values_are_those_of_the_table():
    for target in SATURATING:
        result = convert.ftof(np.array([1e30, np.inf]), "f64", to=target)
        if target != "f8E8M0FNU":
            assert as_floats(to_float64(result, target)) == [float(LARGEST[target])] * 2
