"""What docs/cutile.md shows works."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "cutile.md"


def test_the_python_of_the_document_runs(tmp_path: Path) -> None:
    pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")
    (source,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    path = tmp_path / "shown.py"
    path.write_text(source)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_option_is_told_and_no_other() -> None:
    import argparse

    from tilewright.cli.run_script import _parser
    from tilewright.pytest import pytest_addoption

    text = DOCUMENT.read_text(encoding="utf-8")
    parsers = [_parser("run"), _parser("sanitize")]
    known = {word for p in parsers for action in p._actions for word in action.option_strings}

    class Group:
        def getgroup(self, *_: str) -> Group:
            return self

        def addoption(self, name: str, **_: object) -> None:
            known.add(name)

    pytest_addoption(Group())  # pyright: ignore[reportArgumentType]
    told = set(re.findall(r"`(--[a-z-]+)", text))
    assert told <= known
    assert {name for name in known if name.startswith("--tilewright")} <= told
    assert argparse.SUPPRESS not in known
    for name in ("--machine", "--sanitize", "--seeds", "--seed", "--trace", "--no-torch-cuda"):
        assert name in told


def test_the_modules_are_those_of_the_package() -> None:
    import tilewright.cutile

    assert tilewright.cutile.__file__ is not None
    files = Path(tilewright.cutile.__file__).parent.iterdir()
    there = {path.stem for path in files if not path.name.startswith("__")}
    text = DOCUMENT.read_text(encoding="utf-8").partition("## How it is built")[2]
    assert there == set(re.findall(r"`([a-z_]+)`", text)) - {"launch"}
