"""Errors in reports of pytest: at the user's own line, with a first line that says something."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SUITE = '''
import numpy as np
import tilewright
from tilewright import builder
from tilewright.cpu import Program
from tilewright.simulator.tiles import TileProgram

TEXT = """entry @k(%out: tile<ptr<f32>>) {
  %one = constant <f32: 1.0> : tile<f32>
  %false = constant <i1: false> : tile<i1>
  %far = constant <i64: 1000000> : tile<i64>
  %p = offset %out, %far : tile<ptr<f32>>, tile<i64> -> tile<ptr<f32>>
  assert %false, "never" : tile<i1>
  %t = store_ptr_tko weak %p, %one : tile<ptr<f32>>, tile<f32> -> token
}
"""
ASSERTS = TEXT.replace("1000000", "0")
OUT = np.zeros(4, np.float32)


def test_parse():
    tilewright.parse("entry @k() { oops }")

def test_verify():
    tilewright.verify(tilewright.parse(TEXT.replace("entry @k", "entry @one"), verify=False))

def test_read():
    tilewright.read(b"no bytecode")

def test_run():
    tilewright.run(tilewright.parse(TEXT), "k", 1, [OUT])

def test_run_assert():
    tilewright.run(tilewright.parse(ASSERTS), "k", 1, [OUT])

def test_arguments():
    tilewright.run(tilewright.parse(TEXT), "k", 1, [OUT.astype(np.int8)])

def test_sanitize():
    tilewright.run(tilewright.parse(TEXT), "k", 1, [OUT], options=tilewright.LaunchOptions(sanitize=True))

def test_pipeline():
    tilewright.run_pipeline(tilewright.parse(TEXT), "no-such-pass")

def test_cpu():
    Program(tilewright.parse(ASSERTS)).launch("k", 1, [OUT])

def test_cpu_checked():
    Program(tilewright.parse(TEXT), tilewright.LaunchOptions(checked=True)).launch("k", 1, [OUT])

def test_cpu_arguments():
    Program(tilewright.parse(TEXT)).launch("k", 1, [1.5, 2])

def test_simulator():
    TileProgram(tilewright.parse(TEXT), "sm_90a").launch("k", 1, [OUT])
'''

CUTILE = """
import numpy as np
import cuda.tile as ct
import tilewright.cutile
from tilewright.cutile import launch, on

@ct.kernel
def outside(x):
    ct.store(x, (ct.bid(0) + 3,), ct.load(x, (0,), (4,)))

@ct.kernel
def false(x):
    ct.assert_(ct.load(x, (0,), (4,)) > 0)

X = np.zeros(8, np.float32)

def test_reference():
    launch(0, (1,), outside, (X,))

def test_within():
    with on("reference", sanitize=True):
        ct.launch(0, (1,), outside, (X,))

def test_cpu():
    launch(0, (1,), false, (X,), machine="cpu")

@on("sim:sm_90a")
def test_simulator():
    ct.launch(0, (1,), false, (X,))

def test_refused():
    on("nothing")

def test_arguments():
    launch(0, (1,), outside, (X, 1))

def test_kind_of_argument():
    launch(0, (1,), outside, ("x",))

def test_grid():
    launch(0, (1, 2, 3, 4), outside, (X,))
"""


def failures(suite: str, directory: Path) -> list[str]:
    """The report of each test of a suite, all of which fail, and the summary."""
    (directory / "test_suite.py").write_text(suite)
    environment = {key: value for key, value in os.environ.items() if "PYTEST" not in key}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-qp", "no:cacheprovider", "--rootdir", str(directory)],
        env={**environment, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
        cwd=directory,
        timeout=300,
    )
    reports = done.stdout.split("\n____")[1:]
    assert len(reports) == suite.count("def test_"), done.stdout + done.stderr
    return reports


def check(suite: str, directory: Path) -> None:
    reports = failures(suite, directory)
    summary = reports[-1].partition("short test summary info")[2]
    for report in reports:
        body = report.partition("===")[0]
        frames = [line for line in body.splitlines() if line.endswith("Error") or ": in " in line]
        assert frames, report
        assert not [line for line in frames if "tilewright/" in line], report
    lines = [line for line in summary.splitlines() if line.startswith("FAILED")]
    assert len(lines) == len(reports)
    for line in lines:
        says = line.partition(" - ")[2]
        assert says.partition(": ")[2].strip(), line


def test_frames_of_ours_are_hidden(tmp_path: Path) -> None:
    check(SUITE, tmp_path)


@pytest.mark.usefixtures("lean_processes")
def test_frames_of_cutile_launches_are_hidden(tmp_path: Path) -> None:
    pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")
    check(CUTILE, tmp_path)
