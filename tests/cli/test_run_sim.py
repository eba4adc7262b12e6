"""``tilewright run --machine sim:ARCH``."""

from __future__ import annotations

import json
import re
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
    assert "error[sim-copy-not-awaited]" in ran.err and re.search(r"bad\.mlir:\d+", ran.err)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--machine", "sim:sm_75"), "the first architecture that has it is sm_80"),
        (("--machine", "sim:gfx"), "not an architecture of the simulator"),
        (("--machine", "sim", "--threads", "2"), "--threads needs --machine cpu, not sim:sm_90a"),
        (("--machine", "simulator"), "sim:ARCH"),
    ],
)
def test_bad_options(command: Command, options: tuple[str, ...], says: str) -> None:
    ran = command("run", VECTOR_ADD, *options, *ARGUMENTS)
    assert ran.status in (Exit.USAGE, Exit.FINDINGS) and says in ran.err


def test_block_is_needed_and_only_here(command: Command) -> None:
    ran = command("run", VECTOR_ADD, "--machine", "sim")
    assert ran.status == Exit.USAGE and "threads per block" in ran.err
    tile = str(EXAMPLES.parent / "vector_add.tileir")
    ran = command("run", tile, "--block", "32", "--arg", "x=1")
    assert ran.status == Exit.USAGE


_BY_ADDRESS = """\
module attributes {gpu.container_module} {
  gpu.module @m {
    gpu.func @k(%p: !llvm.ptr<1>) kernel {
      %tid = gpu.thread_id x
      %t = arith.index_cast %tid : index to i32
      %at = llvm.getelementptr %p[%t] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
      llvm.store %t, %at : i32, !llvm.ptr<1>
      gpu.return
    }
  }
}
"""


def test_pointers_take_arrays_of_any_type(command: Command, tmp_path: Path) -> None:
    path, data = tmp_path / "k.mlir", tmp_path / "p.npy"
    path.write_text(_BY_ADDRESS)
    options = ("run", str(path), "--machine", "sim", "--block", "32")
    ran = command(*options, "--arg", "p=zeros:i32:32", "--print", "p")
    assert ran.status == Exit.OK and ran.text.startswith("p: i32 32, min 0, max 31")
    np.save(data, np.zeros(32, np.uint32))
    assert command(*options, "--arg", str(data), "--out", f"p={data}").status == Exit.OK
    assert (np.load(data) == np.arange(32)).all()
    ran = command(*options, "--arg", "zeros:i32:16")
    assert ran.status == Exit.FINDINGS and "right after argument 'p'" in ran.err
    ran = command(*options, "--arg", "5")
    assert (
        ran.status == Exit.USAGE
        and "'5' is not an array, as parameter 'p: ptr' requires" in ran.err
    )
