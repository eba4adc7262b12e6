"""docs/reference/agreement.md has an answer for each operation, element type and machine."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tilewright.dialects.cuda_tile.base import OPERATIONS

pytest.importorskip("llvmlite", reason="the machines that the page is about need llvmlite")

ROOT = Path(__file__).resolve().parents[2]


def _tool() -> ModuleType:
    path = ROOT / "tools" / "agreement.py"
    spec = importlib.util.spec_from_file_location("agreement", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["agreement"] = module  # its dataclasses ask for it
    spec.loader.exec_module(module)
    return module


TOOL = _tool()
TEXT = TOOL.PAGE.read_text(encoding="utf-8")
ROWS = [
    [part.strip() for part in line.strip("|").split(" | ")]
    for line in TEXT.splitlines()
    if line.startswith("| `")
]
REASONS = dict(re.findall(r"^(\d+)\. (.+)$", TEXT, re.M))


def test_every_operation_has_an_answer() -> None:
    named = {row[0].strip("` ") for row in ROWS}
    assert named == set(OPERATIONS)


def test_no_cell_is_empty() -> None:
    for row in ROWS:
        assert len(row) == 2 + len(TOOL.SHOWN), row
        for found in row[2:]:
            for part in found.split(", "):
                reason = re.fullmatch(r"\[(\d+)\]", part)
                assert reason is not None or re.fullmatch(r"=|order|around|\d+ ulp", part), row
                assert reason is None or reason[1] in REASONS, row


def test_every_reason_is_asked_for() -> None:
    asked = {number for row in ROWS for number in re.findall(r"\[(\d+)\]", " ".join(row[2:]))}
    assert asked == set(REASONS)
    assert all(len(reason) > 10 for reason in REASONS.values())


@pytest.mark.parametrize("op", sorted(TOOL.KERNELS))
def test_types_are_told_once(op: str) -> None:
    told = [ty for row in ROWS if row[0] == f"`{op}`" for ty in row[1].split(", ")]
    assert told and len(told) == len(set(told))
    assert set(told) <= set(TOOL.TYPES)


@pytest.mark.parametrize("op", ["addf", "andi", "mmaf", "ftof", "atomic_cas_tko"])
def test_types_are_those_that_the_verifier_takes(op: str) -> None:
    told = {ty for row in ROWS if row[0] == f"`{op}`" for ty in row[1].split(", ")}
    for element in TOOL.TYPES:
        taken = any(TOOL.job(op, element, kernel) is not None for kernel in TOOL.KERNELS[op])
        assert taken == (element in told), element


def test_bounds_are_those_of_the_functions() -> None:
    """Bounds of the CPU's functions, as its page has them, and half a unit of the reference, rounded up."""
    page = (
        (ROOT / "docs" / "cpu.md").read_text(encoding="utf-8").split("## Mathematical functions")[1]
    )
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ([\d.]+) \| ([\d.]+) \|", page, re.M)
    held = {
        {"pow": "fpowf"}.get(name, name): max(map(float, bounds))
        for names, *bounds in rows
        for name in re.findall(r"\w+", names)
    }
    assert {name: int(bound + 1) for name, bound in held.items()} == {
        name: bound for name, bound in TOOL.ULP.items() if name != "fpowi"
    }


def test_differences_are_seen() -> None:
    one, other = np.array([1.0, np.nan, 0.0]), np.array([1.0, np.nan, -0.0])
    assert TOOL.same(one, one.copy()) and not TOOL.same(one, other)
    assert TOOL.ulps(one, other) == 0  # of which `same` tells the signs apart
    assert TOOL.ulps(np.array([1.0]), np.nextafter(np.array([1.0]), 2)) == 1
    assert TOOL.ulps(np.array([-1.0], np.float32), np.array([1.0], np.float32)) > 1 << 30
    given = TOOL.job("addf", "f32", TOOL.KERNELS["addf"][0])
    wrong = np.zeros(64, np.float32)
    assert TOOL.cell("cpu", given, wrong, wrong.copy()) == "="
    with pytest.raises(TOOL.Disagreement, match="addf on f32, cpu"):
        TOOL.cell("cpu", given, wrong + np.float32(1), wrong)
    assert TOOL.cell("cpu", given, "it does not", wrong) == "no: it does not"


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_page_is_up_to_date() -> None:
    assert TOOL.page() == TEXT, "python tools/agreement.py writes it anew"
