"""Format strings of prints: pieces of text, and conversions of values."""

from __future__ import annotations

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
        if self.letter in "aA":
            text = float(value).hex()
            return text.upper() if self.letter == "A" else text
        if self.letter == "p":
            return f"{int(value):#x}"
        if self.letter in "n%":
            return ""
        if self.letter == "c":
            return ("%" + self.options + "s") % chr(int(value) & 0xFF)
        letter = {"i": "d", "u": "d", "S": "s"}.get(self.letter, self.letter)
        return ("%" + self.options + letter) % value


def parse_format(text: str) -> list[str | Conversion]:
    """Literal pieces and conversions, in order. Length modifiers are dropped: elements have types."""
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
