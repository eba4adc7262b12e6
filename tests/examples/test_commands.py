"""Each example names the command that runs it in its second line, and that command works."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.cli.conftest import Command
from tests.cli.conftest import command as in_process

__all__ = ["in_process"]

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(
    path
    for pattern in ("*.py", "*.tileir", "*.mlir")
    for path in (ROOT / "examples").rglob(pattern)
)
_COMMAND = re.compile(r"(?://|#) \$ ((?:tilewright|python) .*)")
_OTHERS = [path for path in EXAMPLES if path.parent.name != "cutile"]
#: Those that run as processes: programs, and one file of each kind; in a process of their own the others do no more.
_ALONE = ("softmax.tileir", "vector_add.mlir")


def command(path: Path) -> list[str]:
    """The words of the command in the second line of an example; a comment in it is left out."""
    line = path.read_text(encoding="utf-8").splitlines()[1]
    match = _COMMAND.fullmatch(line)
    assert match, f"{path}: {line}"
    return shlex.split(match[1], comments=True)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 32


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_second_line_is_the_command(path: Path) -> None:
    name = path.relative_to(ROOT).as_posix()
    assert name in command(path)


@pytest.mark.usefixtures("lean_processes")
@pytest.mark.parametrize("path", _OTHERS, ids=lambda path: path.name)
def test_the_command_works(
    path: Path, tmp_path: Path, in_process: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of ``examples/cutile`` have tests of their own."""
    if path.suffix == ".py" and find_spec("cuda") is None:
        pytest.skip("cuTile is not installed (pip install cuda-tile)")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    program, *arguments = command(path)
    if program == "tilewright" and path.name not in _ALONE:
        monkeypatch.chdir(tmp_path)
        ran = in_process(*arguments)
        assert ran.status == 0, ran.err
        assert ran.out
        assert ran.err == ""
        return
    before = ["-m", "tilewright"] if program == "tilewright" else []
    done = subprocess.run(
        [sys.executable, *before, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert done.stderr == ""
