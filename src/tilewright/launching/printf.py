"""Texts of C's `printf`, which kernels of ``nvgpu`` print by."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_DIRECTIVE = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?(?:hh|h|ll|l|z)?([diuoxXcfFeEgGs%])")


def formatted(text: str, values: Sequence[Any], widths: Sequence[int]) -> str:
    """What a format says of numbers, of so many bits each; what has no number stays as it is."""
    rest = list(zip(values, widths, strict=True))

    def one(match: re.Match[str]) -> str:
        if match[1] == "%":
            return "%"
        if not rest:
            return match[0]
        value, width = rest.pop(0)
        form = re.sub(r"hh|ll|[hlz]", "", match[0])
        if match[1] in "fFeEgG":
            return form % float(value)
        unsigned = match[1] in "uoxX"
        return form % (int(value) & ((1 << width) - 1) if unsigned else int(value))

    return _DIRECTIVE.sub(one, text)
