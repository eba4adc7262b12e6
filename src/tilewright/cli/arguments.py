"""Types of arguments that several commands take."""

from __future__ import annotations

from argparse import ArgumentTypeError


def positive(text: str) -> int:
    """A number of at least 1; argparse shows the message of the ``ArgumentTypeError`` for another text."""
    if not text.isdecimal() or int(text) == 0:
        raise ArgumentTypeError(f"expected a number of at least 1, found '{text}'")
    return int(text)
