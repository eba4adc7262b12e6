"""Launch options shared by several commands."""

from __future__ import annotations

import argparse
from math import inf


def add_time_limit(parser: argparse._ActionsContainer) -> None:
    """Add ``--time-limit``, for machines whose launches can be stopped."""
    parser.add_argument(
        "--time-limit",
        type=_seconds,
        metavar="S",
        help="time limit of a launch in seconds, not counting compilation; the error names the "
        "loop",
    )


def add_find_nan(parser: argparse._ActionsContainer) -> None:
    """Add ``--find-nan``, for the reference machine."""
    parser.add_argument(
        "--find-nan",
        action="store_true",
        help="report the operations that produce NaN or infinities or overflow in conversions, with their operands",
    )


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < inf:
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, found '{text}'")
    return value
