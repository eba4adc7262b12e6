"""The Python blocks of docs/builder.md run, in order, and print what stands below them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "builder.md"


def test_blocks_run_and_print_what_is_shown(run_blocks: Callable[[Path], int]) -> None:
    assert run_blocks(DOCUMENT) == 5
