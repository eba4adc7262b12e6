"""Integer operations against Python integers: every pair of i8 and i1, many of the wider types."""

import itertools

import numpy as np
import pytest
from tests.numerics.reference import INT_BITS

from tilewright.numerics import int_ops

WIDE = ("i16", "i32", "i64")
PREDICATES = (
    "equal",
    "not_equal",
    "less_than",
    "less_than_or_equal",
    "greater_than",
    "greater_than_or_equal",
)


def pairs(element: str) -> tuple[np.ndarray, np.ndarray]:
    """Bit patterns: all pairs of a narrow type, corners and random pairs of a wide one."""
    bits = INT_BITS[element]
    if bits <= 8:
        lhs, rhs = np.meshgrid(np.arange(2**bits), np.arange(2**bits), indexing="ij")
        return lhs.reshape(-1).astype(np.uint64), rhs.reshape(-1).astype(np.uint64)
    rng = np.random.default_rng(bits)
    top = 2 ** (bits - 1)
    corners = [
        0,
        1,
        2,
        3,
        bits - 1,
        bits,
        bits + 1,
        top - 1,
        top,
        top + 1,
        2 * top - 2,
        2 * top - 1,
    ]
    corners += [1 << (bits // 2), (1 << (bits // 2)) - 1]
    table = list(itertools.product(corners, repeat=2))
    shift = rng.integers(0, bits, 2000).astype(np.uint64)
    random_bits = rng.integers(0, 2 * top - 1, (2, 2000), np.uint64, endpoint=True)
    random_bits[0] >>= shift
    random_bits[1] >>= shift[::-1]
    both = np.concatenate([np.array(table, np.uint64).T, random_bits], axis=1)
    return both[0], both[1]


def as_tile(patterns: np.ndarray, element: str) -> np.ndarray:
    if element == "i1":
        return patterns.astype(np.bool_)
    return patterns.astype(f"u{INT_BITS[element] // 8}").view(f"i{INT_BITS[element] // 8}")


def patterns_of(tile: np.ndarray, element: str) -> list[int]:
    return [int(value) % 2 ** INT_BITS[element] for value in tile.tolist()]


def read(pattern: int, element: str, signedness: str) -> int:
    bits = INT_BITS[element]
    return pattern - 2**bits if signedness == "signed" and pattern >> (bits - 1) else pattern


def truncated(dividend: int, divisor: int) -> int:
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def check(element, function, expected, keep=lambda lhs, rhs: True, **attributes):
    """Compare ``function`` with ``expected(lhs pattern, rhs pattern)`` modulo 2**N."""
    lhs, rhs = pairs(element)
    result = function(as_tile(lhs, element), as_tile(rhs, element), element, **attributes)
    assert result.dtype == as_tile(lhs, element).dtype
    modulus = 2 ** INT_BITS[element]
    for left, right, got in zip(
        lhs.tolist(), rhs.tolist(), patterns_of(result, element), strict=True
    ):
        if keep(left, right):
            assert got == expected(left, right) % modulus, (left, right)


@pytest.mark.parametrize("element", INT_BITS)
@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("addi", lambda a, b: a + b),
        ("subi", lambda a, b: a - b),
        ("muli", lambda a, b: a * b),
        ("andi", lambda a, b: a & b),
        ("ori", lambda a, b: a | b),
        ("xori", lambda a, b: a ^ b),
    ],
)
def test_modular_arithmetic(element, op, expected):
    check(element, getattr(int_ops, op), expected)


@pytest.mark.parametrize("element", INT_BITS)
def test_high_product(element):
    check(element, int_ops.mulhii, lambda a, b: a * b >> INT_BITS[element])


@pytest.mark.parametrize("element", INT_BITS)
def test_shifts(element):
    bits = INT_BITS[element]
    check(element, int_ops.shli, lambda a, b: a << b if b < bits else 0)
    check(element, int_ops.shri, lambda a, b: a >> min(b, bits), signedness="unsigned")

    def arithmetic(left: int, right: int) -> int:
        return read(left, element, "signed") >> min(right, bits)

    check(element, int_ops.shri, arithmetic, signedness="signed")
    lhs, rhs = pairs(element)
    too_far = int_ops.shift_too_far(as_tile(lhs, element), as_tile(rhs, element), element)
    assert too_far.tolist() == (rhs >= bits).tolist()


@pytest.mark.parametrize("signedness", ["signed", "unsigned"])
@pytest.mark.parametrize("element", INT_BITS)
class TestReadings:
    def test_division(self, element, signedness):
        smallest = -(2 ** (INT_BITS[element] - 1))

        def numbers(left: int, right: int) -> tuple[int, int]:
            return read(left, element, signedness), read(right, element, signedness)

        def defined(left: int, right: int) -> bool:
            return right != 0 and not (
                signedness == "signed" and numbers(left, right) == (smallest, -1)
            )

        modes = {
            "zero": truncated,
            "positive_inf": lambda a, b: -(-a // b),
            "negative_inf": lambda a, b: a // b,
        }
        for mode, divide in modes.items():
            check(
                element,
                int_ops.divi,
                lambda a, b, divide=divide: divide(*numbers(a, b)),
                defined,
                signedness=signedness,
                rounding=mode,
            )

        def remainder(left: int, right: int) -> int:
            dividend, divisor = numbers(left, right)
            return dividend - truncated(dividend, divisor) * divisor

        check(element, int_ops.remi, remainder, lambda a, b: b != 0, signedness=signedness)
        lhs, rhs = pairs(element)
        tiles = as_tile(lhs, element), as_tile(rhs, element)
        undefined = int_ops.divi_undefined(*tiles, element, signedness=signedness)
        lanes = zip(lhs.tolist(), rhs.tolist(), strict=True)
        assert undefined.tolist() == [not defined(*lane) for lane in lanes]
        no_remainder = int_ops.remi_undefined(*tiles, element, signedness=signedness)
        assert no_remainder.tolist() == (rhs == 0).tolist()

    def test_extremes(self, element, signedness):
        def by_reading(pattern: int) -> int:
            return read(pattern, element, signedness)

        check(element, int_ops.maxi, lambda a, b: max(a, b, key=by_reading), signedness=signedness)
        check(element, int_ops.mini, lambda a, b: min(a, b, key=by_reading), signedness=signedness)

    def test_comparison(self, element, signedness):
        lhs, rhs = pairs(element)
        numbers = [
            (read(a, element, signedness), read(b, element, signedness))
            for a, b in zip(lhs.tolist(), rhs.tolist(), strict=True)
        ]
        results = [
            [a == b for a, b in numbers],
            [a != b for a, b in numbers],
            [a < b for a, b in numbers],
            [a <= b for a, b in numbers],
            [a > b for a, b in numbers],
            [a >= b for a, b in numbers],
        ]
        for predicate, expected in zip(PREDICATES, results, strict=True):
            result = int_ops.cmpi(
                as_tile(lhs, element),
                as_tile(rhs, element),
                element,
                comparison_predicate=predicate,
                signedness=signedness,
            )
            assert result.dtype == np.bool_
            assert result.tolist() == expected


@pytest.mark.parametrize("element", INT_BITS)
def test_unary(element):
    patterns, _ = pairs(element)
    tile = as_tile(patterns, element)
    modulus = 2 ** INT_BITS[element]
    negated = patterns_of(int_ops.negi(tile, element), element)
    assert negated == [-pattern % modulus for pattern in patterns.tolist()]
    magnitudes = patterns_of(int_ops.absi(tile, element), element)
    assert magnitudes == [abs(read(p, element, "signed")) for p in patterns.tolist()]


EXACT = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
}


@pytest.mark.parametrize("element", INT_BITS)
@pytest.mark.parametrize("op", EXACT)
def test_what_wraps(element, op):
    lhs, rhs = pairs(element)
    lanes = int_ops.wraps(op, as_tile(lhs, element), as_tile(rhs, element))
    for signedness, got in zip(("signed", "unsigned"), lanes, strict=True):
        low, high = bounds(element, signedness)
        expected = [
            not low <= EXACT[op](*(read(n, element, signedness) for n in pair)) <= high
            for pair in zip(lhs.tolist(), rhs.tolist(), strict=True)
        ]
        assert got.tolist() == expected


def bounds(element: str, signedness: str) -> tuple[int, int]:
    bits = INT_BITS[element]
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signedness == "signed" else (0, 2**bits - 1)


@pytest.mark.parametrize("element", INT_BITS)
def test_what_wraps_in_shifts_and_negation(element):
    lhs, rhs = pairs(element)
    shifted = int_ops.wraps("shli", as_tile(lhs, element), as_tile(rhs, element))
    negated = int_ops.wraps("negi", as_tile(lhs, element))
    for index, signedness in enumerate(("signed", "unsigned")):
        low, high = bounds(element, signedness)
        # Shifting by more than twice the width leaves the range no less than by that.
        expected = [
            not low <= read(a, element, signedness) << min(b, 2 * INT_BITS[element]) <= high
            for a, b in zip(lhs.tolist(), rhs.tolist(), strict=True)
        ]
        assert shifted[index].tolist() == expected
        in_range = [low <= -read(a, element, signedness) <= high for a in lhs.tolist()]
        assert negated[index].tolist() == [not fits for fits in in_range]


def test_promises():
    signed, unsigned = np.array([True, False]), np.array([False, True])
    broken = {
        promise: int_ops.breaks_overflow_flag(promise, signed, unsigned).tolist()
        for promise in ("none", "no_signed_wrap", "no_unsigned_wrap", "no_wrap")
    }
    assert broken == {
        "none": [False, False],
        "no_signed_wrap": [True, False],
        "no_unsigned_wrap": [False, True],
        "no_wrap": [True, True],
    }


@pytest.mark.parametrize("element", WIDE)
def test_undefined_division_has_its_stated_value(element):
    smallest = as_tile(np.array([2 ** (INT_BITS[element] - 1)], np.uint64), element)
    minus_one = as_tile(np.array([2 ** INT_BITS[element] - 1], np.uint64), element)
    zero = np.zeros_like(smallest)
    signed = {"signedness": "signed"}
    for mode in ("zero", "positive_inf", "negative_inf"):
        assert int_ops.divi(smallest, zero, element, **signed, rounding=mode)[0] == 0
        quotient = int_ops.divi(smallest, minus_one, element, **signed, rounding=mode)
        assert quotient[0] == smallest[0]
    assert int_ops.remi(smallest, zero, element, **signed)[0] == 0
    assert int_ops.remi(smallest, minus_one, element, **signed)[0] == 0
