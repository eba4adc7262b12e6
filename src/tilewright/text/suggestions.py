"""Proposals for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from itertools import islice

#: Names looked at: comparing one takes microseconds, and a file may define very many.
_MAX_KNOWN = 500


def did_you_mean(name: str, known: Iterable[str], sign: str = "") -> str:
    """A question that names the known name most alike, or an empty text."""
    name = name[:64]
    found = get_close_matches(name, islice(known, _MAX_KNOWN), n=3, cutoff=0.6)
    if not found:
        return ""
    # Among equally close ones, people mostly get the beginning right.
    best = max(
        found, key=lambda k: (SequenceMatcher(None, k, name).ratio(), _common_start(k, name))
    )
    return f"did you mean '{sign}{best}'?"


def _common_start(a: str, b: str) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), len(a))
