"""Format strings of prints: pieces of text, and conversions of values."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

_EXPRESSION = re.compile(r"%([^diuoxXeEfFgGaAcsSpn%]*)([diuoxXeEfFgGaAcsSpn%])")
# More digits than these are cut off: a width must not exhaust memory.
_FLAGS = re.compile(r"[-+ #0]*\d{0,4}(\.\d{0,3})?")


@dataclass(frozen=True, slots=True)
class Conversion:
    """One printf expression: flags, width and precision, and its letter."""

    options: str
    letter: str

    def __call__(self, value: Any) -> str:
        if self.letter == "p":
            return f"{int(value):#x}"
        if self.letter in "n%":
            return ""
        if self.letter == "c":
            return ("%" + self.options + "s") % chr(int(value) & 0xFF)
        shown = _OPTIONS.fullmatch(self.options)
        assert shown is not None
        flags, width, precision = shown[1], int(shown[2] or 0), shown[3]
        if self.letter in "diouxX":
            sign, prefix, digits = _integer(int(value), self.letter, flags, precision)
            pads = "0" in flags and precision is None
        else:
            sign, prefix, digits = _float(float(value), self.letter, flags, precision)
            pads = "0" in flags and math.isfinite(value)
        if not sign and self.letter not in "ouxX":
            sign = "+" if "+" in flags else " " if " " in flags else ""
        missing = width - len(sign + prefix + digits)
        if "-" in flags:
            return sign + prefix + digits + " " * missing
        return (
            sign + prefix + "0" * missing + digits
            if pads
            else " " * missing + sign + prefix + digits
        )


def number_letter(letter: str, *, is_float: bool) -> str:
    """The letter that a number is printed by: texts are none, so ``s`` prints it in its usual form."""
    if letter not in "sS":
        return letter
    return "g" if is_float else "d"


_OPTIONS = re.compile(r"([-+ #0]*)(\d*)(?:\.(\d*))?")
_MANTISSA_DIGITS = 13


def _integer(value: int, letter: str, flags: str, precision: str | None) -> tuple[str, str, str]:
    """The sign, the prefix and the digits of an integer."""
    kind = letter if letter in "oxX" else "d"
    digits = f"{abs(value):{kind}}".rjust(int(precision or 0) if precision is not None else 0, "0")
    if precision is not None and not int(precision or 0) and not value:
        digits = ""
    prefix = ""
    if "#" in flags and kind == "o" and not digits.startswith("0"):
        digits = "0" + digits
    elif "#" in flags and kind in "xX" and value:
        prefix = "0" + kind
    return "-" if value < 0 else "", prefix, digits


def _float(value: float, letter: str, flags: str, precision: str | None) -> tuple[str, str, str]:
    """The same of a float."""
    is_negative = math.copysign(1.0, value) < 0 and not math.isnan(value)
    prefix, digits = "", f"{abs(value)}"
    if math.isfinite(value):
        if letter in "aA":
            prefix, digits = "0x", _hexadecimal_digits(abs(value), precision, "#" in flags)
        else:
            alternate = "#" if "#" in flags else ""
            shown = "" if precision is None else f".{precision or 0}"
            digits = f"%{alternate}{shown}{letter}" % abs(value)
    if letter.isupper():
        prefix, digits = prefix.upper(), digits.upper()
    return "-" if is_negative else "", prefix, digits


def _hexadecimal_digits(value: float, precision: str | None, keeps_point: bool) -> str:
    """``1.8p+3``: the digits of a finite float without a sign; all that are not 0 unless ``precision`` says how many."""
    lead, _, rest = value.hex().removeprefix("0x").partition(".")
    digits, _, exponent = rest.partition("p")
    if precision is None:
        digits = digits.rstrip("0")
    else:
        count = int(precision or 0)
        number = int(lead + digits.ljust(_MANTISSA_DIGITS, "0"), 16)
        dropped = 4 * max(_MANTISSA_DIGITS - count, 0)
        kept, rest_bits = number >> dropped, number & ((1 << dropped) - 1)
        half = 1 << dropped >> 1
        kept += dropped > 0 and (rest_bits > half or (rest_bits == half and kept & 1))
        shown = f"{kept:x}".rjust(min(count, _MANTISSA_DIGITS) + 1, "0")
        lead, digits = shown[0], shown[1:].ljust(count, "0")
    point = "." if digits or keeps_point else ""
    return f"{lead}{point}{digits}p{exponent}"


def parse_format(text: str) -> list[str | Conversion]:
    """Literal pieces and conversions, in order, as C's ``printf`` has them. Length modifiers are dropped: elements
    have types.
    """
    pieces: list[str | Conversion] = []
    at = 0
    for found in _EXPRESSION.finditer(text):
        pieces.append(text[at : found.start()])
        at = found.end()
        if found[0] == "%%":
            pieces.append("%")
            continue
        flags = _FLAGS.match(found[1])
        assert flags is not None
        pieces.append(Conversion(flags[0], found[2]))
    pieces.append(text[at:])
    return [piece for piece in pieces if piece != ""]
