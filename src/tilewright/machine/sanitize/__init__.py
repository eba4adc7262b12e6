"""The sanitizer: the reference machine with every check on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.machine.sanitize.sanitizer import SanitizeReport, sanitize

__all__ = ["SanitizeReport", "sanitize"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from tilewright.machine.sanitize import sanitizer

        return getattr(sanitizer, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
