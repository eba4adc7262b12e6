"""What documents and examples say to type: found, complete, and marked where it needs more."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def _check_wheel() -> ModuleType:
    """The program that CI runs all of these commands with."""
    spec = importlib.util.spec_from_file_location("check_wheel", ROOT / "tools" / "check_wheel.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    importlib.import_module("sys").modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


TOOL = _check_wheel()


def test_commands_are_found() -> None:
    found = list(TOOL.commands())
    where = {command.where for command in found}
    assert len(found) > 90
    assert {"README.md", "cli.md", "cutile.md", "tutorial_cutile.md", "softmax.tileir"} <= where
    assert not any("..." in command.line for command in found)


def test_what_they_need_is_explained() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    used = {command.needs for command in TOOL.commands()} - {""}
    assert used == set(TOOL.NEEDS)
    assert all(f"`# needs {needs}`" in readme for needs in used)


def test_placeholders_are_no_commands() -> None:
    lines = ["tilewright check FILE...", "tilewright cache [clear] [--limit SIZE]", "pip install x"]
    assert [found for line in lines for found in TOOL._command("here", line)] == []
    (found,) = TOOL._command("here", "tilewright run k.tileir --arg ...  # needs a GPU")
    assert found.line.endswith("--arg n=1000")
    assert found.needs == "a GPU"
