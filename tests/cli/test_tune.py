"""``tilewright tune``: spaces of programs, of the command line, and of kernels."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command
from tests.model.support import requires_tools

from tilewright.model.tables import Gpu
from tilewright.tuning import decided
from tilewright.tuning.ranking import Ranked

pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")
pytestmark = pytest.mark.usefixtures("lean_processes")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PROGRAM = """
import sys
import numpy as np
import cuda.tile as ct
from sizes import BLOCK

TM, TN = 64, 64
TK = 32

@ct.kernel
def product(a, b, c):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((TM, TN), ct.float32)
    for k in range(ct.num_tiles(a, 1, (TM, TK))):
        total = ct.mma(ct.load(a, (i, k), (TM, TK)), ct.load(b, (k, j), (TK, TN)), total)
    ct.store(c, (i, j), total)

@ct.kernel
def fill(x, n: ct.Constant[int]):
    ct.store(x, (ct.bid(0),), ct.full((n,), 1, x.dtype))

size = 512
a, c = np.ones((size, size), np.float16), np.zeros((size, size), np.float32)
ct.launch(0, (ct.cdiv(size, TM), ct.cdiv(size, TN)), product, (a, a, c))
n = int(sys.argv[1]) if sys.argv[1:] else BLOCK
ct.launch(0, (4,), fill, (np.zeros(4096, np.float32), n))
assert (c == size).all(), "wrong"
"""
SEARCH = """
import numpy as np
import cuda.tile as ct

@ct.kernel
def double(x, y, n: ct.Constant[int]):
    ct.store(y, (ct.bid(0),), ct.load(x, (ct.bid(0),), (n,)) * 2)

x, y = np.ones(4096, np.float32), np.zeros(4096, np.float32)
found = ct.tune.exhaustive_search(
    [{"n": n} for n in (64, 100, 256)], 0, lambda c: (4096 // c["n"],), double,
    lambda c: (x, y, c["n"]), quiet=True)
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "sizes.py").write_text("BLOCK = 256\n")
    path = tmp_path / "p.py"
    path.write_text(PROGRAM)
    return path


def searches(command: Command, *words: str | Path) -> list[Any]:
    ran = command("tune", *words, "--json")
    assert ran.status == 0, ran.err
    data = json.loads(ran.text)
    assert data["modelled"] is True and "no GPU" not in data
    return data["searches"]


@requires_tools
@pytest.mark.oracle
@pytest.mark.rotates(2)
def test_constants_of_a_program(command: Command, program: Path, tmp_path: Path) -> None:
    # One process each time, which takes longer to start than to model a launch.
    columns, hints = ("--set", "TN=32", "--jobs", "1"), ("--hint", "occupancy=1,2")
    condition = ("--where", "TM != 100 or occupancy == 1")
    (first,) = searches(command, program, "--set", "TM=16,100", *columns, *hints, *condition)
    times = [each["seconds"] for each in first["ranked"]]
    assert times == sorted(times)
    tried = [tuple(each["configuration"].values()) for each in first["ranked"]]
    assert sorted(tried) == [(16, 32, 1), (16, 32, 2)]
    assert [each["configuration"]["TM"] for each in first["refused"]] == [100]
    assert all("power of two" in each["reason"] for each in first["refused"])
    for each in first["ranked"]:
        product, fill = each["launches"]
        assert each["seconds"] == pytest.approx(product["seconds"] + fill["seconds"])
        assert product["grid"][:2] == [512 // each["configuration"]["TM"], 16]
        assert fill["name"] == "fill"
    assert any("not run" in note for note in first["notes"])
    # Again: all is kept, and what is new is added.
    (again,) = searches(command, program, "--set", "TM=16,32", *columns, *hints)
    assert sum(each["kept"] for each in again["ranked"]) == 2 and len(again["ranked"]) == 4
    # What the program imports is a part of it.
    (tmp_path / "sizes.py").write_text("BLOCK = 512\n")
    (other,) = searches(command, program, "--set", "TM=32", "--kernel", "fill", "--jobs", "1")
    assert [each["kept"] for each in other["ranked"]] == [False]
    assert [facts["name"] for facts in other["ranked"][0]["launches"]] == ["fill"]


@requires_tools
@pytest.mark.oracle
def test_arguments_of_a_program(command: Command, program: Path) -> None:
    words = ("--kernel", "fill", "--set", "N=64,1024", "--jobs", "1")
    (found,) = searches(command, *words, "--json", program, "--json", "--", "{N}")[:1]
    assert {each["configuration"]["N"] for each in found["ranked"]} == {64, 1024}
    assert all(len(each["launches"]) == 1 for each in found["ranked"])


@requires_tools
@pytest.mark.oracle
def test_searches_of_a_program(command: Command, program: Path) -> None:
    program.write_text(SEARCH)
    ran = command("tune", "--resume", program.parent / "kept.jsonl", program)
    assert ran.status == 0, ran.err
    assert "double: 3 configurations on H100 SXM, modelled\n" in ran.text
    assert "known error" in ran.text
    head = next(line for line in ran.text.splitlines() if "registers" in line)
    assert head.split("  ")[-1] == "shared memory"
    assert "1 configuration is skipped\n  n=100: " in ran.text
    assert (program.parent / "kept.jsonl").read_text().count("\n") == 2
    ran = command("tune", "--resume", program.parent / "kept.jsonl", program)
    assert "2 of them from an earlier run" in ran.text


@requires_tools
@pytest.mark.oracle
@pytest.mark.rotates(2)
def test_hints_of_a_kernel(command: Command, program: Path) -> None:
    words = (
        *("tune", EXAMPLES / "row_reduction.tileir", "--gpu", "a100", "--grid", "500"),
        *("--arg", "zeros:f32:4000x1024", "--arg", "zeros:f32:4000", "--arg", "4000"),
        *("--arg", "1024", "--hint", "num_worker_warps_per_cta=2,8", "--jobs", "1"),
    )
    ran = command(*words, "--measure", "1", "--measure-on", "cpu", "--json")
    assert ran.status == 0, ran.err
    data = json.loads(ran.text)
    (found,) = data["searches"]
    assert data["gpu"] == "a100" and found["measured_on"] == "cpu"
    measured = [each["measured_seconds"] for each in found["ranked"]]
    assert measured[0] > 0 and measured[1] is None
    warps = {
        each["configuration"]["num_worker_warps_per_cta"]: each["launches"][0]["threads"][0]
        for each in found["ranked"]
    }
    assert warps == {2: 64, 8: 256}


@requires_tools
@pytest.mark.oracle
def test_what_does_not_fit_is_left_out_before_it_is_compiled(
    command: Command, program: Path
) -> None:
    ran = command(
        *("tune", "--set", "TM=64,1024", "--set", "TN=64,512", "--kernel", "product", "--json"),
        *("--jobs", "1"),
        *("--where", "TM * TN in (4096, 1024 * 512)", program),
    )
    assert ran.status == 0, ran.err
    (found,) = json.loads(ran.text)["searches"]
    assert [each["configuration"]["TM"] for each in found["ranked"]] == [64]
    (refused,) = found["refused"]
    assert (refused["status"], refused["code"]) == ("refused", "tune-too-large")
    assert "a loop carries 2048 KiB in tiles up to 1024x512xf32" in refused["reason"]


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ((), 1, "error[tune-no-space]: "),
        ((), 1, "has no search space"),
        (("--set", "XX=1"), 2, "its constants: TM, TN, TK"),
        (("--set", "TM"), 2, "expected NAME=VALUE"),
        (("--hint", "speed=1"), 2, "no hint 'speed'"),
        (("--hint", "occupancy=99"), 2, "range [1, 32]"),
        (("--set", "TM=64", "--where", "TM >"), 2, "not a Python expression"),
        (("--set", "TM=64", "--where", "TM > 64"), 2, "no configuration satisfies"),
        (("--set", "TM=64", "--set", "TM=32"), 2, "TM is given twice"),
        (("--set", "TM=64", "--gpu", "v100"), 1, "no GPU 'v100'"),
        (("--set", "TM=64", "--arg", "1"), 2, "--arg does not apply to programs"),
        (("--set", "TM=64", "--measure", "-1"), 2, "at least 0"),
        (("--set", "TM=64", "--jobs", "2", "--dask", "tcp://h:1"), 2, "leave it out with --dask"),
        (("--set", "TM=64", "--no-keep", "--resume", "f"), 2, "cannot be combined"),
    ],
)
def test_what_cannot_be_done_is_said(
    command: Command, program: Path, words: tuple[str, ...], status: int, message: str
) -> None:
    ran = command("tune", *words, program)
    assert message in ran.err
    assert ran.status == status


def test_kernels_need_hints(command: Command) -> None:
    kernel = EXAMPLES / "softmax.tileir"
    ran = command("tune", kernel)
    assert (ran.status, "--hint" in ran.err) == (1, True)
    ran = command("tune", kernel, "--set", "TM=3")
    assert (ran.status, "--set requires a cuTile program" in ran.err) == (2, True)


def test_measuring_needs_a_gpu(command: Command, program: Path) -> None:
    from tilewright.diagnostics import TileIRError
    from tilewright.launching.machine import machine_named

    try:
        machine_named("cuda").check()
    except TileIRError as error:
        ran = command("tune", program, "--set", "TM=64", "--measure", "2")
        assert (ran.status, error.diagnostics[0].message in ran.err) == (1, True)
    else:
        pytest.skip("there is a GPU")


MATMUL = EXAMPLES / "matmul.tileir"
LAUNCH = [
    *("--grid", "4,4", "--arg", "zeros:f16:256x256", "--arg", "zeros:f16:256x256"),
    *("--arg", "zeros:f32:256x256", "--arg", "256", "--arg", "256", "--arg", "256"),
]


@requires_tools
@pytest.mark.oracle
def test_decisions_are_ranked_saved_and_taken(command: Command, tmp_path: Path) -> None:
    saved = tmp_path / "decisions.json"
    words = ("--gpu", "a100", "--static", "--no-keep", "--jobs", "1", *LAUNCH)
    (found,) = searches(
        command, MATMUL, *words, "--decide", "warps=4,8", "--decide", "band=0", "--save", saved
    )
    by_warps = {row["configuration"]["warps"]: row for row in found["ranked"]}
    assert {n: row["launches"][0]["threads"][0] for n, row in by_warps.items()} == {4: 128, 8: 256}
    record = json.loads(saved.read_text())
    best = found["ranked"][0]
    assert record["decisions"] == best["configuration"] and record["kernel"] == "matmul"
    assert record["seconds"] == best["seconds"] and record["target"] == "sm_80"

    ir = tmp_path / "kernel.mlir"
    compiled = ("compile", MATMUL, "--emit", "tileas", "-o", ir, "--decisions", saved)
    assert command(*compiled, "--target", "sm_80").status == 0
    assert f"numWarps = {best['configuration']['warps']}" in ir.read_text()
    # What is said beside the record counts.
    assert command(*compiled, "--target", "sm_80", "--decide", "warps=2").status == 0
    assert "numWarps = 2" in ir.read_text()
    other = command(*compiled, "--target", "sm_90a")
    assert other.status == 2 and "are for sm_80, not for sm_90a" in other.err
    kernel = ("compile", EXAMPLES / "softmax.tileir", "--decisions", saved, "--target", "sm_80")
    other = command(*kernel)
    assert other.status == 2 and "for kernel 'matmul', not 'softmax'" in other.err


@requires_tools
@pytest.mark.oracle
@pytest.mark.rotates(2)
def test_a_search_goes_uphill(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins with what the compiler decides, and ends with nothing slower."""
    few = {"_WARPS": (8,), "_STAGES": (4,), "_WIDTHS": (4,), "_BANDS": (8,)}
    few |= {"_RESIDENT": (2,), "_PARTS": (2,)}
    monkeypatch.setattr(decided, "MOST_STEPS", 2)
    changed = decided.changed

    def few_in_the_second_step(best: Ranked, gpu: Gpu) -> Iterator[dict[str, Any]]:
        return islice(changed(best, gpu), 3 if best.configuration else None)

    monkeypatch.setattr(decided, "changed", few_in_the_second_step)
    for name, values in few.items():
        assert set(values) <= set(getattr(decided, name))
        monkeypatch.setattr(decided, name, values)
    saved = tmp_path / "decisions.json"
    softmax = EXAMPLES / "softmax.tileir"
    launch = [*("--grid", "64", "--arg", "zeros:f32:256x256", "--arg", "zeros:f32:256x256")]
    words = ("--static", "--no-keep", "--jobs", "1", *launch, "--arg", "256", "--arg", "256")
    (found,) = searches(command, softmax, *words, "--search", "--save", saved)
    (own,) = [row for row in found["ranked"] if not row["configuration"]]
    tried = [row["configuration"] for row in found["ranked"]]
    assert len(tried) > 10
    assert all({name: n} in tried for name, n in (("warps", 8), ("stages", 4), ("width", 4)))
    # The second step changes what the first has found.
    assert any(len(decisions) == 2 for decisions in tried)
    record = json.loads(saved.read_text())
    assert record["seconds"] <= own["seconds"] * 1.01
    assert record["seconds_as_compiled"] == own["seconds"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--search", "--hint", "occupancy=1,2"], "--search cannot be combined"),
        (["--search", "--decide", "warps=4"], "--search cannot be combined"),
        (["--save", "x.json", "--hint", "occupancy=1,2"], "--save requires --search"),
        (["--decide", "warps=3"], "expected 1, 2, 4"),
        (["--decide", "speed=3"], "called 'speed'"),
    ],
)
def test_bad_spaces_of_decisions(command: Command, words: list[str], why: str) -> None:
    ran = command("tune", MATMUL, *LAUNCH, *words)
    assert ran.status == 2 and why in ran.err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "error[tune-bad-record]: "),
        ('{"decisions": {}}', "is not a record of decisions"),
        ('{"decisions": {"warps": 5}, "kernel": null, "target": "sm_80"}', "expected 1, 2, 4"),
        ('{"decisions": {}, "kernel": 7, "target": "sm_80"}', "names"),
    ],
)
def test_bad_records(command: Command, tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "record.json"
    path.write_text(text)
    ran = command("compile", MATMUL, "--target", "sm_80", "--decisions", path)
    assert ran.status == 2 and why in ran.err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "require --target sm_NN"),
        (["--target", "sm_80", "-O0"], "cannot be combined with -O0"),
    ],
)
def test_where_nothing_is_decided(command: Command, words: list[str], why: str) -> None:
    ran = command("compile", MATMUL, "--decide", "warps=4", *words)
    assert ran.status == 2 and why in ran.err
    nvgpu = EXAMPLES / "nvgpu" / "matmul_hopper.mlir"
    ran = command("compile", nvgpu, "--decide", "warps=4", "--target", "sm_90a")
    assert ran.status == 2 and "are already scheduled" in ran.err
