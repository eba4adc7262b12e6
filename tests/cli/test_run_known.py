"""``tilewright run --machine cpu`` of a file that was run before: the same, without reading the module."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tilewright
from tilewright.cli.exits import Exit

from .conftest import Command, Ran
from .test_run import ARGUMENTS, SCALE

TWO = SCALE + SCALE.replace("@scale", "@again").replace("%by", "%factor")
ODD = """
entry @odd(%x: tile<ptr<i32>>) {
  %zero = constant <i32: 0> : tile<i32>
  %v = make_tensor_view %x, shape = [4], strides = [1] : tensor_view<4xi32, strides=[1]>
  %t = make_partition_view %v : partition_view<tile=(4), tensor_view<4xi32, strides=[1]>>
  %one = constant <i32: 1> : tile<4xi32>
  %five = constant <i32: 5> : tile<i32>
  %u = store_view_tko weak %one, %t[%zero] : tile<4xi32>, partition_view<tile=(4), tensor_view<4xi32, strides=[1]>>, tile<i32> -> token
  %e = extract %one[%five] : tile<4xi32> -> tile<4xi32>
  return
}
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "cache"
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(directory))
    return directory


@pytest.fixture(params=["text", "bytecode"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "kernels"
    if request.param == "text":
        path.write_text(TWO)
    else:
        path.write_bytes(tilewright.write(tilewright.parse(TWO)))
    return path


#: Runs the command and tells on standard error whether xDSL was imported.
_SCRIPT = (
    "import sys; from tilewright.cli.main import main; status = main(sys.argv[1:]);"
    "print('xdsl' in sys.modules, file=sys.stderr); sys.exit(status)"
)


def _run(*arguments: object) -> tuple[Ran, bool]:
    command = [sys.executable, "-c", _SCRIPT, "run", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, check=False)
    *lines, imported = done.stderr.decode().splitlines()
    return Ran(done.returncode, done.stdout, "\n".join(lines)), imported == "True"


def test_the_second_run_imports_no_xdsl(file: Path) -> None:
    arguments = ("--grid", "2", "--arg", "iota:f32:8", "--arg", "8", "--arg", "2.5")
    options = (file, "--machine", "cpu", "--entry", "again", *arguments, "--print", "arg0")
    (first, read), (second, read_again) = _run(*options), _run(*options)
    assert (first.status, second.status) == (Exit.OK, Exit.OK), first.err
    assert first == second and b"17.5" in first.out
    assert (read, read_again) == (True, False)


@pytest.mark.parametrize(
    "wrong",
    [
        ("--entry", "scale", "--arg", "f32:8"),
        ("--entry", "scale", "--arg", "other=8"),
        ("--entry", "scale", "--arg", "zeros:f16:8", "--arg", "8", "--arg", "1.0"),
        ("--entry", "none"),
        (),
        (
            "--entry",
            "scale",
            "--arg",
            "zeros:f32:8",
            "--arg",
            "8",
            "--arg",
            "1.0",
            "--resident",
            "3",
        ),
        ("--entry", "scale", "--arg", "zeros:f32:8", "--arg", "8", "--arg", "1.0", "--print", "y"),
        ("--entry", "scale", "--arg", "part:x", "--arg", "8", "--arg", "1.0"),
    ],
)
def test_what_is_wrong_is_said_in_the_same_words(
    command: Command, file: Path, wrong: tuple[str, ...]
) -> None:
    options = ("run", file, "--machine", "cpu", *wrong)
    first = command(*options)
    right = ("--arg", "zeros:f32:8", "--arg", "8", "--arg", "1.0")
    assert command("run", file, "--machine", "cpu", "--entry", "scale", *right).status == Exit.OK
    second = command(*options)
    assert first.status != Exit.OK and first.err
    assert first == second


def test_parameters_are_named_as_in_the_text(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "scale.tileir"
    path.write_text(SCALE)
    runs = [command("run", path, "--machine", "cpu", *ARGUMENTS, "--print", "x") for _ in range(2)]
    assert runs[0].status == Exit.OK
    assert runs[0] == runs[1]


def test_warnings_are_shown_each_time(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "odd.tileir"
    path.write_text(ODD)
    runs = [
        command("run", path, "--machine", "cpu", "--arg", "zeros:i32:4", "--print", "x")
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    assert "warning" in runs[0].err


def test_a_module_beside_others_is_refused_each_time(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "both.tileir"
    path.write_text('cuda_tile.module @m { entry @k() { return } }\n"other.op"() : () -> ()\n')
    options = ("--machine", "cpu", "--no-implicit-module", "--allow-unregistered")
    runs = [command("run", path, *options).err for _ in range(2)]
    assert runs[0] == runs[1] and "not-one-module" in runs[0]


def test_options_of_reading_are_heeded(command: Command, tmp_path: Path, own_cache: Path) -> None:
    path = tmp_path / "bare.tileir"
    path.write_text("entry @k() { return }")
    assert command("run", path, "--machine", "cpu").status == Exit.OK
    assert os.listdir(own_cache)
    assert command("run", path, "--machine", "cpu", "--no-implicit-module").status != Exit.OK
