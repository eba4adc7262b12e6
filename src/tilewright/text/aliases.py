"""Attribute and type aliases, which may be defined anywhere in the file.

``#name = attribute`` and ``!name = type`` may follow their uses, since MLIR's printers put locations
at the end. Definitions are found by scanning line starts and parsed on first use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xdsl.ir import Attribute
from xdsl.utils.exceptions import ParseError

from tilewright.diagnostics import define_code

UNDEFINED_ALIAS = define_code(
    "undefined-alias", "An alias of an attribute or type is not defined in the file."
)
BAD_ALIAS = define_code(
    "bad-alias", "An alias is defined twice, is recursive, or expands to too much."
)

#: The maximum number of parts of an alias with all aliases in it expanded. Through sharing, a few
#: lines can denote a tree of any size, for which every later walk would pay.
MAX_EXPANSION = 1_000_000

#: The maximum depth of aliases that refer to each other; their attributes can still be printed in full.
MAX_ALIAS_LEVELS = 1_500

_DEFINITION = re.compile(
    r"^[ \t]*+([#!](?:[0-9]+|[A-Za-z$_-][\w$-]*+))[ \t]*+=(?!=)", re.MULTILINE | re.ASCII
)
#: A name, or what may contain one: a string or a comment.
_REFERENCE = re.compile(r'"(?:[^"\\\n]|\\.)*+"|//.*|([#!](?:[0-9]+|[A-Za-z$_-][\w$-]*+))', re.ASCII)


@dataclass(slots=True)
class Alias:
    """An alias definition: offsets of its name (``start``) and of the aliased text (``body``)."""

    name: str
    start: int
    body: int
    value: Attribute | None = None
    error: ParseError | None = None
    body_end: int = 0
    size: int = 0
    busy: bool = False


def find_aliases(text: str) -> dict[int, Alias]:
    """Return every alias definition of a text, by the offset of its name."""
    if "#" not in text and "!" not in text:
        return {}
    found = _DEFINITION.finditer(text)
    return {m.start(1): Alias(m[1], m.start(1), m.end()) for m in found}


def aliases_below(alias: Alias, aliases: Mapping[str, Alias], text: str) -> list[tuple[Alias, int]]:
    """Return the unresolved aliases on a definition's line, on theirs, and so on, parts first.

    Each comes with its depth. A cycle is cut; parsing reports it.
    """
    order: list[tuple[Alias, int]] = []
    levels: dict[str, int] = {}
    stack: list[tuple[Alias, Iterator[Alias]]] = []

    def enter(entered: Alias) -> None:
        levels[entered.name] = 1
        end = text.find("\n", entered.body)
        names = _REFERENCE.findall(text, entered.body, len(text) if end < 0 else end)
        parts = (aliases[name] for name in names if name in aliases)
        stack.append((entered, (p for p in parts if p.value is None and p.error is None)))

    enter(alias)
    while stack:
        opened, parts = stack[-1]
        part = next(parts, None)
        if part is None:
            stack.pop()
            if stack:
                order.append((opened, levels[opened.name]))
                above = stack[-1][0].name
                levels[above] = max(levels[above], levels[opened.name] + 1)
        elif part.name not in levels:
            enter(part)
        else:
            levels[opened.name] = max(levels[opened.name], levels[part.name] + 1)
    return order
