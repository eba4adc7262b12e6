"""docs/reference/api.md is what the docstrings say, and every public name says something."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import tilewright

pytest.importorskip("llvmlite", reason="the signatures of tilewright.gpu need llvmlite")

ROOT = Path(__file__).resolve().parents[2]


def _tool() -> ModuleType:
    path = ROOT / "tools" / "api_reference.py"
    spec = importlib.util.spec_from_file_location("api_reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = _tool()


def test_the_page_is_up_to_date(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--bless"):
        assert TOOL.main([]) == 0
    assert TOOL.PAGE.read_text(encoding="utf-8") == TOOL.page(), (
        "python tools/api_reference.py writes it anew"
    )


def test_an_old_page_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert TOOL.main(["--check"]) == 0
    monkeypatch.setattr(TOOL, "ROOT", tmp_path)
    monkeypatch.setattr(TOOL, "PAGE", tmp_path / "api.md")
    assert TOOL.main(["--check"]) == 1
    assert "api.md is old" in capsys.readouterr().out


def test_public_names_are_on_it() -> None:
    section = TOOL.page().split("\n## tilewright\n")[1].split("\n## ")[0]
    for name in tilewright.__all__:
        assert name == "__version__" or f"### {name}\n" in section


def test_a_name_without_a_docstring_is_refused() -> None:
    def silent(x: int) -> int:
        return x

    with pytest.raises(TOOL.MissingDocstring, match=r"room\.silent"):
        list(TOOL._entry("room", "silent", silent))


def test_declarations() -> None:
    def call(a: int, *, path: str = "", _hidden: int = 0) -> bool:
        """Says so."""
        return bool(a)

    assert TOOL._declaration("call", call) == "call(a: int, *, path: str = '') -> bool"
