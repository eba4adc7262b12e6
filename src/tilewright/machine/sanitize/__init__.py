"""The sanitizer: the reference machine with every check on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.lazy import lazy_names

if TYPE_CHECKING:
    from tilewright.machine.sanitize.findings import Access, Finding
    from tilewright.machine.sanitize.html import render_html
    from tilewright.machine.sanitize.json_report import to_json
    from tilewright.machine.sanitize.sanitizer import Launch, SanitizeReport, sanitize


__all__ = [
    "Access",
    "Finding",
    "Launch",
    "SanitizeReport",
    "render_html",
    "sanitize",
    "to_json",
]

__getattr__, __dir__ = lazy_names(
    globals(),
    {
        "findings": "Access Finding",
        "html": "render_html",
        "json_report": "to_json",
        "sanitizer": "Launch SanitizeReport sanitize",
    },
)
