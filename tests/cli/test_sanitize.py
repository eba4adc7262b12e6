"""``tilewright sanitize``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tilewright.cli.exits import Exit

from .conftest import Command

RACY = """
entry @k(%out: tile<ptr<f32>>) {
  %one = constant <f32: 1.0> : tile<f32>
  %t = store_ptr_tko weak %out, %one : tile<ptr<f32>>, tile<f32> -> token
}
"""
GRID = ("--grid", "2", "--arg", "out=zeros:f32:4")


@pytest.fixture
def racy(tmp_path: Path) -> Path:
    path = tmp_path / "racy.tileir"
    path.write_text(RACY)
    return path


def test_findings_are_shown_and_decide_the_status(command: Command, racy: Path) -> None:
    ran = command("sanitize", racy, *GRID)
    assert ran.status == Exit.FINDINGS
    assert "error[race]: a store to %out[0] conflicts with a store by another tile block" in ran.err
    assert f"{racy}:4:" in ran.err


def test_a_clean_run_says_so(command: Command, racy: Path) -> None:
    ran = command("sanitize", racy, "--arg", "out=zeros:f32:4", "--seeds", "2", "--print", "out")
    assert (ran.status, ran.err) == (Exit.OK, "no errors found under 2 schedules\n")
    assert ran.text.startswith("out: f32 4")


def test_races_can_be_left_out(command: Command, racy: Path) -> None:
    assert command("sanitize", racy, *GRID, "--no-races").status == Exit.OK


def test_json_tells_launch_and_findings(command: Command, racy: Path) -> None:
    report = json.loads(command("sanitize", racy, *GRID, "--format", "json", "--seeds", "1").text)
    assert report["launch"]["grid"] == [2, 1, 1]
    assert report["seeds"] == [0]
    (finding,) = report["findings"]
    assert finding["code"] == "race"


def test_sarif(command: Command, racy: Path) -> None:
    log = json.loads(command("sanitize", racy, *GRID, "--format", "sarif").text)
    assert [result["ruleId"] for result in log["runs"][0]["results"]] == ["race"]


def test_html_page(command: Command, racy: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert command("sanitize", racy, *GRID, "--html", page).status == Exit.FINDINGS
    assert "race" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("seeds", ["0", "-1", "x"])
def test_bad_number_of_seeds(command: Command, racy: Path, seeds: str) -> None:
    assert command("sanitize", racy, "--seeds", seeds).status == Exit.USAGE
