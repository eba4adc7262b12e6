"""docs/kernel_ir.md: its program is written to a file, its commands succeed, its Python runs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.cli.main import main

pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "kernel_ir.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")
PROGRAM, *SNIPPETS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^\$ (tilewright .*)$", TEXT, re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "softmax.py").write_text(PROGRAM, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_succeed(
    command: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    words = shlex.split(command)
    monkeypatch.chdir(folder)
    status = main(words[1:])
    printed = capfd.readouterr()
    assert status == 0, printed.err
    if "--break" in words:
        assert printed.out.count("at ") == 4 and "powers: 1x128xf32" in printed.out
    if "--save-ir" in words:
        names = {path.name for path in (folder / "ir").iterdir()}
        assert {"softmax.tileirbc", "softmax.tileir", "softmax.nvgpu.mlir"} <= names


def test_python_runs(folder: Path) -> None:
    (folder / "snippets.py").write_text("\n".join(SNIPPETS), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "snippets.py"], capture_output=True, text=True, check=False, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    assert "entry @softmax(%x: tile<ptr<f32>>, %x.shape.0: tile<i32>" in done.stdout
    page = (folder / "softmax.html").read_text(encoding="utf-8")
    assert "<h1>Kernel softmax</h1>" in page
    assert os.path.getsize(folder / "softmax.html") < 3_000_000
