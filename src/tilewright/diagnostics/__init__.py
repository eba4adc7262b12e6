"""Spans, diagnostics, codes and their renderers: the lowest layer of the package.

Renderers and the expectation checker are loaded on first use, so importing this package is nearly
free.
"""

from typing import TYPE_CHECKING

from tilewright.diagnostics.codes import Code, all_codes, define_code, find_code
from tilewright.diagnostics.diagnostic import (
    Collector,
    Diagnostic,
    Note,
    Severity,
    TileIRError,
)
from tilewright.diagnostics.source import ByteSpan, NamedLocation, SourceFile, SourceLocation, Span
from tilewright.lazy import lazy_names

if TYPE_CHECKING:
    from tilewright.diagnostics.expectations import check_expectations, split_input
    from tilewright.diagnostics.render_json import from_json, to_json
    from tilewright.diagnostics.render_sarif import to_sarif
    from tilewright.diagnostics.render_text import render


__all__ = [
    "ByteSpan",
    "Code",
    "Collector",
    "Diagnostic",
    "NamedLocation",
    "Note",
    "Severity",
    "SourceFile",
    "SourceLocation",
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

__getattr__, __dir__ = lazy_names(
    globals(),
    {
        "expectations": "check_expectations split_input",
        "render_json": "from_json to_json",
        "render_sarif": "to_sarif",
        "render_text": "render",
    },
)
