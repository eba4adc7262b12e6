"""The sanitizer: the reference machine with every check on."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.machine.sanitize.findings import Access, Finding
    from tilewright.machine.sanitize.html import render_html
    from tilewright.machine.sanitize.json_report import to_json
    from tilewright.machine.sanitize.sanitizer import Launch, SanitizeReport, sanitize

_HOMES = {
    "Access": "findings",
    "Finding": "findings",
    "Launch": "sanitizer",
    "SanitizeReport": "sanitizer",
    "render_html": "html",
    "sanitize": "sanitizer",
    "to_json": "json_report",
}

__all__ = [
    "Access",
    "Finding",
    "Launch",
    "SanitizeReport",
    "render_html",
    "sanitize",
    "to_json",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
