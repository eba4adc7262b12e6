"""``tilewright run``."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import numpy as np
import pytest

from tilewright.cli.exits import Exit

from .conftest import Command

EXAMPLES = Path(__file__).parents[2] / "examples"
SCALE = (
    "entry @scale(%x: tile<ptr<f32>>, %n: tile<i32>, %by: tile<f32>) {\n"
    "  %block, %j, %k = get_tile_block_id : tile<i32>\n"
    "  %view = make_tensor_view %x, shape = [%n], strides = [1] : tile<i32> -> "
    "tensor_view<?xf32, strides=[1]>\n"
    "  %tiles = make_partition_view %view : "
    "partition_view<tile=(4), padding_value = zero, tensor_view<?xf32, strides=[1]>>\n"
    "  %a, %t = load_view_tko weak %tiles[%block] : "
    "partition_view<tile=(4), padding_value = zero, tensor_view<?xf32, strides=[1]>>, tile<i32> "
    "-> tile<4xf32>, token\n"
    "  %one = reshape %by : tile<f32> -> tile<1xf32>\n"
    "  %all = broadcast %one : tile<1xf32> -> tile<4xf32>\n"
    "  %b = mulf %a, %all : tile<4xf32>\n"
    "  %u = store_view_tko weak %b, %tiles[%block] token = %t : tile<4xf32>, "
    "partition_view<tile=(4), padding_value = zero, tensor_view<?xf32, strides=[1]>>, tile<i32> "
    "-> token\n"
    "  return\n"
    "}\n"
)
ARGUMENTS = ("--grid", "2", "--arg", "x=iota:f32:8", "--arg", "n=8", "--arg", "by=2.5")
RESULT = np.arange(8, dtype=np.float32) * 2.5


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    path = tmp_path / "scale.tileir"
    path.write_text(SCALE)
    return path


def test_results_are_saved(command: Command, kernel: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.npy"
    ran = command("run", kernel, *ARGUMENTS, "--out", f"x={target}")
    assert (ran.status, ran.out, ran.err) == (Exit.OK, b"", "")
    saved = np.load(target)
    assert saved.dtype == np.float32
    assert np.array_equal(saved, RESULT)


def test_all_results_are_saved(command: Command, kernel: Path, tmp_path: Path) -> None:
    directory = tmp_path / "deep" / "results"
    assert command("run", kernel, *ARGUMENTS, "--out-dir", directory).status == Exit.OK
    assert os.listdir(directory) == ["x.npy"]
    assert np.array_equal(np.load(directory / "x.npy"), RESULT)


def test_inputs_come_from_files(command: Command, kernel: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "in.npy", tmp_path / "out.npy"
    np.save(source, np.full(8, 3, np.float32))
    ran = command(
        "run", kernel, "--entry", "scale", "--grid", "2,1,1",
        "--arg", source, "--arg", "i32:8", "--arg", "f32:-1", "--out", f"arg0={target}",
    )  # fmt: skip
    assert (ran.status, ran.err) == (Exit.OK, "")
    assert np.load(target).tolist() == [-3.0] * 8
    assert np.load(source).tolist() == [3.0] * 8


def test_bytecode_has_numbered_parameters(command: Command, kernel: Path, tmp_path: Path) -> None:
    binary = tmp_path / "scale.tileirbc"
    assert command("as", kernel, "-o", binary).status == Exit.OK
    ran = command(
        "run", binary, "--grid", "2", "--arg", "arg1=8", "--arg", "arg0=iota:f32:8", "--arg", "2.5",
        "--expect", "arg0=" + save(tmp_path, RESULT),
    )  # fmt: skip
    assert (ran.status, ran.err) == (Exit.OK, "")


def save(directory: Path, array: np.ndarray) -> str:
    path = directory / "expected.npy"
    np.save(path, array)
    return str(path)


def test_values_are_printed(command: Command, kernel: Path) -> None:
    ran = command("run", kernel, *ARGUMENTS, "--print", "x")
    assert ran.status == Exit.OK
    assert ran.text == ("x: f32 8, min 0, max 17.5, mean 8.75\n[0 2.5 5 7.5 10 12.5 15 17.5]\n")


def test_expectation_met(command: Command, kernel: Path, tmp_path: Path) -> None:
    expected = save(tmp_path, RESULT)
    for tolerance in ([], ["--exact"], ["--ulp", "1"], ["--rtol", "1e-6", "--atol", "0"]):
        ran = command("run", kernel, *ARGUMENTS, "--expect", f"x={expected}", *tolerance)
        assert (ran.status, ran.err) == (Exit.OK, "")


def test_expectation_not_met(command: Command, kernel: Path, tmp_path: Path) -> None:
    wrong = RESULT.copy()
    wrong[[2, 5]] += 0.25
    ran = command("run", kernel, *ARGUMENTS, "--expect", f"x={save(tmp_path, wrong)}")
    assert ran.status == Exit.FINDINGS
    assert "error[unexpected-result]: 'x' differs from the expected array in 2 of 8" in ran.err
    assert "at [2]: expected 5.25, found 5.0" in ran.err
    assert "largest absolute error 0.25" in ran.err
    near = command(
        "run", kernel, *ARGUMENTS, "--expect", f"x={save(tmp_path, wrong)}", "--atol", "0.25"
    )
    assert near.status == Exit.OK


def test_reference_in_float64(command: Command, kernel: Path, tmp_path: Path) -> None:
    expected = save(tmp_path, RESULT.astype(np.float64) + 1e-9)
    arguments = ("run", kernel, *ARGUMENTS, "--expect", f"x={expected}")
    assert command(*arguments, "--rtol", "1e-6", "--atol", "1e-8").status == Exit.OK
    refused = command(*arguments)
    assert refused.status == Exit.USAGE
    assert "dtype float64" in refused.err


def test_json(command: Command, kernel: Path, tmp_path: Path) -> None:
    expected = save(tmp_path, np.zeros(8, np.float32))
    ran = command(
        "run", kernel, *ARGUMENTS, "--json", "--print", "x", "--expect", f"x={expected}",
        "--seed", "3",
    )  # fmt: skip
    assert ran.status == Exit.FINDINGS
    summary = json.loads(ran.out)
    assert (summary["entry"], summary["grid"], summary["seed"]) == ("scale", [2, 1, 1], 3)
    assert summary["seconds"] >= 0
    assert summary["printed"] == []
    assert summary["arrays"] == [
        {"name": "x", "element": "f32", "shape": [8], "values": RESULT.tolist()}
    ]
    (comparison,) = summary["expectations"]
    assert (comparison["ok"], comparison["differing"]) == (False, 7)
    assert comparison["max_abs_error"] == 17.5
    assert comparison["max_rel_error"] is None


def test_json_writes_nan_and_infinity_as_words(command: Command, kernel: Path) -> None:
    arguments = ["--grid", "1", "--arg", "full:f32:1:inf", "--arg", "1", "--arg", "0"]
    ran = command("run", kernel, *arguments, "--json", "--print", "x")
    assert json.loads(ran.out)["arrays"][0]["values"] == ["nan"]


PRINTING = (
    'entry @p(%n: tile<i32>) {\n  print_tko "n = %d\\0A", %n : tile<i32> -> token\n  return\n}\n'
)


def test_what_the_kernel_prints(command: Command) -> None:
    arguments = ("run", "-", "--grid", "2", "--arg", "7")
    assert command(*arguments, stdin=PRINTING.encode()).text == "n = 7\nn = 7\n"
    summary = json.loads(command(*arguments, "--json", stdin=PRINTING.encode()).out)
    assert "".join(summary["printed"]) == "n = 7\nn = 7\n"


def test_what_a_kernel_must_not_do(command: Command, kernel: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.npy"
    ran = command(
        "run", kernel, "--grid", "2", "--arg", "zeros:f32:4", "--arg", "8", "--arg", "1",
        "--out", f"x={target}",
    )  # fmt: skip
    assert ran.status == Exit.FINDINGS
    assert "error[invalid-address]" in ran.err
    assert f"{kernel}:" in ran.err
    assert not target.exists()


def test_array_groups(command: Command) -> None:
    text = (
        "entry @k(%p: tile<ptr<i32>>, %m: tile<i32>, %n: tile<i32>, %s: tile<i32>, %t: tile<i32>, "
        "%out: tile<ptr<i32>>) {\n"
        "  %h = constant <i32: 1000> : tile<i32>\n"
        "  %a = muli %m, %h : tile<i32>\n"
        "  %b = addi %a, %n : tile<i32>\n"
        "  %c = muli %b, %h : tile<i32>\n"
        "  %d = addi %c, %s : tile<i32>\n"
        "  %e = addi %d, %t : tile<i32>\n"
        "  %z = store_ptr_tko weak %out, %e : tile<ptr<i32>>, tile<i32> -> token\n"
        "  return\n"
        "}\n"
    )
    ran = command(
        "run", "-", "--arg", "array:zeros:i32:3x5", "--arg", "out=zeros:i32:1",
        "--expect", "out=full:i32:1:3005006", stdin=text.encode(),
    )  # fmt: skip
    assert (ran.status, ran.err) == (Exit.OK, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--entry", "other"], "expected a kernel 'other' in the module; kernels: scale"),
        (["--arg", "nonsense=1"], "no parameter 'nonsense'; parameters: x, n, by"),
        (["--print", "n"], "there is no array 'n'; arrays: x"),
        (["--out", "y=out.npy"], "there is no array 'y'"),
        (["--out", "x"], "expected NAME=VALUE"),
        (["--expect", "x=zeros:f32:9"], "has the shape 9, but the array of 'x: ptr<f32>' has 8"),
        (["--ulp", "1", "--atol", "1"], "are mutually exclusive"),
        (["--exact", "--rtol", "1"], "are mutually exclusive"),
        (["--out", "x=a.npy", "--out", "x=a.npy"], "two outputs"),
        (["--grid", "1,2,3,4"], "one to three numbers"),
        (["--grid", "a"], "one to three numbers"),
        (["--seed", "-1"], "at least 0"),
        (["--ulp", "nan"], "at least 0"),
    ],
)
def test_bad_usage(command: Command, kernel: Path, arguments: list[str], message: str) -> None:
    ran = command("run", kernel, *ARGUMENTS, *arguments)
    assert (ran.status, ran.out) == (Exit.USAGE, b"")
    assert message in ran.err


def test_grid_out_of_range(command: Command, kernel: Path) -> None:
    ran = command("run", kernel, *ARGUMENTS, "--grid", "0")
    assert ran.status == Exit.FINDINGS
    assert "bad-grid" in ran.err


def test_several_kernels_need_a_name(command: Command) -> None:
    text = b"entry @a() {\n  return\n}\nentry @b() {\n  return\n}\n"
    ran = command("run", "-", stdin=text)
    assert ran.status == Exit.USAGE
    assert "kernels: a, b" in ran.err
    assert command("run", "-", "--entry", "b", stdin=text).status == Exit.OK


def _shown_command(path: Path) -> list[str]:
    """The command that an example names in its second line, without the program."""
    line = path.read_text().splitlines()[1]
    return shlex.split(line.removeprefix("// $ tilewright "))


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.tileir")), ids=lambda path: path.stem)
def test_commands_shown_in_the_examples(
    command: Command, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(EXAMPLES.parent)
    ran = command(*_shown_command(path))
    assert (ran.status, ran.err) == (Exit.OK, "")
