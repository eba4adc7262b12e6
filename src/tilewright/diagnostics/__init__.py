"""Spans, diagnostics, codes and their renderers. Imports nothing else of Tilewright.

The renderers and the expectation checker are loaded when first used, so that importing this
package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from tilewright.diagnostics.codes import Code, all_codes, define_code, find_code
from tilewright.diagnostics.diagnostic import (
    Collector,
    Diagnostic,
    Note,
    Severity,
    TileIRError,
)
from tilewright.diagnostics.source import ByteSpan, NamedPlace, Place, SourceFile, Span

if TYPE_CHECKING:
    from tilewright.diagnostics.expectations import check_expectations, split_input
    from tilewright.diagnostics.render_json import from_json, to_json
    from tilewright.diagnostics.render_sarif import to_sarif
    from tilewright.diagnostics.render_text import render

_LAZY = {
    "check_expectations": "tilewright.diagnostics.expectations",
    "from_json": "tilewright.diagnostics.render_json",
    "render": "tilewright.diagnostics.render_text",
    "split_input": "tilewright.diagnostics.expectations",
    "to_json": "tilewright.diagnostics.render_json",
    "to_sarif": "tilewright.diagnostics.render_sarif",
}

__all__ = [
    "ByteSpan",
    "Code",
    "Collector",
    "Diagnostic",
    "NamedPlace",
    "Note",
    "Place",
    "Severity",
    "SourceFile",
    "Span",
    "TileIRError",
    "all_codes",
    "check_expectations",
    "define_code",
    "find_code",
    "from_json",
    "render",
    "split_input",
    "to_json",
    "to_sarif",
]


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
