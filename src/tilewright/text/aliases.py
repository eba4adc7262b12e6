"""Attribute and type aliases, wherever they stand in the file.

``#name = attribute`` and ``!name = type`` may follow their uses, as MLIR's printers put locations
at the end. Definitions are found by a scan of line starts and parsed when first needed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from xdsl.ir import Attribute
from xdsl.utils.exceptions import ParseError

from tilewright.diagnostics import define_code

UNDEFINED_ALIAS = define_code(
    "undefined-alias", "An alias of an attribute or type is used that the file does not define."
)
BAD_ALIAS = define_code(
    "bad-alias", "An alias is defined twice, in terms of itself, or expands to too much."
)

#: Parts that an alias may have once all aliases in it are expanded. Sharing makes a few lines
#: stand for a tree of any size, which every later walk would pay for.
MAX_EXPANSION = 1_000_000

_DEFINITION = re.compile(
    r"^[ \t]*+([#!](?:[0-9]+|[A-Za-z$_-][\w$-]*+))[ \t]*+=(?!=)", re.MULTILINE | re.ASCII
)


@dataclass(slots=True)
class Alias:
    """A definition: ``start`` of the name, ``body`` of what it stands for."""

    name: str
    start: int
    body: int
    value: Attribute | None = None
    error: ParseError | None = None
    body_end: int = 0
    size: int = 0
    busy: bool = False


def find_aliases(text: str) -> dict[int, Alias]:
    """Every definition of a text, by the offset of its name."""
    if "#" not in text and "!" not in text:
        return {}
    found = _DEFINITION.finditer(text)
    return {m.start(1): Alias(m[1], m.start(1), m.end()) for m in found}
