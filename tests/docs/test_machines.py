"""docs/machines.md: its tables are those of the data, and its Python blocks print what stands below them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tilewright.launching.tables import machines_table, options_table

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "machines.md"
TABLES = {"machines": machines_table, "options": options_table}


def _with_tables(text: str) -> str:
    for name, table in TABLES.items():
        begin, end = f"<!-- {name} -->\n", "<!-- end -->"
        before, found, rest = text.partition(begin)
        assert found, f"the document has no place for the table of {name}"
        text = before + begin + table() + end + rest.partition(end)[2]
    return text


def test_tables_are_those_of_the_data(request: pytest.FixtureRequest) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    expected = _with_tables(text)
    if request.config.getoption("--bless"):
        DOCUMENT.write_text(expected, encoding="utf-8")
    else:
        assert text == expected, "pytest --bless writes the tables anew"


def test_blocks_run_and_print_what_is_shown(
    monkeypatch: pytest.MonkeyPatch, run_blocks: Callable[[Path], int]
) -> None:
    pytest.importorskip("llvmlite", reason="the CPU machine needs llvmlite")
    monkeypatch.chdir(ROOT)
    assert run_blocks(DOCUMENT) == 3
