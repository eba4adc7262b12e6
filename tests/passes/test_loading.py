"""Passes of others: the page that shows one, files, modules, entry points, and what goes wrong."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import tilewright
from tilewright.cli.main import main
from tilewright.diagnostics import NamedLocation
from tilewright.passes import PASSES, load_passes, loading, pipelines, run_pipeline

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "own_passes.md"
KERNEL = """entry @k(%n: tile<i32>) {
  %x = iota : tile<4xi32>
  %c = constant <i32: 8> : tile<4xi32>
  %p = muli %x, %c overflow<no_signed_wrap> : tile<4xi32>
  %d = constant <i32: 6> : tile<4xi32>
  %q = muli %p, %d : tile<4xi32>
  %t = print_tko "%d", %q : tile<4xi32> -> token
}
"""
HEAD = """from dataclasses import dataclass
from typing import ClassVar
from tilewright.passes import TilePass
"""


def blocks(language: str) -> list[str]:
    """The fenced blocks of the page in one language, "" for none."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", DOCUMENT.read_text(encoding="utf-8"), re.M | re.S)
    return [content for found, content in fenced if found == language]


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the pass of the page and a kernel; what is loaded is forgotten behind."""
    (tmp_path / "doubling.py").write_text(blocks("python")[0])
    (tmp_path / "kernel.tileir").write_text(KERNEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(PASSES, "_loaded", dict(PASSES._loaded))
    monkeypatch.setattr(PASSES, "_announced", None)
    modules = dict(sys.modules)
    yield tmp_path
    for name in sys.modules.keys() - modules.keys():
        if name.startswith("tilewright_passes_") or name == "doubling":
            del sys.modules[name]


def test_the_commands_of_the_page(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import shlex

    (shown,) = blocks("")
    for line in shown.splitlines():
        assert main(shlex.split(line)[1:]) == 0, line
    found = capsys.readouterr()
    assert "shli %x, %" in found.out and "products-as-shifts{largest=1073741824}" in found.out
    assert "// after products-as-shifts{largest=16}" in found.err


def test_the_python_of_the_page(workplace: Path) -> None:
    module = tilewright.parse(KERNEL)
    exec(compile(blocks("python")[1], str(DOCUMENT), "exec"), {"module": module})
    text = tilewright.print_text(module)
    assert "shli %x, " in text and "overflow<no_signed_wrap>" in text
    assert text.count("muli") == 1


def test_options_reach_the_pass(workplace: Path) -> None:
    (cls,) = load_passes("doubling.py")
    PASSES.add(cls)
    module = tilewright.parse(KERNEL)
    run_pipeline(module, "products-as-shifts{largest=4}", verify_each=True)
    assert "shli" not in tilewright.print_text(module)
    with pytest.raises(tilewright.TileIRError, match="has no option 'smallest'"):
        run_pipeline(module, "products-as-shifts{smallest=4}")


def test_a_module_that_python_can_import(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(workplace)
    assert [cls.name for cls in load_passes("doubling")] == ["products-as-shifts"]


def announce(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    point = EntryPoint(name, value, loading.ENTRY_POINTS)
    monkeypatch.setattr(pipelines, "announced_passes", lambda: {name: point})


def test_entry_points(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(workplace)
    announce(monkeypatch, "products-as-shifts", "doubling:ProductsAsShifts")
    assert "products-as-shifts" in PASSES and "products-as-shifts" in list(PASSES)
    assert "doubling" not in sys.modules, "a pass is loaded when it is asked for"
    module = tilewright.parse(KERNEL)
    run_pipeline(module, "products-as-shifts")
    assert "shli" in tilewright.print_text(module)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("other-name", "doubling:ProductsAsShifts", "is named 'products-as-shifts'"),
        ("x", "doubling:_Product", "not a subclass of tilewright.passes.TilePass"),
        ("x", "doubling:Nothing", "AttributeError"),
        ("x", "no_such_module_of_passes:X", "ModuleNotFoundError"),
    ],
)
def test_entry_points_that_give_no_pass(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    monkeypatch.syspath_prepend(workplace)
    announce(monkeypatch, name, value)
    with pytest.raises(tilewright.TileIRError, match=message) as caught:
        run_pipeline(tilewright.parse(KERNEL), name)
    assert caught.value.diagnostics[0].code == "passes-not-loaded"


def test_own_passes_are_not_replaced_by_entry_points(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    announce(monkeypatch, "cse", "doubling:ProductsAsShifts")
    assert PASSES["cse"].__module__ == "tilewright.passes.cse"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x = (", "SyntaxError"),
        ("raise RuntimeError('no')", "RuntimeError: no"),
        ("import sys; sys.modules", "defines no subclass"),
        ("from tilewright.passes.cse import CommonSubexpressionElimination", "defines no subclass"),
        (
            HEAD + "@dataclass(frozen=True)\nclass P(TilePass):\n    name: ClassVar[str] = 'cse'\n"
            "    def rewrite(self, root): pass\n",
            "Tilewright already has a pass or pipeline named 'cse'",
        ),
        (
            HEAD + "@dataclass(frozen=True)\nclass P(TilePass):\n    name: ClassVar[str] = 'O3'\n"
            "    def rewrite(self, root): pass\n",
            "Tilewright already has a pass or pipeline named 'O3'",
        ),
    ],
)
def test_files_that_give_no_passes(
    workplace: Path, capsys: pytest.CaptureFixture[str], content: str, message: str
) -> None:
    (workplace / "bad.py").write_text(content)
    assert main(["opt", "--load", "bad.py", "kernel.tileir"]) == 2
    found = capsys.readouterr()
    assert message in found.err and "passes-not-loaded" in found.err and not found.out


def test_a_file_that_is_not_there(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", "--load", "missing.py", "kernel.tileir"]) == 2
    assert "missing.py" in capsys.readouterr().err


RAISES = """@dataclass(frozen=True)
class P(TilePass):
    name: ClassVar[str] = "raises"
    def rewrite(self, root):
        {}["missing"]
"""
BREAKS = """@dataclass(frozen=True)
class P(TilePass):
    name: ClassVar[str] = "breaks"
    def rewrite(self, root):
        for op in list(root.walk()):
            if op.name == "cuda_tile.return":
                op.detach()
"""


def test_a_pass_that_raises_is_told_at_its_line(
    workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (workplace / "raises.py").write_text(HEAD + RAISES)
    assert main(["opt", "--load", "raises.py", "-p", "raises", "kernel.tileir"]) == 1
    assert "the pass 'raises' raised KeyError: 'missing'" in capsys.readouterr().err
    with pytest.raises(tilewright.TileIRError) as caught:
        run_pipeline(tilewright.parse(KERNEL), "raises")
    (found,) = caught.value.diagnostics
    assert found.code == "pass-failed"
    assert isinstance(found.location, NamedLocation) and found.location.line == 8
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_pass_that_breaks_the_module_is_to_blame(workplace: Path) -> None:
    (workplace / "breaks.py").write_text(HEAD + BREAKS)
    (cls,) = load_passes("breaks.py")
    with pytest.raises(tilewright.TileIRError, match="this is a bug in the pass"):
        run_pipeline(tilewright.parse(KERNEL), [cls()], verify_each=True)
