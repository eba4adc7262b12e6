"""Suggestions for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from itertools import islice

#: The maximum number of names compared: each takes microseconds, and a file may define very many.
_MAX_KNOWN = 500


def did_you_mean(name: str, known: Iterable[str], sign: str = "") -> str:
    """Return a question with the most similar known name, or an empty text."""
    name = name[:64]
    found = get_close_matches(name, islice(known, _MAX_KNOWN), n=3, cutoff=0.6)
    if not found:
        return ""
    # Among equally close names prefer a common prefix, since people rarely misspell the beginning.
    best = max(
        found, key=lambda k: (SequenceMatcher(None, k, name).ratio(), _common_start(k, name))
    )
    return f"did you mean '{sign}{best}'?"


def _common_start(a: str, b: str) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), len(a))
