"""The Python blocks of docs/builder.md run, in order, and print what stands below them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "builder.md"
_BLOCK = re.compile(r"^```(python)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_blocks_run_and_print_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    namespace: dict[str, object] = {}
    printed, shown = "", 0
    for language, content in _BLOCK.findall(DOCUMENT.read_text(encoding="utf-8")):
        if language:
            assert printed == "", "what a block prints must stand below it"
            exec(compile(content, str(DOCUMENT), "exec"), namespace)
            printed = capsys.readouterr().out
        else:
            assert content == printed
            printed, shown = "", shown + 1
    assert shown == 5 and printed == ""
