"""Exact scalar floats of every element type, on Python integers and fractions. No NumPy.

A *bit pattern* is an ``int`` in ``range(2**fmt.bits)``; tf32 patterns have 19 bits.
"""

from __future__ import annotations

import math
import re
from enum import Enum
from fractions import Fraction
from typing import Final, Literal

from tilewright.numerics.element_types import ElementFormat

Rounding = Literal["nearest_even", "nearest_away", "zero", "negative_inf", "positive_inf"]
"""The rounding directions, spelled as in Tile IR."""

Overflow = Literal["natural", "saturate"]
"""What to do with a value out of range.

``natural``: infinity if the type has one (depending on the direction), else NaN, else the largest
finite value. ``saturate``: the largest finite value, even for infinities.
"""


class Special(Enum):
    """The float values that a ``Fraction`` cannot hold."""

    NEGATIVE_ZERO = "-0"
    POSITIVE_INF = "inf"
    NEGATIVE_INF = "-inf"
    NAN = "nan"


def is_nan(bits: int, fmt: ElementFormat) -> bool:
    """Whether the pattern is a NaN."""
    magnitude = bits & fmt.magnitude_mask
    if fmt.nan == "ieee":
        return magnitude > fmt.inf_bits
    return fmt.nan == "all_ones" and magnitude == fmt.magnitude_mask


def is_inf(bits: int, fmt: ElementFormat) -> bool:
    """Whether the pattern is an infinity of either sign."""
    return fmt.has_inf and bits & fmt.magnitude_mask == fmt.inf_bits


def is_zero(bits: int, fmt: ElementFormat) -> bool:
    """Whether the pattern is a zero of either sign."""
    return fmt.has_zero and not bits & fmt.magnitude_mask


def is_negative(bits: int, fmt: ElementFormat) -> bool:
    """Whether the sign bit is set, also for NaNs and zeros."""
    return bool(bits & fmt.sign_bit)


def split_finite(bits: int, fmt: ElementFormat) -> tuple[int, int]:
    """Return ``(significand, exponent)`` of a finite pattern; its magnitude is significand * 2**exponent.

    Neither is normalised: the significand of a subnormal has fewer bits. The sign is not part of it.
    """
    magnitude = bits & fmt.magnitude_mask
    field, mantissa = magnitude >> fmt.mantissa_bits, magnitude & ((1 << fmt.mantissa_bits) - 1)
    if field or not fmt.has_zero:
        return mantissa | 1 << fmt.mantissa_bits, field - fmt.bias - fmt.mantissa_bits
    return mantissa, fmt.min_exponent - fmt.mantissa_bits


def decode(bits: int, fmt: ElementFormat) -> Fraction | Special:
    """Return the exact value of a pattern. +0 is ``Fraction(0)``; -0, infinities and NaN are special."""
    negative = is_negative(bits, fmt)
    if is_nan(bits, fmt):
        return Special.NAN
    if is_inf(bits, fmt):
        return Special.NEGATIVE_INF if negative else Special.POSITIVE_INF
    significand, exponent = split_finite(bits, fmt)
    if not significand:
        return Special.NEGATIVE_ZERO if negative else Fraction(0)
    value = significand * Fraction(2) ** exponent
    return -value if negative else value


def _rounds_up(remainder_vs_half: int, odd: bool, rounding: Rounding, negative: bool) -> bool:
    """Whether a magnitude with a nonzero remainder rounds to the next larger one."""
    if rounding == "nearest_even":
        return remainder_vs_half > 0 or (remainder_vs_half == 0 and odd)
    if rounding == "nearest_away":
        return remainder_vs_half >= 0
    return rounding == ("negative_inf" if negative else "positive_inf")


def _overflowed(
    fmt: ElementFormat, rounding: Rounding, overflow: Overflow, negative: bool, *, infinite: bool
) -> int:
    """Return the magnitude bits of a value beyond the largest finite one."""
    if overflow == "saturate":
        return fmt.max_finite_bits
    if not infinite and rounding in ("zero", "positive_inf" if negative else "negative_inf"):
        return fmt.max_finite_bits
    if fmt.has_inf:
        return fmt.inf_bits
    return fmt.max_finite_bits if fmt.nan == "none" else fmt.nan_bits


def _times_power_of_two(number: int, exponent: int) -> int:
    """Return ``number * 2**exponent``, or ``number`` for a negative exponent."""
    return number << max(exponent, 0)


def _round_magnitude(
    magnitude: Fraction, fmt: ElementFormat, rounding: Rounding, negative: bool
) -> int:
    """Return magnitude bits after rounding, as if the exponent field were unbounded."""
    numerator, denominator = magnitude.numerator, magnitude.denominator
    exponent = numerator.bit_length() - denominator.bit_length()
    if _times_power_of_two(denominator, exponent) > _times_power_of_two(numerator, -exponent):
        exponent -= 1
    exponent = max(exponent, fmt.min_exponent)
    unit_exponent = exponent - fmt.mantissa_bits
    divisor = _times_power_of_two(denominator, unit_exponent)
    units, rest = divmod(_times_power_of_two(numerator, -unit_exponent), divisor)
    # A type with one significant bit has no even significand, so its ties round up.
    odd = bool(units & 1)
    if rest:
        against_half = 2 * rest - divisor
        compared = (against_half > 0) - (against_half < 0)
        units += _rounds_up(compared, odd, rounding, negative)
    if not fmt.has_zero:
        # A type without zero has no subnormals: values below the range become its smallest value.
        units = max(units, 1)
        return units - 1 + exponent - fmt.min_exponent
    # The hidden bit of a normal number adds one to the exponent field; a subnormal has none.
    return units + ((exponent - fmt.min_exponent) << fmt.mantissa_bits)


def encode(
    value: Fraction | int | Special,
    fmt: ElementFormat,
    rounding: Rounding = "nearest_even",
    overflow: Overflow = "natural",
) -> int:
    """Return the pattern of ``value`` rounded once.

    A type without zero uses its smallest value instead; one without NaN uses its largest value. Raises
    ValueError for a negative value and an unsigned type, except that -0 counts as zero.
    """
    if value is Special.NAN:
        return fmt.max_finite_bits if fmt.nan == "none" else fmt.nan_bits
    if value is Special.NEGATIVE_ZERO:
        return fmt.sign_bit
    if isinstance(value, Special):
        negative = value is Special.NEGATIVE_INF
        bits = _overflowed(fmt, rounding, overflow, negative, infinite=True)
    elif value == 0:
        return 0
    else:
        negative = value < 0
        bits = _round_magnitude(abs(Fraction(value)), fmt, rounding, negative)
        if bits > fmt.max_finite_bits:
            bits = _overflowed(fmt, rounding, overflow, negative, infinite=False)
    if negative and not fmt.signed:
        raise ValueError(f"{fmt.name} has no negative values")
    return bits | (fmt.sign_bit if negative else 0)


def bits_to_float(bits: int, fmt: ElementFormat) -> float:
    """Return the value as a Python float; exact for every type, apart from NaN payloads."""
    if is_nan(bits, fmt):
        return math.nan
    if is_inf(bits, fmt):
        magnitude = math.inf
    else:
        significand, exponent = split_finite(bits, fmt)
        magnitude = math.ldexp(significand, exponent)
    return -magnitude if is_negative(bits, fmt) else magnitude


def float_to_bits(
    value: float,
    fmt: ElementFormat,
    rounding: Rounding = "nearest_even",
    overflow: Overflow = "natural",
) -> int:
    """Return the pattern of a Python float rounded once; see ``encode``, also for the errors.

    Raises ValueError for a negative value, but for -0, and an unsigned type.
    """
    if math.isnan(value):
        return encode(Special.NAN, fmt)
    if math.isinf(value):
        infinity = Special.POSITIVE_INF if value > 0 else Special.NEGATIVE_INF
        return encode(infinity, fmt, rounding, overflow)
    if value == 0 and math.copysign(1.0, value) < 0:
        return encode(Special.NEGATIVE_ZERO, fmt)
    return encode(Fraction(value), fmt, rounding, overflow)


_PADDING: Final = {
    "zero": 0,
    "neg_zero": Special.NEGATIVE_ZERO,
    "nan": Special.NAN,
    "pos_inf": Special.POSITIVE_INF,
    "neg_inf": Special.NEGATIVE_INF,
}


def padding_bits(padding_value: str, fmt: ElementFormat) -> int:
    """Return the pattern that a view reads out of bounds; ``padding_value`` as in Tile IR.

    A type without NaN or infinities uses its largest value, and an unsigned type its smallest instead of
    a negative one; Tile IR does not specify these. Integers have only ``zero``: KeyError for another.
    """
    if padding_value == "zero" and fmt.is_int:
        return 0
    value = _PADDING[padding_value]
    if value is Special.NEGATIVE_INF and not fmt.signed:
        return 0
    return encode(value, fmt, overflow="natural" if fmt.has_inf else "saturate")


_DECIMAL: Final = re.compile(r"([+-]?)([0-9]+)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?")
# No element type needs more digits to decide a tie (f64 needs 768) or exceeds 10**+-400.
_DIGIT_LIMIT: Final = 1000
_EXPONENT_LIMIT: Final = 400


def round_decimal_text(text: str, fmt: ElementFormat) -> int:
    """Return the pattern nearest to a decimal literal such as ``-2.5e3``, ties to even, rounded once.

    A value too large becomes infinity, NaN in a type without infinity, or the largest value in a type
    without either. Raises ValueError for malformed text, and for a negative value in an unsigned type.
    The time is bounded for any exponent and number of digits.
    """
    match = _DECIMAL.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a decimal float literal")
    sign, whole, fraction, exponent_text = match.groups()
    digits = (whole + (fraction or "")).lstrip("0")
    negative = sign == "-"
    if not digits:
        return encode(Special.NEGATIVE_ZERO if negative else 0, fmt)
    # Ten exponent digits exceed every limit already and keep int() cheap.
    exponent_digits = (exponent_text or "0").lstrip("+-").lstrip("0")[:10] or "0"
    exponent = int(exponent_digits)
    if exponent_text and exponent_text.startswith("-"):
        exponent = -exponent
    # The value is 0.d1d2d3... * 10**point.
    point = exponent + len(digits) - len(fraction or "")
    if len(digits) > _DIGIT_LIMIT:
        sticky = "1" if digits[_DIGIT_LIMIT:].strip("0") else "0"
        digits = digits[:_DIGIT_LIMIT] + sticky
    point = max(-_EXPONENT_LIMIT, min(_EXPONENT_LIMIT, point))
    value = int(digits) * Fraction(10) ** (point - len(digits))
    return encode(-value if negative else value, fmt)


# The decimal and hexadecimal forms in which MLIR tools print a float constant.
_SHORT_FORM_DIGITS: Final = 6
_PADDING_LIMIT: Final = 3


def _decimal_digits(bits: int, fmt: ElementFormat, digit_limit: int) -> tuple[str, int]:
    """Return decimal ``(digits, exponent)`` of a nonzero finite pattern: value = digits * 10**exponent.

    At most ``digit_limit`` digits, without trailing zeros. The digits follow LLVM, which does not simply
    round: if the exact value is much longer than requested, its low digits are first cut off using a
    binary estimate, and only then is the rest rounded half up.
    """
    significand, exponent = split_finite(bits, fmt)
    if exponent > 0:
        significand, exponent = significand << exponent, 0
    else:
        shift = min(-exponent, (significand & -significand).bit_length() - 1)
        significand, exponent = significand >> shift, exponent + shift
        significand *= 5**-exponent
    # LLVM uses 196/59 for log2(10).
    needed_bits = (digit_limit * 196 + 58) // 59
    removable = max(0, significand.bit_length() - needed_bits) * 59 // 196
    digits = str(significand // 10**removable)
    exponent += removable
    if len(digits) > digit_limit:
        kept, cut = digits[:digit_limit], digits[digit_limit:]
        exponent += len(cut)
        digits = str(int(kept) + 1) if cut[0] >= "5" else kept
    stripped = digits.rstrip("0")
    return stripped, exponent + len(digits) - len(stripped)


def _short_form(bits: int, fmt: ElementFormat) -> str:
    """Return the scientific form with six significant digits and a padding zero, as in ``1.000000e+00``."""
    sign = "-" if is_negative(bits, fmt) else ""
    if is_zero(bits, fmt):
        return f"{sign}0.{'0' * _SHORT_FORM_DIGITS}e+00"
    digits, exponent = _decimal_digits(bits, fmt, _SHORT_FORM_DIGITS)
    exponent += len(digits) - 1
    fraction = digits[1:].ljust(_SHORT_FORM_DIGITS, "0")
    return f"{sign}{digits[0]}.{fraction}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _full_form(bits: int, fmt: ElementFormat) -> str:
    """Return all digits that a round trip can need; scientific (``1.5E+30``) for extreme exponents.

    The result has no point if the value is an integer small enough to be written out.
    """
    sign = "-" if is_negative(bits, fmt) else ""
    if is_zero(bits, fmt):
        return f"{sign}0"
    digit_limit = 2 + fmt.precision * 59 // 196
    digits, exponent = _decimal_digits(bits, fmt, digit_limit)
    point = len(digits) + exponent
    if exponent >= 0:
        scientific = exponent > _PADDING_LIMIT or point > digit_limit
    else:
        scientific = point <= 0 and 1 - point > _PADDING_LIMIT
    if scientific:
        power = point - 1
        fraction = digits[1:] or "0"
        return f"{sign}{digits[0]}.{fraction}E{'-' if power < 0 else '+'}{abs(power)}"
    if exponent >= 0:
        return f"{sign}{digits}{'0' * exponent}"
    if point > 0:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    return f"{sign}0.{'0' * -point}{digits}"


def format_float(bits: int, fmt: ElementFormat) -> str:
    """Format a float constant so that reading it back in the same type yields the same bits.

    Six digits in scientific form if they suffice; else all digits needed, if that form has a point and
    reads back; else, and for infinities and NaN, the bit pattern in hexadecimal, padded to the width of
    the type.
    """
    if not is_nan(bits, fmt) and not is_inf(bits, fmt):
        short = _short_form(bits, fmt)
        if round_decimal_text(short, fmt) == bits:
            return short
        full = _full_form(bits, fmt)
        if "." in full and round_decimal_text(full, fmt) == bits:
            return full
    return f"0x{bits:0{(fmt.bits + 3) // 4}X}"
