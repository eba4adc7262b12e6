"""Short names for layouts, which would otherwise make lines of ``nv_tileas`` unreadable."""

from __future__ import annotations

import re

#: A layout, or a string, which is left alone.
_LAYOUT = re.compile(r'"(?:[^"\\]|\\.)*"|#nv_tileas\.(layout|shared)<[^<>]*>')


def with_layout_aliases(text: str) -> str:
    """Replace layouts by aliases ``#layout``, ``#layout1``, ..., defined at the start of the text."""
    if "#nv_tileas." not in text:
        return text
    names: dict[str, str] = {}
    counts = {"layout": 0, "shared": 0}

    def name(found: re.Match[str]) -> str:
        written, kind = found[0], found[1]
        if kind is None:
            return written
        if written not in names:
            number = counts[kind]
            counts[kind] += 1
            names[written] = f"#{kind}{number or ''}"
        return names[written]

    body = _LAYOUT.sub(name, text)
    definitions = "".join(f"{alias} = {written}\n" for written, alias in names.items())
    return definitions + body
