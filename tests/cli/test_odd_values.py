"""Every option of every command with values that nobody means: an answer, and never an internal error.

Options are read from the parser, so that a new one is tried, too.
"""

from __future__ import annotations

import argparse
import random
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from tilewright.cli.exits import Exit
from tilewright.cli.main import build_parser

from .conftest import Command

ROUNDS, LONG_ROUNDS = 20, 170
KERNEL = """entry @add_one(%x: tile<ptr<f32>>, %n: tile<i32>) {
  %at = iota : tile<8xi32>
  %one = constant <f32: 1.0> : tile<8xf32>
  %x1 = reshape %x : tile<ptr<f32>> -> tile<1xptr<f32>>
  %xs = broadcast %x1 : tile<1xptr<f32>> -> tile<8xptr<f32>>
  %p = offset %xs, %at : tile<8xptr<f32>>, tile<8xi32> -> tile<8xptr<f32>>
  %v, %t = load_ptr_tko weak %p : tile<8xptr<f32>> -> tile<8xf32>, token
  %w = addf %v, %one : tile<8xf32>
  %s = store_ptr_tko weak %p, %w token = %t : tile<8xptr<f32>>, tile<8xf32> -> token
  return
}
"""
PLAIN = ("--grid", "1", "--arg", "x=zeros:f32:8", "--arg", "n=8")
#: Commands that do nothing lasting but to files that they are told; what each is given beside odd values.
COMMANDS: dict[str, tuple[str, ...]] = {
    "check": ("{kernel}",),
    "dis": ("{kernel}",),
    "as": ("{kernel}", "-o", "{folder}/as.out"),
    "opt": ("{kernel}",),
    "run": ("{kernel}", *PLAIN),
    "sanitize": ("{kernel}", *PLAIN),
    "compile": ("{kernel}", "-o", "{folder}/compile.out"),
    "profile": ("{kernel}", "--gpu", "h100", *PLAIN),
    "explain": ("{kernel}", "-o", "{folder}/explain.html"),
}
WORDS = (
    "", " ", "0", "1", "-1", "00", "1e9", "1e400", "-inf", "nan", "0x10", "1_000", "٣", "9" * 30, "-" + "9" * 30,
    "4294967296", "18446744073709551616", "1.5", "1,1,1", "0,0,0", ",", ",,", "1,", "1,1,1,1", "16777215,16777215,16777215",
    "x", "x=", "=x", "x=x", "n=", "x=1", "x=f32:", "x=f32:1:2:3", "x=zeros", "x=zeros:", "x=zeros:f32", "x=zeros:f32:",
    "x=zeros:f32:0", "x=zeros:f32:-1", "x=zeros:f32:1x", "x=zeros:f32:0x0x0", "x=zeros:tf32:8", "x=zeros:f4E2M1FN:7",
    "x=random:f32:99999999999999x99999999999999", "x=iota:i1:8", "x=full:f32:8:", "x=full:i8:8:300", "x=full:i32:8:1e99",
    "x=full:f8E8M0FNU:8:-1", "x=part:x", "x=part:y", "x=part:n:1:2", "x=part:x:9:1", "x=part:x:-1:1", "x=array:", "x=array:x",
    "x=array:array:zeros:f32:8", "x=array:part:x", "x={npy}", "x={npz}", "x={npz}:", "x={npz}:k", "x={npz}:nothing", "x={bad}",
    "x={bad_npy}", "x={folder}", "x={kernel}", "n=i1:2", "n=i8:300", "n=f32:1.5", "n=true", "n=nan", "n=1:2", "cpu", "cpu:", "sim",
    "sim:", "sim:sm_", "sim:sm_90a", "sim:sm_99999999999999999999", "sim:sm_90a:sm_90a", "cuda", "cuda:", "cuda:sm_90a", "sm_90a",
    "sm_1", "sm_", "reference", "reference:x", "host", "generic", "znver99", "a\nb", "a\tb", '"', "'", "%s", "%(x)s", "{", "{}", "{0}",
    "\N{RIGHT-TO-LEFT OVERRIDE}x", "\N{SNOWMAN}", "*/", "<script>", "all", "all,all", "list", "none", "text", "json", "json,text",
    "O3", "O9", "canonicalize", "canonicalize,", ",canonicalize", "canonicalize{", "canonicalize{}", "canonicalize{a=1}", "tileaa,tileas",
    "lower-cuda-tile-to-tileaa", "lower-cuda-tile-to-tileaa,tileaa,tileas", "tileas", "convert-tileas-to-nvgpu", "loop-split{threshold=}",
    "fuse-fma{a}{b}", "add_one", "@add_one", "add_one#0", "add_one#-1", "add_one#9", "#", "L0=1", "L0=", "=1", "L0=-1", "L9=1e99",
    "13.1", "13.5", "13.9", "13.", ".1", "-13.1", "256.256", "{folder}", "{folder}/nothing/x", "{kernel}/x", "{bad}", "{npy}", "{fifo}x",
    "/dev/null", "/dev/full", "/proc/self/mem", "/", ".", "..", "~", "~nosuchuser/x", "a" * 5000, "/" + "a" * 300, "approx=", "approx=full",
    "=", "a=b=c", "ftz=1,ftz=0", "rounding=nearest", "x=/dev/null", "x=/dev/full", "y={folder}/y.npy", "x={folder}", "x={folder}/a.npz",
    "h100", "H100", "os", "tilewright", "json.tool", "{kernel}.py", "500M", "-5M", "1e3K", "5X", "MM",
)  # fmt: skip


def _npy(header: bytes, data: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


#: Files that say they are arrays.
BROKEN_ARRAYS = (
    b"", b"\x93NUMPY", b"\x93NUMPY\x09\x09\xff\xff", _npy(b"{}"), _npy(b"[" * 3000), _npy(b"{'descr': '<f4'"),
    _npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (1 << 99,)}\n"),
    _npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}\n"),
    _npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-8,)}\n", bytes(32)),
    _npy(b"{'descr': '<f4', 'fortran_order': 7, 'shape': 8}\n", bytes(32)),
    _npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (True,)}\n", bytes(32)),
    _npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (8,)}\n", b"cos\nsystem\n(S'false'\ntR."),
    _npy(b"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (8,)}\n", bytes(32)),
    _npy(b"{'descr': '<U4', 'fortran_order': False, 'shape': (2,)}\n", bytes(32)),
    _npy(b"{'descr': '>f4', 'fortran_order': True, 'shape': (2, 4)}\n", bytes(32)),
    _npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (8,)}\n", bytes(31)),
    _npy(b"{'descr': '<M8[s]', 'fortran_order': False, 'shape': (4,)}\n", bytes(32)),
    _npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': " + b"(" * 200 + b"}\n"),
    b"PK\x03\x04" + bytes(40), b"PK\x05\x06" + bytes(18),
)  # fmt: skip


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Files that values may name; the process works in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernel.tileir").write_text(KERNEL)
    np.save(tmp_path / "a.npy", np.zeros(8, np.float32))
    np.savez(tmp_path / "a.npz", k=np.zeros(8, np.float32), o=np.array(["text"]))
    (tmp_path / "bad").write_bytes(bytes(range(256)))
    (tmp_path / "bad.npy").write_bytes(BROKEN_ARRAYS[6])
    (tmp_path / "folder").mkdir()
    return {
        "kernel": str(tmp_path / "kernel.tileir"),
        "npy": str(tmp_path / "a.npy"),
        "npz": str(tmp_path / "a.npz"),
        "bad": str(tmp_path / "bad"),
        "bad_npy": str(tmp_path / "bad.npy"),
        "folder": str(tmp_path / "folder"),
        "fifo": str(tmp_path / "fifo"),
    }


def _filled(text: str, places: dict[str, str]) -> str:
    for name, path in places.items():
        text = text.replace(f"{{{name}}}", path)
    return text


def _options(command: str) -> Iterator[argparse.Action]:
    parser = build_parser([command])
    (groups,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    for action in groups.choices[command]._actions:
        if action.option_strings and not isinstance(action, argparse._HelpAction):
            yield action


def _given(action: argparse.Action, rng: random.Random, values: Sequence[str]) -> list[str]:
    name = rng.choice(action.option_strings)
    if action.nargs == 0:
        return [name]
    value = rng.choice(values)
    if action.choices and rng.random() < 0.7:
        value = str(rng.choice(list(action.choices)))
    if value.startswith("-") and name.startswith("--"):
        return [f"{name}={value}"]
    return [name, value]


def fuzz(command: Command, name: str, places: dict[str, str], seed: str, rounds: int) -> None:
    rng, options = random.Random(seed), list(_options(name))
    values = [_filled(word, places) for word in WORDS]
    for _ in range(rounds):
        words = [_filled(word, places) for word in COMMANDS[name]]
        if rng.random() < 0.3:
            words = words[:1]
        if rng.random() < 0.1:
            words[0] = rng.choice(values)
        more: list[str] = []
        for action in rng.sample(options, rng.choice((1, 1, 2, 3))):
            more += _given(action, rng, values)
        given = [name, *words, *more]
        ran = command(*given, stdin=rng.choice((b"", KERNEL.encode(), b"\xff\x00")))
        assert ran.status in (Exit.OK, Exit.FINDINGS, Exit.USAGE), (given, ran.err)
        assert "Traceback" not in ran.err, (given, ran.err)


@pytest.mark.parametrize("name", COMMANDS)
def test_odd_values(command: Command, places: dict[str, str], name: str) -> None:
    fuzz(command, name, places, name, ROUNDS)


@pytest.mark.long
@pytest.mark.parametrize("name", COMMANDS)
def test_many_odd_values(command: Command, places: dict[str, str], name: str) -> None:
    fuzz(command, name, places, f"long {name}", LONG_ROUNDS)


#: Numbers that Python does not read, or reads as infinite, and digits that are no decimal ones.
ENDLESS = (
    "9" * 5000,
    "-" + "9" * 5000,
    "1e999999",
    "²",
    "n={0}",
    "x=zeros:f32:{0}",
    "x=full:f32:8:{0}",
    "x=part:x:0:{0}",
    "arg{0}=1",
)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_with_numbers_without_end(
    command: Command, places: dict[str, str], name: str
) -> None:
    given = [_filled(word, places) for word in COMMANDS[name]]
    for action in _options(name):
        if action.nargs == 0:
            continue
        few = ENDLESS if action.option_strings[-1] == "--arg" else ENDLESS[:4]
        for value in (word.format(ENDLESS[0]) for word in few):
            ran = command(name, *given, f"{action.option_strings[-1]}={value}")
            assert ran.status in (Exit.OK, Exit.FINDINGS, Exit.USAGE), (action, value[:20], ran.err)


@pytest.mark.parametrize("number", range(len(BROKEN_ARRAYS)))
def test_files_that_say_they_are_arrays(
    command: Command, places: dict[str, str], number: int
) -> None:
    path = Path(places["folder"]) / "broken.npy"
    path.write_bytes(BROKEN_ARRAYS[number])
    for spec in (str(path), f"{path}:k", f"array:{path}"):
        for machine in ("reference", "cpu"):
            ran = command(
                "run", places["kernel"], "--machine", machine, "--arg", f"x={spec}", "--arg", "n=8"
            )
            assert ran.status in (Exit.OK, Exit.FINDINGS, Exit.USAGE), ran.err
        ran = command("profile", places["kernel"], "--gpu", "h100", "--arg", f"x={spec}")
        assert ran.status in (Exit.OK, Exit.FINDINGS, Exit.USAGE), ran.err
