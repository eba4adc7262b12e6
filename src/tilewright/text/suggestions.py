"""Proposals for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str], sign: str = "") -> str:
    """A question that names the known name most alike, or an empty text."""
    found = get_close_matches(name[:64], list(known), n=1, cutoff=0.6)
    return f"did you mean '{sign}{found[0]}'?" if found else ""
