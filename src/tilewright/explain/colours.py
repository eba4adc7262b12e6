"""Renders lines of IR, assembly and Python as HTML with syntax highlighting."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from html import escape
from types import MappingProxyType

from tilewright.diagnostics.display import printable

_STRING = r"(?P<string>\"(?:[^\"\\]|\\.)*\")"
_PYTHON_WORDS = "|".join(keyword.kwlist)
#: The tokens highlighted in each language; groups are named as in `_CLASSES`.
_TOKENS: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "mlir": re.compile(
            rf"(?P<comment>//.*)|{_STRING}|(?P<value>%[\w$.#\-\[\]]*[\w$#\-\]])|(?P<symbol>@[\w$.\-]+)"
            r"|(?P<type>![\w.]+)"
        ),
        "llvm": re.compile(
            rf"(?P<comment>;.*)|{_STRING}|(?P<value>%[\w$.\-]+)|(?P<symbol>[@#!][\w$.\-]+)"
            r"|(?P<type>\b(?:i\d+|half|float|double|bfloat|ptr|void|label)\b)"
        ),
        "ptx": re.compile(
            rf"(?P<comment>//.*)|{_STRING}|(?P<value>%[\w.]+)|(?P<symbol>\$\w+)|(?P<type>(?<![\w%])\.\w+)"
        ),
        "sass": re.compile(
            r"(?P<comment>//.*|/\*.*?\*/)|(?P<value>\bU?[RP](?:\d+|Z|T)\b)|(?P<symbol>`\([^)]*\)|\.L_\w+)"
        ),
        "asm": re.compile(r"(?P<comment>#.*)|(?P<value>%\w+)|(?P<symbol>\.L\w+)|(?P<type>\$-?\w+)"),
        "python": re.compile(
            r"(?P<comment>#.*)|(?P<string>\"\"\".*?(?:\"\"\"|$)|[rbfu]{0,2}\"(?:[^\"\\]|\\.)*\"|[rbfu]{0,2}'(?:[^'\\]|\\.)*')"
            rf"|(?P<keyword>\b(?:{_PYTHON_WORDS})\b)"
        ),
    }
)
#: The position of an operation's name.
_OPERATION: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "mlir": re.compile(r"\s*(?:%[^=]*= )?(?P<name>[A-Za-z_][\w$.]*)"),
        "llvm": re.compile(r"\s+(?:%\S+ = )?(?:tail )?(?P<name>[a-z]\w*)"),
        "ptx": re.compile(r"\s+(?:@!?%\w+\s+)?(?P<name>[a-z][\w.:]*)"),
        "sass": re.compile(r"\s*(?:/\*\w+\*/\s+)?(?:@!?U?P\w+\s+)?(?P<name>[A-Z][A-Z0-9._]+)"),
        "asm": re.compile(r"\s+(?P<name>[a-z]\w*)"),
    }
)
_CLASSES = {"comment": "c", "string": "s", "value": "v", "symbol": "s", "type": "t", "keyword": "k"}


def html_text(text: str) -> str:
    """Escape text as HTML; characters that could hide or reorder others are made visible."""
    return escape(printable(text))


def coloured(text: str, language: str) -> str:
    """Return a line of a language as HTML, with the name of the operation emphasised."""
    parts: list[str] = []
    operation = _OPERATION.get(language)
    named = operation.match(text) if operation is not None else None
    at, name = 0, named.span("name") if named else (0, 0)
    for token in _TOKENS[language].finditer(text):
        parts += [_with_name(text, at, token.start(), name)]
        kind = token.lastgroup
        assert kind is not None
        parts.append(f'<span class="{_CLASSES[kind]}">{html_text(token[0])}</span>')
        at = token.end()
    parts.append(_with_name(text, at, len(text), name))
    return "".join(parts)


def _with_name(text: str, start: int, end: int, name: tuple[int, int]) -> str:
    """Return a part of a line; the name of the operation is emphasised if it is in the part."""
    first, last = name
    if not (start <= first < last <= end):
        return html_text(text[start:end])
    before, middle, after = text[start:first], text[first:last], text[last:end]
    return f'{html_text(before)}<span class="o">{html_text(middle)}</span>{html_text(after)}'
