"""Formatting of C's `printf`, for kernels of ``nvgpu``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_DIRECTIVE = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?(?:hh|h|ll|l|z)?([diuoxXcfFeEgGs%])")


def formatted(text: str, values: Sequence[Any], widths: Sequence[int]) -> str:
    """Format values, whose integers have ``widths`` bits; directives without a value are left as they are."""
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
