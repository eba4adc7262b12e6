"""``tilewright check --campaign``: a folder of programs on several machines and seeds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.cli.conftest import Command

from tilewright.cli.campaign_jobs import difference

pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")
pytestmark = pytest.mark.usefixtures("lean_processes")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
RACY = """
import numpy as np
import cuda.tile as ct

@ct.kernel
def clash(c):
    ct.store(c, (0,), ct.full((4,), ct.bid(0), c.dtype))

ct.launch(0, (2,), clash, (np.zeros(4, np.float32),))
"""
TABLES = """
# $ tilewright run tables.py 3
import sys
import numpy as np
import cuda.tile as ct

@ct.kernel
def total(tables, out):
    found = ct.zeros((8,), ct.float32)
    for k in range(len(tables)):
        found += ct.sum(ct.load(tables[k], (0,), (4096,)), 0)
    ct.store(out, (0,), found)

x = np.random.default_rng(0).random(4096, np.float32)
out = np.zeros(8, np.float32)
ct.launch(0, (1,), total, ([x] * int(sys.argv[1]) + [x + 1], out))
np.testing.assert_allclose(out, 4 * x.sum() + 4096, rtol=1e-5)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    found = tmp_path / "programs"
    (found / "inner").mkdir(parents=True)
    (found / "inner" / "racy.py").write_text(RACY)
    (found / "tables.py").write_text(TABLES)
    (found / "helper.py").write_text("VALUE = 1\n")
    shutil.copy(EXAMPLES / "vector_add.tileir", found)
    (found / "died.py").write_text("import os\nimport cuda.tile  # launch\nos._exit(3)\n")
    (found / "wrong.py").write_text("import cuda.tile  # launch\nassert 1 == 2, 'a claim'\n")
    return found


def jobs(command: Command, *words: str | Path, status: int = 1) -> dict[tuple[Any, ...], Any]:
    ran = command("check", "--campaign", *words, "--format", "json")
    assert ran.status == status, ran.text
    rows = json.loads(ran.text)["jobs"]
    return {(row["program"], row["machine"], row["seed"]): row for row in rows}


@pytest.mark.rotates(2)
def test_every_check_on_everything(command: Command, folder: Path) -> None:
    found = jobs(command, folder, "--machines", "reference,cpu", "--seeds", "2")
    racy = str(Path("inner", "racy.py"))
    assert {key: row["status"] for key, row in found.items()} == {
        ("died.py", "reference", 0): "lost",
        ("died.py", "reference", 1): "lost",
        ("died.py", "cpu", 0): "lost",
        (racy, "reference", 0): "findings",
        (racy, "reference", 1): "findings",
        (racy, "cpu", 0): "clean",  # It does not look for races.
        ("tables.py", "reference", 0): "clean",
        ("tables.py", "reference", 1): "clean",
        ("tables.py", "cpu", 0): "clean",
        ("vector_add.tileir", "reference", 0): "clean",
        ("vector_add.tileir", "reference", 1): "clean",
        ("vector_add.tileir", "cpu", 0): "clean",
        ("wrong.py", "reference", 0): "findings",
        ("wrong.py", "reference", 1): "findings",
        ("wrong.py", "cpu", 0): "findings",
    }
    (finding,) = found[racy, "reference", 0]["findings"]
    assert finding["code"] == "race" and finding["place"].endswith("racy.py:7")
    assert found["tables.py", "cpu", 0]["launches"] == 1
    assert "a claim" in found["wrong.py", "cpu", 0]["findings"][0]["message"]
    # What was lost is tried again; all else is kept.
    (folder / "died.py").unlink()
    (folder / "wrong.py").unlink()
    ran = command("check", "--campaign", folder, "--machines", "reference,cpu", "--seeds", "2")
    assert ran.status == 1
    assert "3 files, 9 jobs, with all checks enabled, 9 of them from an earlier run" in ran.text
    assert ran.text.endswith("7 clean, 2 with findings\n")


def test_results_are_compared(command: Command, folder: Path) -> None:
    # A race has more than one answer: which one a machine gives is up to its threads.
    for name in ("died.py", "wrong.py", "inner/racy.py"):
        (folder / name).unlink()
    words = (folder, "--compare", "--machines", "cpu,sim:sm_90a", "--seeds", "1")
    found = jobs(command, *words, status=0)
    assert len(found) == 4 and {row["status"] for row in found.values()} == {"clean"}
    # The simulator does not add in the order of the reference machine.
    found = jobs(command, *words, "--rtol", "0", "--atol", "0")
    row = found["tables.py", "sim:sm_90a", 0]
    assert row["findings"][0]["code"] == "campaign-differs"
    assert "total: out" in row["findings"][0]["message"]


F32, F16 = np.dtype(np.float32), np.dtype(np.float16)
INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("dtype", "one", "other", "differing"),
    [
        (F32, [1, 2, 3], [1, 2, 3], 0),
        (F32, [1, 2 + 1e-6, 3], [1, 2, 3], 0),
        (F32, [1, 2 + 1e-4, 3], [1, 2, 3], 1),
        (F32, [1e-6, 1000], [0, 1000], 0),
        (F32, [1e-6, 1], [0, 1e-6], 2),
        (F32, [NAN, 1], [NAN, 1], 0),
        (F32, [NAN, 1], [1, NAN], 2),
        (F32, [INF, -INF, 1], [INF, INF, INF], 2),
        (F32, [INF, 1], [1, 1], 1),
        (F16, [1, 2.01], [1, 2], 0),
        (F16, [1, 2.2], [1, 2], 1),
        (np.dtype(ml_dtypes.bfloat16), [1, 2.5], [1, 2], 0),
        (np.dtype(ml_dtypes.bfloat16), [1, 4], [1, 2], 1),
        (np.dtype(np.int32), [1, 2, 3], [1, 2, 4], 1),
        (np.dtype(np.uint8), [255], [0], 1),
        (np.dtype(np.bool_), [True, False], [True, True], 1),
        (F32, [], [], 0),
    ],
)
def test_differences(dtype: Any, one: list[float], other: list[float], differing: int) -> None:
    found, expected = np.array(one, dtype), np.array(other, dtype)
    count, worst = difference(found, expected, None, None)
    assert count == differing
    assert (worst > 0) == (differing > 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--campaign", "nowhere"), "is not a folder"),
        (("--campaign", "empty"), "contains no program"),
        (("--campaign", "empty", "file.tileir"), "cannot be combined with files"),
        (("--campaign", "empty", "--format", "sarif"), "text and json"),
        (("--campaign", "programs", "--machines", "abacus"), "abacus"),
        (
            ("--campaign", "programs", "--compare", "--machines", "reference"),
            "a machine other than reference",
        ),
        (("--campaign", "programs", "--rtol", "1"), "require --compare"),
        (("--campaign", "programs", "--seeds", "9" * 20), "--seeds is at most 1,000,000"),
        (("--machines", "cpu", "file.tileir"), "--machines requires --campaign"),
        ((), "no input to check"),
    ],
)
def test_bad_usage(
    command: Command,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(folder.parent)
    Path("empty").mkdir()
    ran = command("check", *words)
    assert (ran.status, message in ran.err) == (2, True), ran.err
