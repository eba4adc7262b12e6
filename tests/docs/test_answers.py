"""The pages that answer a question: their programs run, and print what is shown."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("find-the-nan.md", "test-on-all-machines.md", "notebooks.md")
_BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_programs_print_what_is_shown(page: str, tmp_path: Path) -> None:
    pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if "PYTEST" not in key}
    ran = 0
    for language, content in _BLOCK.findall(text):
        if language == "python":
            first = content.partition("\n")[0]
            (tmp_path / first.removeprefix("# ")).write_text(content)
            continue
        command, _, shown = content.partition("\n")
        words = command.removeprefix("$ ").split()
        module = ["-m", "tilewright"] if words[0] == "tilewright" else []
        done = subprocess.run(
            [sys.executable, *module, *words[1:]],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=environment,
            timeout=300,
        )
        printed = done.stdout + done.stderr
        assert shown.strip() in printed, printed
        ran += 1
    assert ran


def test_no_page_is_forgotten() -> None:
    questions = [
        path.name
        for path in (ROOT / "docs").glob("*.md")
        if path.read_text(encoding="utf-8").startswith("# How do I") and path.name in PAGES
    ]
    assert sorted(questions) == sorted(PAGES)
