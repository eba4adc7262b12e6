"""What the pages' programs run with."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

_BLOCK = re.compile(r"^```(python)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def processes_are_lean(lean_processes: None) -> None:
    """No page's program that a test starts needs torch."""


@pytest.fixture
def run_blocks(capsys: pytest.CaptureFixture[str]) -> Callable[[Path], int]:
    """Runs the Python blocks of a page, in order, each of which prints what stands in the block below it; how many
    do so."""

    def run(document: Path) -> int:
        namespace: dict[str, object] = {}
        printed, shown = "", 0
        for language, content in _BLOCK.findall(document.read_text(encoding="utf-8")):
            if language:
                assert printed == "", "what a block prints must stand below it"
                exec(compile(content, str(document), "exec"), namespace)
                printed = capsys.readouterr().out
            else:
                assert content == printed
                printed, shown = "", shown + 1
        assert printed == ""
        return shown

    return run
