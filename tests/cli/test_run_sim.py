"""``tilewright run --machine sim:ARCH``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tilewright.cli.exits import Exit

from .conftest import Command

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "nvgpu"
VECTOR_ADD = str(EXAMPLES / "vector_add.mlir")
ARGUMENTS = (
    *("--grid", "2", "--block", "128", "--arg", "iota:f32:600", "--arg", "ones:f32:600"),
    *("--arg", "c=zeros:f32:600"),
)


def test_kernel_runs(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "c.npy"
    ran = command(
        "run", VECTOR_ADD, "--machine", "sim:sm_80", *ARGUMENTS, "--out", f"c={out}", "--counters"
    )
    assert ran.status == Exit.OK, ran.err
    assert (np.load(out) == np.arange(600) + 1).all()
    assert "async_copy_bytes: 8192" in ran.text and "occupancy: 16 blocks" in ran.text


def test_json(command: Command) -> None:
    ran = command("run", VECTOR_ADD, "--machine", "sim:sm_80", *ARGUMENTS, "--json")
    told = json.loads(ran.text)
    assert told["machine"] == "sim:sm_80" and told["completed"] is True
    assert told["counters"]["barriers"] == 8


@pytest.mark.parametrize(("suffix", "begins"), [("html", "<!doctype html>"), ("svg", "<svg")])
def test_timeline(command: Command, tmp_path: Path, suffix: str, begins: str) -> None:
    path = tmp_path / f"t.{suffix}"
    ran = command("run", VECTOR_ADD, "--machine", "sim:sm_80", *ARGUMENTS, "--timeline", str(path))
    assert ran.status == Exit.OK and path.read_text().startswith(begins)


def test_findings_are_reported(command: Command, tmp_path: Path) -> None:
    text = (EXAMPLES / "vector_add.mlir").read_text().replace("      gpu.barrier\n", "")
    text = text.replace("nvgpu.device_async_wait %group {numGroups = 0 : i32}", "")
    path = tmp_path / "bad.mlir"
    path.write_text(text)
    ran = command("run", str(path), "--machine", "sim", *ARGUMENTS)
    assert ran.status == Exit.FINDINGS
    assert "error[sim-copy-not-awaited]" in ran.err and "bad.mlir:3" in ran.err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--machine", "sim:sm_75"), "the first architecture that has it is sm_80"),
        (("--machine", "sim:gfx"), "no architecture that the simulator knows"),
        (("--machine", "sim", "--threads", "2"), "the simulator has no --threads"),
        (("--machine", "simulator"), "sim:ARCH"),
    ],
)
def test_bad_options(command: Command, options: tuple[str, ...], says: str) -> None:
    ran = command("run", VECTOR_ADD, *options, *ARGUMENTS)
    assert ran.status in (Exit.USAGE, Exit.FINDINGS) and says in ran.err


def test_block_is_needed_and_only_here(command: Command) -> None:
    ran = command("run", VECTOR_ADD, "--machine", "sim")
    assert ran.status == Exit.USAGE and "threads of a block" in ran.err
    tile = str(EXAMPLES.parent / "vector_add.tileir")
    ran = command("run", tile, "--block", "32", "--arg", "x=1")
    assert ran.status == Exit.USAGE
