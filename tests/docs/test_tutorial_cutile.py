"""The Python of docs/tutorial_cutile.md runs as one program and prints what stands below each block."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "tutorial_cutile.md"
_FENCE = re.compile(r"^```(python|console|)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = "-- end of block --"


def _blocks(text: str) -> list[tuple[str, str]]:
    return [found.group(1, 2) for found in _FENCE.finditer(text)]


def _printed(sources: list[str], directory: Path) -> list[str]:
    """What each of the blocks prints, run as one program."""
    program = directory / "tutorial.py"
    # The mark is printed in the last line of each block, so that lines count as a reader counts.
    marked = [f"{source.rstrip()}; print({_MARK!r})\n" for source in sources]
    program.write_text("\n\n".join(marked), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, check=False, cwd=directory
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    *outputs, rest = done.stdout.replace(f"{directory}/", "").split(f"{_MARK}\n")
    assert rest == ""
    return [re.sub(r"[ \t]+$", "", output, flags=re.MULTILINE).strip("\n") for output in outputs]


def test_the_tutorial(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")
    text = DOCUMENT.read_text(encoding="utf-8")
    blocks = [block for block in _blocks(text) if block[0] != "console"]
    assert [language for language, _ in blocks] == ["python", ""] * (len(blocks) // 2)
    printed = _printed([source for language, source in blocks if language], tmp_path)
    if request.config.getoption("--bless"):
        outputs = iter(printed)
        text = re.sub(
            r"^```\n(.*?)^```$|^```(?:python|console)\n.*?^```$",
            lambda m: m[0] if m[1] is None else f"```\n{next(outputs)}\n```",
            text,
            flags=re.MULTILINE | re.DOTALL,
        )
        DOCUMENT.write_text(text, encoding="utf-8")
    assert [shown.strip("\n") for language, shown in _blocks(text) if not language] == printed


def test_the_tutorial_finds_its_race_and_then_nothing() -> None:
    shown = [content for language, content in _blocks(DOCUMENT.read_text("utf-8")) if not language]
    found = [set(re.findall(r"^error\[([a-z-]+)\]", content, re.MULTILINE)) for content in shown]
    assert [codes for codes in found if codes] == [
        {"assertion-failed"},
        {"outside-index-space"},
        {"race"},
    ]
    assert found[-1] == found[-2] == set()
