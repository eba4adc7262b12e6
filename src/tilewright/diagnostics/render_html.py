"""Renders diagnostics and other texts as HTML fragments, for notebooks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

from tilewright.diagnostics.diagnostic import Diagnostic
from tilewright.diagnostics.render_text import render

_SEQUENCE = re.compile(r"\x1b\[([\d;]*)m")
#: CSS for the ANSI sequences of ``render``. The colours are readable on white and on black.
_STYLES = {
    "1": "font-weight:bold",
    "1;31": "font-weight:bold;color:#d1242f",
    "1;32": "font-weight:bold;color:#1a7f37",
    "1;33": "font-weight:bold;color:#9a6700",
    "1;34": "color:#218bff",
    "1;36": "font-weight:bold;color:#1b7c83",
}
_BLOCK = (
    "margin:0;padding:0;line-height:1.3;max-height:48em;overflow:auto;white-space:pre;"
    "text-align:left"
)
_MAX_LINES = 2000


def render_html(diagnostics: Iterable[Diagnostic]) -> str:
    """Like ``render`` with colours, as one ``<pre>`` element; "" if there are no diagnostics."""
    text = render(diagnostics, color=True)
    return preformatted(text) if text else ""


def preformatted(text: str) -> str:
    """Return a text as one ``<pre>`` element, with the colour sequences of ``render`` as styles.

    Only the first lines of a long text are kept, since notebooks store what they have shown.
    """
    lines = text.split("\n", _MAX_LINES)
    if len(lines) > _MAX_LINES:
        more = lines.pop().count("\n") + 1
        text = "\n".join([*lines, f"... and {more} more lines"])
    parts: list[str] = []
    is_open = False
    for number, part in enumerate(_SEQUENCE.split(text)):
        if number % 2 == 0:
            parts.append(escape(part))
            continue
        parts.append("</span>" * is_open)
        style = _STYLES.get(part)
        is_open = style is not None
        parts.append(f'<span style="{style}">' if is_open else "")
    return f'<pre style="{_BLOCK}">{"".join(parts)}{"</span>" * is_open}</pre>'
