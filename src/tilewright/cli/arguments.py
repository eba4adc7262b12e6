"""Argument types shared by several commands."""

from __future__ import annotations

from argparse import ArgumentTypeError


def positive(text: str) -> int:
    """Parse a number of at least 1. Raises ArgumentTypeError, whose message argparse shows, for anything else."""
    if not text.isdecimal() or int(text) == 0:
        raise ArgumentTypeError(f"expected a number of at least 1, found '{text}'")
    return int(text)
