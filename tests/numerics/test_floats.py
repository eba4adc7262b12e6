"""Scalar floats: decoding, rounding, reading and printing."""

import math
import random
import time
from bisect import bisect_left
from fractions import Fraction
from itertools import pairwise

import pytest
from tests.numerics.reference import ALL_MODES, LARGEST, LAYOUTS, finite_values, rounded, value_of

from tilewright.numerics import (
    FORMATS,
    Special,
    bits_to_float,
    decode,
    encode,
    float_to_bits,
    format_float,
    is_inf,
    is_nan,
    is_negative,
    is_zero,
    padding_bits,
    round_decimal_text,
)

SMALL = [name for name in LAYOUTS if FORMATS[name].bits <= 16]
EIGHT_BIT = [name for name in LAYOUTS if FORMATS[name].bits <= 8]
LARGE = ["f32", "tf32", "f64"]


def patterns(name: str) -> list[int]:
    """Every pattern of a small type; many random ones and the corners of a large one."""
    bits = FORMATS[name].bits
    if bits <= 16:
        return list(range(2**bits))
    generator = random.Random(name)
    corners = [
        corner + offset
        for corner in (0, FORMATS[name].inf_bits, FORMATS[name].sign_bit, 1 << bits)
        for offset in (-2, -1, 0, 1, 2)
    ]
    chosen = [bits for bits in corners if 0 <= bits <= FORMATS[name].mask]
    return chosen + [generator.getrandbits(bits) for _ in range(3000)]


@pytest.mark.parametrize("name", LAYOUTS)
def test_decoding_and_predicates(name):
    fmt = FORMATS[name]
    for bits in patterns(name):
        expected = value_of(bits, name)
        value = decode(bits, fmt)
        plain = bits_to_float(bits, fmt)
        assert is_nan(bits, fmt) == (expected != expected) == (value is Special.NAN)
        assert is_inf(bits, fmt) == (expected in (math.inf, -math.inf))
        assert is_zero(bits, fmt) == (expected == 0)
        if expected == expected:
            assert plain == expected
            assert is_negative(bits, fmt) == (math.copysign(1, plain) < 0)
        else:
            assert plain != plain


@pytest.mark.parametrize("name", LAYOUTS)
def test_encoding_undoes_decoding(name):
    fmt = FORMATS[name]
    for bits in patterns(name):
        value = decode(bits, fmt)
        if value is Special.NAN:
            assert encode(value, fmt) == fmt.nan_bits
            continue
        # What is representable does not depend on the mode; one of them per pattern will do.
        assert encode(value, fmt, ALL_MODES[bits % len(ALL_MODES)]) == bits
        assert float_to_bits(bits_to_float(bits, fmt), fmt) == bits


def neighbour_choice(low: Fraction, high: Fraction, value: Fraction, low_is_even: bool, mode: str):
    """Which neighbour the magnitude ``value`` of a positive number goes to."""
    if mode in ("zero", "negative_inf"):
        return low
    if mode == "positive_inf":
        return high
    middle = (low + high) / 2
    if value != middle:
        return low if value < middle else high
    return low if mode == "nearest_even" and low_is_even else high


@pytest.mark.parametrize("mode", ALL_MODES)
@pytest.mark.parametrize("name", EIGHT_BIT)
def test_rounding_between_all_neighbours(name, mode):
    fmt = FORMATS[name]
    values = finite_values(name)
    for bits, (low, high) in enumerate(pairwise(values)):
        step = high - low
        for value in (low + step / 1000, low + step / 2, low + step * Fraction(501, 1000)):
            # The patterns of a type of one significant bit all stand for the odd significand 1.
            even = bits % 2 == 0 and name != "f8E8M0FNU"
            expected = neighbour_choice(low, high, value, even, mode)
            assert decode(encode(value, fmt, mode), fmt) == expected
            if fmt.signed:
                mirrored = {"negative_inf": "positive_inf", "positive_inf": "negative_inf"}
                bits_of_negative = encode(-value, fmt, mirrored.get(mode, mode))
                expected_value = Special.NEGATIVE_ZERO if expected == 0 else -expected
                assert decode(bits_of_negative, fmt) == expected_value


@pytest.mark.parametrize("mode", ALL_MODES)
@pytest.mark.parametrize("name", ["f16", "bf16", *LARGE])
def test_rounding_of_random_fractions(name, mode):
    fmt = FORMATS[name]
    generator = random.Random(7)
    for _ in range(1500):
        top = math.frexp(float(LARGEST[name]))[1]
        exponent = generator.randint(fmt.min_exponent - fmt.mantissa_bits - 3, top + 2)
        value = Fraction(generator.getrandbits(80) | 1 << 79) * Fraction(2) ** (exponent - 80)
        value *= generator.choice((1, -1))
        assert bits_to_float(encode(value, fmt, mode), fmt) == rounded(value, name, mode)


@pytest.mark.parametrize(
    ("name", "natural"),
    [
        ("f16", 0x7C00),
        ("f8E5M2", 0x7C),
        ("f8E4M3FN", 0x7F),
        ("f8E8M0FNU", 0xFF),
        ("f8E5M3FNU", 0xFF),
        ("f4E2M1FN", 0x7),
    ],
)
def test_overflow(name, natural):
    fmt = FORMATS[name]
    huge = LARGEST[name] * 4
    assert encode(huge, fmt) == encode(Special.POSITIVE_INF, fmt) == natural
    assert encode(huge, fmt, "zero") == fmt.max_finite_bits
    assert encode(huge, fmt, "negative_inf") == fmt.max_finite_bits
    assert encode(huge, fmt, overflow="saturate") == fmt.max_finite_bits
    assert encode(Special.POSITIVE_INF, fmt, overflow="saturate") == fmt.max_finite_bits


def test_f8e4m3_overflows_past_the_missing_neighbour():
    fmt = FORMATS["f8E4M3FN"]
    assert encode(464, fmt) == 0x7E
    assert encode(Fraction(464) + Fraction(1, 1000), fmt) == 0x7F
    assert encode(-480, fmt) == 0xFF


def test_types_without_zero_sign_or_nan():
    e8m0 = FORMATS["f8E8M0FNU"]
    assert encode(0, e8m0) == encode(Special.NEGATIVE_ZERO, e8m0) == 0x00
    assert encode(Fraction(1, 2**200), e8m0) == 0x00
    assert encode(Fraction(3, 2), e8m0) == encode(2, e8m0)
    for name in ("f8E8M0FNU", "f8E5M3FNU"):
        with pytest.raises(ValueError, match="no negative values"):
            encode(-1, FORMATS[name])
    assert encode(Special.NAN, FORMATS["f4E2M1FN"]) == 0x7


@pytest.mark.parametrize("name", SMALL + LARGE)
def test_printed_constants_read_back(name):
    fmt = FORMATS[name]
    for bits in patterns(name):
        text = format_float(bits, fmt)
        if text.startswith("0x"):
            assert int(text, 16) == bits
            assert len(text) == 2 + (fmt.bits + 3) // 4
        else:
            assert "." in text
            assert round_decimal_text(text, fmt) == bits


@pytest.mark.parametrize(
    ("name", "bits", "text"),
    [
        ("f32", 0x3F800000, "1.000000e+00"),
        ("f32", 0x80000000, "-0.000000e+00"),
        ("f64", 0x4005BF0A8B145769, "2.7182818284590451"),
        ("f16", 0xC248, "-3.140630e+00"),
        # 6 digits are cut out of the exact value in two steps, not rounded half to even.
        ("f8E4M3FN", 0x01, "1.953130e-03"),
        ("f8E4M3FN", 0x05, "9.765620e-03"),
        ("f32", 0x4B800001, "0x4B800001"),
        ("f32", 0x7F800000, "0x7F800000"),
        ("tf32", 0x1FC00, "1.000000e+00"),
        ("tf32", 0x3FC00, "0x3FC00"),
        ("f8E8M0FNU", 0xFF, "0xFF"),
        ("f64", 0x0000000000000001, "4.940660e-324"),
        ("f64", 0x3EB0C6F7A0B5ED8E, "1.0000000000000002E-6"),
    ],
)
def test_printed_examples(name, bits, text):
    assert format_float(bits, FORMATS[name]) == text


def test_decimal_text_agrees_with_python_for_f64():
    generator = random.Random(3)
    for _ in range(3000):
        digits = str(generator.getrandbits(generator.randint(1, 90)))
        cut = generator.randint(0, len(digits) - 1)
        text = f"{digits[:cut] or '0'}.{digits[cut:]}e{generator.randint(-345, 320)}"
        assert bits_to_float(round_decimal_text(text, FORMATS["f64"]), FORMATS["f64"]) == float(
            text
        )


def test_decimal_text_rounds_once():
    # The decimal is just above the middle of two f32 values and reads as that middle in f64.
    middle = Fraction(1) + Fraction(1, 2**24)
    above = "1.00000005960464477539062500000000000000000001"
    assert float(above) == float(middle)
    assert round_decimal_text(above, FORMATS["f32"]) == 0x3F800001
    assert round_decimal_text("1.000000059604644775390625", FORMATS["f32"]) == 0x3F800000


@pytest.mark.parametrize(
    ("text", "name", "bits"),
    [
        ("-0.0", "f32", 0x80000000),
        ("0.0e99999999999999999999", "f32", 0),
        ("1.0e99999999999999999999", "f32", 0x7F800000),
        ("-1.0e99999999999999999999", "f16", 0xFC00),
        ("-1.0e-99999999999999999999", "f64", 0x8000000000000000),
        ("1.0e400", "f8E4M3FN", 0x7F),
        ("1.0e400", "f4E2M1FN", 0x7),
        ("1.0e400", "f8E8M0FNU", 0xFF),
        ("0.0", "f8E8M0FNU", 0x00),
        ("1", "f32", 0x3F800000),
        ("+1.", "f32", 0x3F800000),
    ],
)
def test_decimal_corner_cases(text, name, bits):
    assert round_decimal_text(text, FORMATS[name]) == bits


def test_long_decimals_take_little_time():
    start = time.process_time()
    tie = "1.00000000000000011102230246251565404236316680908203125"
    zeros = "0" * 200_000
    assert round_decimal_text(tie + zeros, FORMATS["f64"]) == 0x3FF0000000000000
    assert round_decimal_text(tie + zeros + "1", FORMATS["f64"]) == 0x3FF0000000000001
    assert round_decimal_text("9" * 200_000 + ".0", FORMATS["f64"]) == 0x7FF0000000000000
    assert round_decimal_text(f"0.{zeros}1", FORMATS["f64"]) == 0
    assert round_decimal_text(f"{'1' + zeros}.0e-200000", FORMATS["f64"]) == 0x3FF0000000000000
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    "text", ["", ".5", "1.0f", "inf", "0x1.0p3", "1e", "--1.0", "1_0.0", "1.0\n"]
)
def test_other_text_is_refused(text):
    with pytest.raises(ValueError, match="not a decimal"):
        round_decimal_text(text, FORMATS["f32"])


def test_negative_decimal_in_an_unsigned_type_is_refused():
    with pytest.raises(ValueError, match="no negative"):
        round_decimal_text("-1.0", FORMATS["f8E8M0FNU"])


def test_neighbours_of_f16_decimals():
    """Every midpoint of f16, written out in full, goes to the even neighbour."""
    fmt = FORMATS["f16"]
    values = finite_values("f16")
    for bits in range(0, len(values) - 1, 37):
        middle = (values[bits] + values[bits + 1]) / 2
        scale = len(str(middle.denominator)) * 4
        text = f"{middle.numerator * 10**scale // middle.denominator}.0e-{scale}"
        assert round_decimal_text(text, fmt) == bits + bits % 2
        assert bisect_left(values, middle) == bits + 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("f32", (0, 0x80000000, 0x7FC00000, 0x7F800000, 0xFF800000)),
        ("bf16", (0, 0x8000, 0x7FC0, 0x7F80, 0xFF80)),
        ("f8E5M2", (0, 0x80, 0x7E, 0x7C, 0xFC)),
        ("f8E4M3FN", (0, 0x80, 0x7F, 0x7E, 0xFE)),
        ("f4E2M1FN", (0, 0x8, 0x7, 0x7, 0xF)),
        ("f8E8M0FNU", (0, 0, 0xFF, 0xFE, 0)),
    ],
)
def test_padding(name, expected):
    kinds = ("zero", "neg_zero", "nan", "pos_inf", "neg_inf")
    assert tuple(padding_bits(kind, FORMATS[name]) for kind in kinds) == expected


def test_integers_are_padded_with_zero():
    assert padding_bits("zero", FORMATS["i32"]) == 0
