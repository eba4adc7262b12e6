"""Kernels and what they become, as text: ``pytest --bless`` writes it behind ``// ----- lowered``."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.lowering.support import lower

from tilewright.text import print_text

CASES = sorted((Path(__file__).parent / "cases").glob("*.tileir"))
SEPARATOR = "// ----- lowered\n"


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_lowered_text(path: Path, pytestconfig: pytest.Config) -> None:
    source, _, expected = path.read_text(encoding="utf-8").partition(SEPARATOR)
    found = print_text(lower(source).module)
    if pytestconfig.getoption("--bless"):
        path.write_text(f"{source.rstrip()}\n\n{SEPARATOR}{found}", encoding="utf-8")
    else:
        assert found == expected
