"""What docs/tuning.md shows works."""

from __future__ import annotations

import re
import shutil
from dataclasses import fields
from itertools import islice
from pathlib import Path

import pytest
from tests.docs.test_documents import blocks, commands
from tests.model.support import requires_tools

from tilewright.cli.main import main
from tilewright.diagnostics import all_codes
from tilewright.passes.tileas.decisions import BAD_DECISION, Decisions
from tilewright.tuning import decided

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tuning.md"
COMMANDS = commands(PAGE, "", "")


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_are_found() -> None:
    assert [words[0] for words in COMMANDS] == [
        *("tune", "tune", "tune", "compile", "check", "check")
    ]


@requires_tools
@pytest.mark.oracle
@pytest.mark.parametrize("words", COMMANDS[:2], ids=lambda words: words[1])
@pytest.mark.rotates(2)
def test_rankings(words: list[str], workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if words[1].endswith(".py"):
        pytest.importorskip("cuda.tile", reason="cuTile is not installed")
    assert main(words) == 0
    assert ", modelled" in capsys.readouterr().out


@requires_tools
@pytest.mark.oracle
@pytest.mark.rotates(2)
def test_a_search_and_what_is_compiled_by_it(
    workplace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # One step, of three changes: how a search goes on is tested in tests/cli.
    changed = decided.changed
    monkeypatch.setattr(decided, "MOST_STEPS", 1)
    monkeypatch.setattr(decided, "changed", lambda *given: islice(changed(*given), 3))
    search, by_hand = COMMANDS[2:4]
    # The page has it with FILE in the place of what the search has written.
    lines = PAGE.read_text().splitlines()
    (taken,) = [s for s in lines if s.startswith("tilewright compile") and "--decisions FILE" in s]
    taken = taken.partition("  #")[0].replace("FILE", "decisions.json").split()[1:]
    assert main(search) == 0
    assert "as compiled" in capsys.readouterr().out
    for words in (taken, by_hand):
        assert main(words) == 0
        made = workplace / "product.ptx"
        assert ".target sm_80" in made.read_text()
        made.unlink()


def test_a_campaign(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("cuda.tile", reason="cuTile is not installed")
    for path in (workplace / "examples").rglob("*"):
        # A few stand for all, which take a minute.
        if path.is_file() and path.name not in ("softmax.py", "vector_add.tileir"):
            path.unlink()
    assert main(COMMANDS[4]) == 0
    assert capsys.readouterr().out.endswith("2 clean\n")


@requires_tools
@pytest.mark.oracle
def test_the_program_that_searches(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("cuda.tile", reason="cuTile is not installed")
    program, _ = blocks(PAGE, "python")
    (workplace / "tuned.py").write_text(program)
    assert main(["tune", "tuned.py"]) == 0
    assert "double: 3 configurations on H100 SXM, modelled" in capsys.readouterr().out


def test_python(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, campaign = blocks(PAGE, "python")
    exec(compile(campaign, str(PAGE), "exec"), {})
    expected = [(f"dumps {n}", "done", str(n)) for n in range(3)]
    assert capsys.readouterr().out == f"{expected}\n"


@pytest.mark.parametrize("where", ["table", "code", "compile", "tune"])
def test_every_decision_is_named(where: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In the table, by the code that refuses others, and in the help of ``--decide``, which is written out."""
    if where == "table":
        told = "\n".join(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.M))
    elif where == "code":
        (told,) = (code.explanation for code in all_codes() if code.name == BAD_DECISION)
    else:
        assert main([where, "--help"]) == 0
        told = capsys.readouterr().out.partition("\n  --decide ")[2].partition("\n  --")[0]
    assert [
        each.name for each in fields(Decisions) if not re.search(rf"\b{each.name}\b", told)
    ] == []
