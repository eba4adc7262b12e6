"""The programs of examples/cutile run, without findings, and compute the same on every machine."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import zlib
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "cutile"
HAS_TORCH = find_spec("torch") is not None


def _needs_torch(path: Path) -> bool:
    return path.read_text(encoding="utf-8").splitlines()[1].endswith("# needs torch")


PROGRAMS = [p for p in sorted(EXAMPLES.glob("*.py")) if HAS_TORCH or not _needs_torch(p)]
NAMES = [path.stem for path in PROGRAMS]

#: Runs the main function of every example in one process.
_ALL = f"""
import importlib, sys
sys.path.insert(0, {str(EXAMPLES)!r})
for name in {NAMES!r}:
    importlib.import_module(name).main()
"""
#: The same on two machines, whose results must not differ by more than roundings make of them.
_BOTH = f"""
import importlib, sys
import numpy as np
from tilewright.cutile import on
sys.path.insert(0, {str(EXAMPLES)!r})
# Relative and absolute, by the type of the result and by the program.
TOLERANCES = {{"float32": (1.3e-6, 1e-5), "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5)}}
LOOSE = {{"matrix_product": (2e-3, 1e-4), "attention_backward": (1e-4, 1e-5), "fft": (1e-5, 5e-5)}}
for name in {NAMES!r}:
    main = importlib.import_module(name).main
    with on("reference"):
        one = main()
    with on("cpu"):
        other = main()
    assert one and len(one) == len(other)
    for a, b in zip(map(np.asarray, one), map(np.asarray, other)):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        rtol, atol = LOOSE.get(name) or TOLERANCES.get(a.dtype.name, (0, 0))
        np.testing.assert_allclose(a.astype("f8"), b.astype("f8"), rtol=rtol, atol=atol)
    print("same", name)
"""


def _run(*words: str | Path, directory: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "tilewright", "run", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        cwd=directory,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done


#: Programs that take seconds each on the simulator.
_SLOWLY_SIMULATED = {"attention", "attention_backward", "mandelbrot"}
_PICTURE = EXAMPLES / "mandelbrot.py"
#: One of each kind, as a user runs it; all of them run below, in fewer processes.
_ALONE = [p for p in PROGRAMS if p.stem in ("softmax", "numpy_softmax")]


#: For programs that do without torch, which cuTile imports wherever it is installed: most of the time of a short one.
lean = pytest.mark.usefixtures("lean_processes")


@pytest.mark.parametrize("path", _ALONE, ids=lambda path: path.stem)
def test_it_runs_and_says_so_in_one_line(path: Path, tmp_path: Path) -> None:
    (line,) = _run(path, directory=tmp_path).stdout.splitlines()
    assert line.endswith(": OK")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_what_needs_torch_says_so(path: Path) -> None:
    uses = "import torch" in path.read_text(encoding="utf-8") or path.stem == "attention_backward"
    assert uses == _needs_torch(path)


@pytest.mark.skipif(HAS_TORCH, reason="torch is installed")
def test_without_torch_that_is_what_is_missing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tilewright", "run", EXAMPLES / "rms_norm.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ModuleNotFoundError: No module named 'torch'")


@pytest.mark.rotates(2)
def test_the_sanitizer_has_nothing_to_say(tmp_path: Path) -> None:
    program = tmp_path / "all.py"
    program.write_text(_ALL)
    done = _run("--sanitize", "--seeds", "2", program, directory=tmp_path)
    assert done.stdout.count(": OK\n") == len(NAMES)


def test_reference_and_cpu_agree(tmp_path: Path) -> None:
    program = tmp_path / "both.py"
    program.write_text(_BOTH)
    done = _run(program, directory=tmp_path)
    # Each program says so in one line, on either machine.
    assert done.stdout.count(": OK\n") == 2 * len(NAMES)
    assert done.stdout.splitlines()[2::3] == [f"same {name}" for name in NAMES]
    assert len(done.stdout.splitlines()) == 3 * len(NAMES)


def _simulated(names: list[str], directory: Path) -> None:
    program = directory / "simulated.py"
    program.write_text(_ALL.replace(repr(NAMES), repr(names)))
    done = _run("--machine", "sim:sm_90a", program, directory=directory)
    assert done.stdout.count(": OK\n") == len(names)


@pytest.mark.rotates(2)
def test_programs_run_as_threads_of_a_simulated_gpu(tmp_path: Path) -> None:
    """Every third one: what is seen is that programs do, and tests/corpus has the operations. All with --long."""
    _simulated([name for name in NAMES if name not in _SLOWLY_SIMULATED][::3], tmp_path)


@pytest.mark.long
def test_all_programs_run_as_threads_of_a_simulated_gpu(tmp_path: Path) -> None:
    _simulated(NAMES, tmp_path)


@lean
def test_a_wrong_result_ends_a_program_with_a_failure(tmp_path: Path) -> None:
    source = (EXAMPLES / "vector_addition.py").read_text(encoding="utf-8")
    path = tmp_path / "wrong.py"
    path.write_text(source.replace("ct.load(b, (i,), (TILE,))", "ct.load(a, (i,), (TILE,))"))
    done = subprocess.run(
        [sys.executable, "-m", "tilewright", "run", path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "OK" not in done.stdout


def _decoded(data: bytes) -> list[bytes]:
    """The rows of a PNG of gray bytes without filters."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    chunks: dict[bytes, bytes] = {}
    at = 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        (checksum,) = struct.unpack_from(">I", data, at + 8 + length)
        assert zlib.crc32(kind + content) == checksum
        chunks[kind] = content
        at += 12 + length
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, *form = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert form == [8, 0, 0, 0, 0]
    raw = zlib.decompress(chunks[b"IDAT"])
    rows = [raw[row * (width + 1) : (row + 1) * (width + 1)] for row in range(height)]
    assert all(row[0] == 0 for row in rows)
    return [row[1:] for row in rows]


@lean
def test_the_picture_shows_the_mandelbrot_set(tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    done = _run(_PICTURE, picture, directory=tmp_path)
    assert done.stdout == "Mandelbrot: OK\n"
    assert not (tmp_path / "mandelbrot.png").exists()
    rows = _decoded(picture.read_bytes())
    assert (len(rows), len(rows[0])) == (64, 96)
    dark = 5
    # The real axis is row 32; column 64 is the number 0, column 32 the number -1.
    assert rows[32][64] == rows[32][32] == dark
    # The corners leave at the first step and at the second.
    assert (rows[0][0], rows[0][95]) == (250, 245)
    # Mirror images of each other: rows at the same distance from the real axis.
    assert all(rows[32 - k] == rows[32 + k] for k in range(1, 32))
    share = sum(row.count(dark) for row in rows) / (64 * 96)
    # The area of the set is 1.5066 of the 6 shown; points on its border count as inside.
    assert 1.5066 / 6 < share < 1.5066 / 6 + 0.05
