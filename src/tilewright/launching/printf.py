"""Formatting of C's `printf`, for kernels of ``nvgpu``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tilewright.dialects.print_formats import Conversion, number_letter

_DIRECTIVE = re.compile(r"%([-+ #0]*\d*(?:\.\d*)?)(?:hh|h|ll|l|z)?([diuoxXcfFeEgGaAsp%])")
_FLOAT, _UNSIGNED = frozenset("fFeEgGaA"), frozenset("uoxXp")


def formatted(text: str, values: Sequence[Any], widths: Sequence[int]) -> str:
    """Format values, whose integers have ``widths`` bits; directives without a value are left as they are.

    ``text`` has the directives of C's ``printf``; of integers those without sign print them modulo 2**width.
    """
    rest = list(zip(values, widths, strict=True))

    def one(match: re.Match[str]) -> str:
        if match[2] == "%":
            return "%"
        if not rest:
            return match[0]
        value, width = rest.pop(0)
        letter = number_letter(match[2], is_float=isinstance(value, float))
        if letter in _FLOAT:
            value = float(value)
        else:
            value = int(value) & ((1 << width) - 1) if letter in _UNSIGNED else int(value)
        return Conversion(match[1], letter)(value)

    return _DIRECTIVE.sub(one, text)
