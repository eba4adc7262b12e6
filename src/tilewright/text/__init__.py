"""Tile IR text: ``parse`` reads it, ``print_text`` writes it.

Both load xDSL when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.text.equivalence import same_module
    from tilewright.text.printer import Listing, list_text, print_text
    from tilewright.text.reading import parse

_LAZY = {
    "Listing": "tilewright.text.printer",
    "list_text": "tilewright.text.printer",
    "parse": "tilewright.text.reading",
    "print_text": "tilewright.text.printer",
    "same_module": "tilewright.text.equivalence",
}

__all__ = ["Listing", "list_text", "parse", "print_text", "same_module"]


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
