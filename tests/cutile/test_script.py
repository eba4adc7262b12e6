"""``tilewright run SCRIPT.py``, end to end."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.cli.conftest import Command

pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

PROGRAM = """
import sys
import numpy as np
import cuda.tile as ct
from cuda.tile import launch, tune

@ct.kernel(num_ctas=ct.ByTarget(sm_100=2, default=1), occupancy=2, opt_level=2)
def add(a, b, c, n: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(c, (i,), ct.load(a, (i,), (n,)) + ct.load(b, (i,), (n,)))

@ct.kernel
def clash(c):
    ct.store(c, (0,), ct.full((4,), ct.bid(0), c.dtype))

def main():
    a = np.arange(32, dtype=np.float32)
    c = np.zeros_like(a)
    launch(0, (8,), add, (a, a, c, 4))
    assert (c == 2 * a).all()
    if "clash" in sys.argv:
        ct.launch(0, (2,), clash, (c,))
    if "briefly" in sys.argv:
        return
    found = tune.exhaustive_search(
        [4, 8], 0, lambda n: (32 // n,), add, lambda n: (a, a, c, n), quiet=True)
    print(sys.argv[1:], __name__, sorted(m.config for m in found.successes))
    if "wrong" in sys.argv:
        helper()
    sys.exit(int(sys.argv[-1]) if sys.argv[-1].isdecimal() else None)

def helper():
    ct.launch(0, (2,), clash, ("text",))

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def run(*words: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tilewright", "run", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )


def test_an_unmodified_program_runs(command: Command, script: Path) -> None:
    done = run("--machine", "reference", script, "x", "--y", "5")
    assert done.stderr == ""
    assert done.stdout == "['x', '--y', '5'] __main__ [4, 8]\n"
    assert done.returncode == 5
    done = command("run", script)
    assert (done.status, done.err) == (0, "")


def test_the_sanitizer_finds_what_a_plain_run_does_not(command: Command, script: Path) -> None:
    words = (script, "clash", "briefly")
    assert command("run", *words).status == 0
    done = command("run", "--sanitize", "--seeds", "2", *words)
    assert done.status == 1
    assert "error[race]" in done.err
    line = (
        PROGRAM.splitlines().index("    ct.store(c, (0,), ct.full((4,), ct.bid(0), c.dtype))") + 1
    )
    assert f"{script}:{line}:5" in done.err


def test_tracebacks_have_the_frames_of_the_program_only(script: Path) -> None:
    done = run(script, "wrong")
    assert done.returncode == 1
    frames = [text.strip() for text in done.stderr.splitlines() if text.startswith("  File ")]
    assert [frame.rpartition(" ")[2] for frame in frames] == ["<module>", "main", "helper"]
    assert "tilewright" not in done.stderr.replace(str(script), "")
    assert done.stderr.rstrip().endswith(
        "TypeError: Invalid kernel argument #0: Objects of type 'str' are not supported."
    )


def test_a_trace(command: Command, script: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    assert command("run", "--trace", trace, script, "briefly").status == 0
    records = [json.loads(line) for line in trace.read_text().splitlines()]
    assert records[0]["grid"] == [8, 1, 1]
    assert any(f"{script}" in str(record.get("source")) for record in records)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--machine", "nothing"], "there is no machine 'nothing'"),
        (["--machine", "sim:sm_55"], "not an architecture of the simulator"),
        (["--seeds", "3"], "--seeds needs --sanitize"),
        (["--sanitize", "--trace", "t"], "cannot be combined"),
        (["--seed", "-1"], "expected a number of at least 0"),
        (["--unknown"], "unrecognized arguments"),
    ],
)
def test_bad_options(command: Command, script: Path, options: list[str], words: str) -> None:
    done = command("run", *options, script)
    assert done.status == 2
    assert words in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("words", [("run",), ("sanitize",), ("check",), ("tune", "--set", "N=1")])
def test_a_program_that_cannot_be_read(
    command: Command, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "folder.py").mkdir()
    for name, reason in (
        ("nowhere.py", "No such file or directory"),
        ("folder.py", "Is a directory"),
    ):
        path = tmp_path / name
        done = command(*words, path)
        assert done.status == 2
        assert f"error[unreadable-input]: cannot read '{path}': {reason}\n" in done.err


def test_syntax_errors_are_shown_as_python_shows_them(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("x = (\n")
    done = command("run", path)
    assert done.status == 1
    assert "SyntaxError" in done.err
    assert "tilewright" not in done.err


def test_modules_beside_the_script_are_found(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("from cuda.tile import launch\n")
    path = tmp_path / "main.py"
    path.write_text(
        "import cuda.tile, beside\nassert beside.launch is cuda.tile.launch\nprint(1)\n"
    )
    done = run(path, cwd=tmp_path.parent)
    assert (done.stdout, done.returncode) == ("1\n", 0), done.stderr


def test_files_of_tile_ir_run_as_before(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "k.tileir"
    path.write_text(
        textwrap.dedent("""\
            entry @hello() {
              %t = make_token : token
              %0 = print_tko "hello\\n" token = %t : token
              return
            }
        """)
    )
    done = command("run", path)
    assert "hello" in done.text, done.err


TORCH_PROGRAM = """
import torch
import cuda.tile as ct

@ct.kernel
def double(x, y):
    i = ct.bid(0)
    ct.store(y, (i,), ct.load(x, (i,), (8,)) * 2)

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x = torch.rand(32, device=device)
y = torch.empty_like(x)
ct.launch(torch.cuda.current_stream(), (4,), double, (x, y))
torch.cuda.synchronize()
torch.testing.assert_close(y, x * 2)
print(y.device, torch.cuda.get_device_name())
try:
    import cupy
except ImportError as error:
    print(error)
"""


@pytest.mark.usefixtures("torch")
def test_torch_programs_find_a_cuda_device(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(TORCH_PROGRAM)
    done = run(path)
    assert done.returncode == 0, done.stderr
    device, cupy = done.stdout.splitlines()
    assert device == "cuda:0 Tilewright (host)"
    assert "cupy" in cupy
    assert "GPU" in cupy
    without = run("--no-torch-cuda", path)
    assert without.returncode == 1
    assert "AssertionError: Torch not compiled with CUDA enabled" in without.stderr or (
        "RuntimeError" in without.stderr
    )


PARALLEL = """
import multiprocessing
import os
import numpy as np
import cuda.tile as ct

@ct.kernel
def double(x, n: ct.Constant[int]):
    ct.store(x, (0,), ct.load(x, (0,), (n,)) * 2)

def job(number):
    x = np.full(4, number, np.float32)
    ct.launch(0, (1,), double, (x, 4))
    return float(x[0])

if __name__ == "__main__":
    for method in multiprocessing.get_all_start_methods():
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(pool.map(job, [1, 2]))
"""


@pytest.mark.parametrize("machine", ["reference", "cpu"])
@pytest.mark.rotates(2)
def test_processes_that_the_program_starts_launch_here_too(tmp_path: Path, machine: str) -> None:
    path = tmp_path / "parallel.py"
    path.write_text(PARALLEL)
    done = run("--machine", machine, path)
    assert done.stderr == ""
    assert set(done.stdout.splitlines()) == {"[2.0, 4.0]"}
    assert len(done.stdout.splitlines()) == len(multiprocessing.get_all_start_methods())


DEVICES = """
import multiprocessing
import os
import torch

def job(number):
    x = torch.full((2,), number, device="cuda")
    return x.is_cuda, torch.cuda.is_available(), x.sum().item()

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(job, [1]))
"""


@pytest.mark.usefixtures("torch")
@pytest.mark.rotates(2)
def test_spawned_processes_have_the_device_cuda(tmp_path: Path) -> None:
    path = tmp_path / "devices.py"
    path.write_text(DEVICES)
    done = run(path)
    assert (done.stdout, done.stderr) == ("[(True, True, 2)]\n", "")


ENDING = """
import atexit, os, threading, time
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import cuda.tile as ct

@ct.kernel
def double(x):
    ct.store(x, 0, ct.load(x, 0, (8,)) * 2)

def work(name, seconds=0):
    time.sleep(seconds)
    x = np.ones(8, np.float32)
    ct.launch(0, (1,), double, (x,))
    # One piece: two threads may end at once.
    print(f"{name} {x.sum()}\\n", end="", flush=True)

class Held:
    def __del__(self):
        print("destroyed", flush=True)

held = Held()
held.itself = held
atexit.register(work, "at exit")
threading.Thread(target=work, args=("thread", 0.5)).start()
pool = ThreadPoolExecutor(1)
pool.submit(work, "pool", 0.5)
"""


def test_what_a_program_does_when_it_ends(tmp_path: Path) -> None:
    """As Python does it: threads are waited for, then functions are called, then objects destroyed."""
    path = tmp_path / "ending.py"
    path.write_text(ENDING)
    done = run("--machine", "cpu", path)
    assert (done.returncode, done.stderr) == (0, "")
    *waited_for, called, destroyed = done.stdout.splitlines()
    assert sorted(waited_for) == ["pool 16.0", "thread 16.0"]
    assert (called, destroyed) == ("at exit 16.0", "destroyed")


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")
@pytest.mark.parametrize(
    ("options", "status", "told"),
    [
        (["--trace", "-"], 141, ""),
        (["--break", "closed.py:6"], 141, ""),
        ([], 141, ""),
        (["--seed", "1"], 1, "BrokenPipeError: [Errno 32] Broken pipe"),
    ],
)
def test_nobody_reads_the_output(
    tmp_path: Path, options: list[str], status: int, told: str
) -> None:
    """The program ends silently, but not for a pipe of its own."""
    path = tmp_path / "closed.py"
    path.write_text(
        textwrap.dedent("""
        import os, sys
        import numpy as np
        import cuda.tile as ct
        @ct.kernel
        def double(x): ct.store(x, 0, ct.load(x, 0, (8,)) * 2)
        ct.launch(0, (1,), double, (np.ones(8, np.float32),))
        if sys.argv[1:]:
            reader, writer = os.pipe()
            os.close(reader)
            os.write(writer, b"x")
        print("x", flush=True)
        """)
    )
    reader, writer = os.pipe()
    if not told:
        os.close(reader)
    own = [sys.executable, "-m", "tilewright", "run", *options, str(path)]
    done = subprocess.run(
        own + (["own"] if told else []), stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    if told:
        os.close(reader)
    last = done.stderr.strip().splitlines()[-1:]
    assert (done.returncode, last) == (status, [told] if told else [])
