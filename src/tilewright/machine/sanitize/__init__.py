"""The sanitizer: the reference machine with every check on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.lazy import lazy_names

if TYPE_CHECKING:
    from tilewright.machine.sanitize.html import render_html
    from tilewright.machine.sanitize.json_report import to_json
    from tilewright.machine.sanitize.reporting import Access, SanitizerDiagnostic
    from tilewright.machine.sanitize.sanitizer import Launch, SanitizeReport, sanitize


__all__ = [
    "Access",
    "Launch",
    "SanitizeReport",
    "SanitizerDiagnostic",
    "render_html",
    "sanitize",
    "to_json",
]

__getattr__, __dir__ = lazy_names(
    globals(),
    {
        "reporting": "Access SanitizerDiagnostic",
        "html": "render_html",
        "json_report": "to_json",
        "sanitizer": "Launch SanitizeReport sanitize",
    },
)
