"""``tilewright run --trace``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tilewright.cli.exits import Exit

from .conftest import Command

EXAMPLE = Path(__file__).parents[2] / "examples" / "vector_add.tileir"
ARGUMENTS = (
    "--grid", "8", "--arg", "x=iota:f32:1000", "--arg", "y=full:f32:1000:0.5",
    "--arg", "out=zeros:f32:1000", "--arg", "n=1000",
)  # fmt: skip


def records(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_trace_in_a_file(command: Command, tmp_path: Path) -> None:
    target, out = tmp_path / "trace.jsonl", tmp_path / "out.npy"
    ran = command("run", EXAMPLE, *ARGUMENTS, "--trace", target, "--out", f"out={out}")
    assert (ran.status, ran.out, ran.err) == (Exit.OK, b"", "")
    launch, *ops = records(target.read_text())
    assert launch["entry"] == "vector_add"
    assert [op["op"] for op in ops].count("load_view_tko") == 2
    assert {tuple(op["block"]) for op in ops} == {(0, 0, 0)}  # pyright: ignore[reportArgumentType]
    assert np.array_equal(np.load(out), np.arange(1000, dtype=np.float32) + 0.5)


def test_trace_on_standard_output(command: Command) -> None:
    ran = command(
        "run", EXAMPLE, *ARGUMENTS, "--trace", "-", "--trace-block", "7", "--trace-block", "1,0,0",
        "--trace-values", "full",
    )  # fmt: skip
    assert (ran.status, ran.err) == (Exit.OK, "")
    _, *ops = records(ran.text)
    assert [op["block"][0] for op in ops if op["op"] == "addf"] == [1, 7]  # pyright: ignore[reportIndexIssue]
    (total,) = (op for op in ops if op["op"] == "addf" and op["block"] == [1, 0, 0])
    (value,) = total["results"]  # pyright: ignore[reportGeneralTypeIssues]
    assert value["elements"] == [128.5 + i for i in range(128)]


def test_all_blocks_up_to_a_limit(command: Command) -> None:
    ran = command(
        "run", EXAMPLE, *ARGUMENTS, "--trace", "-", "--trace-block", "all", "--trace-limit", "20",
        "--trace-values", "none",
    )  # fmt: skip
    assert ran.status == Exit.OK
    *found, cut = records(ran.text)
    assert len(found) == 21 and cut["event"] == "cut"
    assert {tuple(op["block"]) for op in found[1:]} == {(0, 0, 0), (1, 0, 0)}  # pyright: ignore[reportArgumentType]
    assert "note: the trace is cut after 20 records; 76 more are left out" in ran.err


def test_readable_text(command: Command) -> None:
    ran = command("run", EXAMPLE, *ARGUMENTS, "--trace", "-", "--trace-format", "text")
    assert "    load weak %x[0:128]\n" in ran.text
    assert "    %sum: tile<128xf32> min 0.5, max 127.5, mean 64\n" in ran.text


def test_a_run_that_fails_leaves_its_trace(command: Command, tmp_path: Path) -> None:
    target, out = tmp_path / "trace.jsonl", tmp_path / "out.npy"
    ran = command(
        "run", EXAMPLE, *ARGUMENTS, "--grid", "9", "--trace", target, "--trace-block", "8",
        "--out", f"out={out}",
    )  # fmt: skip
    assert ran.status == Exit.FINDINGS and "outside-index-space" in ran.err
    assert records(target.read_text())[-1]["op"] == "make_partition_view"
    assert not out.exists()


def test_refused_launches_leave_none(command: Command, tmp_path: Path) -> None:
    target = tmp_path / "trace.jsonl"
    ran = command("run", EXAMPLE, *ARGUMENTS, "--trace", target, "--trace-block", "8")
    assert ran.status == Exit.FINDINGS
    assert "no-such-block" in ran.err and not target.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--trace-values", "full"], "--trace-values needs --trace FILE"),
        (["--trace", "-", "--json"], "both write to standard output"),
        (["--trace", "-", "--trace-limit", "0"], "expected at least 1"),
        (["--trace", "-", "--trace-block", "x"], "one to three numbers, or all"),
        (["--trace", "no/such/folder/t.jsonl"], "cannot write"),
    ],
)
def test_bad_usage(command: Command, options: list[str], message: str) -> None:
    ran = command("run", EXAMPLE, *ARGUMENTS, *options)
    assert ran.status == Exit.USAGE
    assert message in ran.err
