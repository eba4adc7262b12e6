"""Launches from the command line: what is refused, the arithmetic, progress, and interruption."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import Command

from tilewright.cli.exits import Exit

pty = pytest.importorskip("pty", reason="there are no pseudo-terminals here")

DIVIDE = """entry @divide(%out: tile<ptr<f32>>, %n: tile<i32>) {
  %five = constant <f32: 5.0> : tile<f32>
  %three = constant <f32: 3.0> : tile<f32>
  %q = divf %five, %three rounding<approx> : tile<f32>
  %t = store_ptr_tko weak %out, %q : tile<ptr<f32>>, tile<f32> -> token
  return
}
"""
#: Every tile block counts itself, then turns in a loop for a while.
SLOW = """entry @slow(%out: tile<ptr<i32>>, %turns: tile<i32>) {
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %old, %t = atomic_rmw_tko relaxed device %out, add, %one
    : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
  for %i in (%zero to %turns, step %one) : tile<i32> { %j = addi %i, %one : tile<i32> }
  return
}
"""
commands = pytest.mark.parametrize("name", ["run", "sanitize"])


@pytest.fixture
def divide(tmp_path: Path) -> Path:
    path = tmp_path / "divide.tileir"
    path.write_text(DIVIDE)
    return path


@commands
@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--arg", "zeros:f32:4"], Exit.USAGE, "no argument for parameter 'n: i32'"),
        (["--arg", "zeros:f32:4", "--arg", "1", "--arg", "2"], Exit.USAGE, "too many arguments"),
        (["--arg", "zeros:f64:4", "--arg", "1"], Exit.USAGE, "does not fit parameter"),
        (["--arg", "array:zeros:f32:2x2", "--arg", "1"], Exit.USAGE, "needs 4 integer parameters"),
        (["--arg", "zeros:f32:0", "--arg", "1"], Exit.FINDINGS, "argument 0 has no elements"),
        (["--arg", "zeros:f32:nan", "--arg", "1"], Exit.USAGE, "expected extents"),
        (["--arg", "zeros:f32:4", "--arg", "nan"], Exit.USAGE, "is not an integer"),
        (["--arg", "zeros:f32:4", "--arg", "1e99"], Exit.USAGE, "is not an integer"),
        (["--arg", "zeros:f32:4", "--arg", "4294967296"], Exit.FINDINGS, "outside -2147483648"),
        (["--grid", "0", "--arg", "zeros:f32:4", "--arg", "1"], Exit.FINDINGS, "bad-grid"),
        (["--grid", "1,16777216", "--arg", "zeros:f32:4", "--arg", "1"], Exit.FINDINGS, "bad-grid"),
        (["--grid", "nan"], Exit.USAGE, "one to three numbers"),
        (["--entry", "paste"], Exit.USAGE, "expected a kernel 'paste'"),
        (
            ["--max-iterations", "0", "--arg", "ones:f32:1", "--arg", "1"],
            Exit.FINDINGS,
            "at least 1",
        ),
        (["--arithmetic", "speed=high"], Exit.USAGE, "there is no option 'speed'"),
        (["--arithmetic", "reductions=fast"], Exit.USAGE, "ascending, tree, not 'fast'"),
    ],
)
def test_bad_launches(
    command: Command, divide: Path, name: str, arguments: list[str], status: Exit, message: str
) -> None:
    target = divide.parent / "saved"
    ran = command(name, divide, *arguments, "--out-dir", target)
    assert (ran.status, ran.out) == (status, b"")
    assert message in ran.err
    assert not target.exists()


def test_a_file_that_is_named_twice_gives_two_arrays(command: Command, tmp_path: Path) -> None:
    source, kernel = tmp_path / "x.npy", tmp_path / "copy.tileir"
    np.save(source, np.arange(4, dtype=np.float32))
    kernel.write_text(
        "entry @copy(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>) {\n"
        "%two = constant <f32: 2.0> : tile<f32>\n"
        "%s = store_ptr_tko weak %y, %two : tile<ptr<f32>>, tile<f32> -> token\n"
        "return\n}\n"
    )
    ran = command("run", kernel, "--arg", source, "--arg", source, "--out-dir", tmp_path / "out")
    assert (ran.status, ran.err) == (Exit.OK, "")
    assert np.load(tmp_path / "out" / "x.npy")[0] == 0
    assert np.load(tmp_path / "out" / "y.npy")[0] == 2


@commands
def test_the_arithmetic_is_said_unless_it_is_the_reference(
    command: Command, divide: Path, name: str
) -> None:
    arguments = (name, divide, "--arg", "zeros:f32:1", "--arg", "1")
    exact, hardware = 13981013 * 2.0**-23, 13981014 * 2.0**-23
    plain = command(*arguments, "--expect", f"out=full:f32:1:{exact!r}")
    assert plain.status == Exit.OK
    assert "arithmetic" not in plain.err
    other = command(
        *arguments, "--arithmetic", "approximations=hardware,reductions=tree",
        "--expect", f"out=full:f32:1:{hardware!r}",
    )  # fmt: skip
    assert other.status == Exit.OK
    assert other.err.splitlines()[0] == "arithmetic: reductions=tree,approximations=hardware"


def test_json_has_the_arithmetic(command: Command, divide: Path) -> None:
    arguments = ("run", divide, "--json", "--arg", "zeros:f32:1", "--arg", "1")
    assert json.loads(command(*arguments).out)["arithmetic"] == "reference"
    ran = command(*arguments, "--arithmetic", "accumulation=blocks:8")
    assert json.loads(ran.out)["arithmetic"] == "accumulation=blocks:8"


def _slow(name: str, path: Path, blocks: int, turns: int) -> list[str]:
    path.write_text(SLOW)
    arguments = ["--grid", str(blocks), "--arg", "zeros:i32:1", "--arg", str(turns)]
    return [sys.executable, "-m", "tilewright", name, str(path), *arguments]


@dataclass(frozen=True, slots=True)
class OnTerminal:
    """How a command ended whose standard error is a terminal: what came there, and standard output.

    ``seconds`` is the time from the interruption, if there was one, to the end.
    """

    status: int
    seen: str
    out: bytes
    seconds: float


def on_a_terminal(command: list[str], interrupt_at: str = "") -> OnTerminal:
    """Run a command, and interrupt it when that text appears on its terminal."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "NO_COLOR": "1"}
    seen, sent = b"", 0.0
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        while part := _read(ours):
            seen += part
            if interrupt_at and not sent and interrupt_at.encode() in seen:
                process.send_signal(signal.SIGINT)
                sent = time.monotonic()
        assert process.stdout is not None
        out = process.stdout.read()
        status = process.wait(timeout=60)
    seconds = time.monotonic() - sent
    os.close(ours)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())
    return OnTerminal(status, text, out, seconds)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # how Linux tells that the other side is closed
        return b""


@pytest.mark.parametrize(
    ("name", "verb", "total"), [("run", "running slow", 40), ("sanitize", "checking slow", 160)]
)
def test_progress_is_shown_on_a_terminal_only(
    tmp_path: Path, name: str, verb: str, total: int
) -> None:
    command = _slow(name, tmp_path / "slow.tileir", blocks=40, turns=8_000 // (total // 40))
    ran = on_a_terminal(command)
    counts = {int(done) for done in re.findall(rf"(\d+)/{total}\b", ran.seen)}
    assert ran.status == Exit.OK
    assert verb in ran.seen
    assert len(counts) > 1 and max(counts) <= total
    assert re.search(r"\d:\d\d:\d\d left", ran.seen)
    piped = subprocess.run(command, capture_output=True, check=True, timeout=60)
    assert verb not in piped.stderr.decode()


@pytest.mark.parametrize("name", ["run", "sanitize"])
def test_interruption_ends_a_run_at_once_and_saves_nothing(tmp_path: Path, name: str) -> None:
    target = tmp_path / "out"
    command = _slow(name, tmp_path / "slow.tileir", blocks=1000, turns=1_000_000)
    ran = on_a_terminal([*command, "--out-dir", str(target)], interrupt_at="slow")
    assert ran.status == Exit.INTERRUPTED
    assert ran.seconds < 1
    assert ran.out == b""
    told = ran.seen.rstrip().rpartition("tilewright: ")[2]
    assert re.fullmatch(r"interrupted(; tile block .* was in the loop at .*slow\.tileir:6)?", told)
    assert not target.exists()


INTERRUPTED = """
import sys, threading, time, os, signal
import numpy as np
import tilewright
from tilewright.machine import Program

module = tilewright.parse(open(sys.argv[1]).read())
out = np.zeros(1, np.int32)
program = Program(module)

def interrupt():
    while out[0] < 3:
        time.sleep(0.01)
    global sent
    sent = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt).start()
try:
    if sys.argv[2] == "sanitize":
        tilewright.sanitize(module, None, (1000,), (out, 20_000), seeds=1)
    else:
        program.launch(None, (1000,), (out, 20_000))
except KeyboardInterrupt:
    print(time.monotonic() - sent < 1, 3 <= out[0] < 1000)
before = int(out[0])
program.launch(None, (2,), (out, 1))
print(int(out[0]) - before)
"""


@commands
def test_an_interrupted_launch_leaves_arrays_and_program_usable(tmp_path: Path, name: str) -> None:
    kernel = tmp_path / "slow.tileir"
    kernel.write_text(SLOW)
    ran = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(kernel), name],
        capture_output=True,
        timeout=120,
        check=True,
    )
    assert ran.stdout.decode() == "True True\n2\n"
