"""All that wants a GPU, in one command: ``python -m benchmarks.gpu --all [--out DIR] [--minutes 8]``.

In this order: what the machine is; machine code of ours and of ``tileiras``, from the same bytecode; the tests
that need a GPU; each kernel of ``gpu_cases``, first whether it is right (fresh inputs, poisoned outputs, a
float64 reference), then its time beside ``tileiras``, torch (cuBLAS, SDPA) and Triton where these are
installed; small kernels that measure the constants of the performance model. It needs no network, goes on
after a failure, and writes ``gpu.json``, ``gpu.md`` and ``constants_GPU.json`` into ``benchmarks/results`` or
DIR, as it goes. ``--prepare`` only makes machine code, which needs no GPU (``--target sm_90a``); ``--all`` takes what is there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatch
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.gpu_cases import Case, cases
from benchmarks.gpu_compilers import Compiled, in_process, ours, tileiras
from benchmarks.gpu_measured import constants_file, report
from benchmarks.gpu_micro import MICROS
from benchmarks.gpu_worker import ask_gpu
from benchmarks.report import RESULTS, machine
from tilewright.bytecode import read
from tilewright.campaign.jobs import fingerprint
from tilewright.diagnostics import TileIRError
from tilewright.text import print_text

ROOT = Path(__file__).resolve().parent.parent
CODES = ROOT / "benchmarks" / ".cache" / "gpu"
#: Seconds without a new line after which the worker counts as stuck, and those for the tests of the GPU.
STUCK, TESTS = 60.0, 100.0
#: Processes that run them, where pytest can have several.
TEST_PROCESSES = 4
#: The tests that launch on a GPU.
GPU_TESTS = ("tests/gpu/test_launch.py", "tests/gpu/test_tiles.py")
_COMPILERS: dict[str, Callable[..., Compiled]] = {"ours": ours, "tileiras": tileiras}
Row = dict[str, Any]


@dataclass(slots=True)
class Run:
    """A run: what was found so far, where it goes, and when it has to end."""

    out: Path
    target: str
    deadline: float
    seed: int
    data: Row = field(default_factory=dict[str, Any])

    def left(self) -> float:
        return self.deadline - time.monotonic()

    def save(self) -> None:
        """Write all that was found; a run that is ended keeps it."""
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / "gpu.json").write_text(json.dumps(self.data, indent=1) + "\n", encoding="utf-8")
        (self.out / "gpu.md").write_text(report(self.data), encoding="utf-8")
        for name, text in constants_file(self.data).items():
            (self.out / name).write_text(text, encoding="utf-8")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def facts() -> Row:
    """What is measured, and on what."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    try:
        commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        commit = ""
    names = (
        "tilewright",
        "torch",
        "triton",
        "nvidia-cuda-tileiras",
        "nvidia-cuda-nvcc",
        "llvmlite",
    )
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit,
        "machine": machine(),
        "gpu": ask_gpu("name"),
        "driver": ask_gpu("driver_version"),
        "clocks": clocks(),
        "versions": {name: found for name in names if (found := _version(name))},
    }


def clocks() -> Row:
    """The clocks, power and temperature of the GPU at this moment."""
    asked = ("clocks.sm", "clocks.mem", "clocks.max.sm", "power.draw", "temperature.gpu")
    return {name: found for name in asked if (found := ask_gpu(name))}


def target_of_gpu() -> str:
    """The architecture of the GPU that there is; a TileIRError where there is none. In a process of its own,
    so that this one may still be copied by ``fork``."""

    def asked() -> str:
        from tilewright.gpu.driver import open_gpu

        try:
            return open_gpu().best_architecture().name
        except TileIRError as error:
            return f"!{error.diagnostics[0].message}"

    found = in_process(asked, 60, patience=1)
    if found.startswith("!"):
        raise SystemExit(f"benchmarks.gpu: {found[1:]}")
    return found


# Machine code


def prepare(
    chosen: Sequence[Case], target: str, folder: Path, workers: int, seconds: float = 600.0
) -> Row:
    """Machine code of both compilers for each kernel, in files; gives what ``codes.json`` has.

    What an earlier call has made of the same bytecode, by the same sources or version, is taken as it is; so
    ``--prepare`` on a machine that has the compilers serves one with a GPU that has none.
    """
    folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    known = _prepared(folder)
    codes: Row = {case.name: {} for case in chosen}
    # cuTile's front end is not made for threads.
    bytecodes = {case.name: case.bytecode() for case in chosen}

    def make(job: tuple[Case, str]) -> None:
        case, compiler = job
        held = known.get(case.name, {}).get(compiler, {})
        maker = _maker(compiler) or held.get("maker", "")
        source = _source(bytecodes[case.name], target)
        if (held.get("maker"), held.get("source")) == (maker, source):
            codes[case.name][compiler] = held
        elif time.monotonic() - started > seconds:
            codes[case.name][compiler] = {"failure": "out of time"}
        else:
            made = _COMPILERS[compiler](bytecodes[case.name], target)
            file = f"{_file_name(case.name)}.{compiler}.cubin"
            codes[case.name][compiler] = _kept(made, folder, file, maker=maker, source=source)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(make, [(case, compiler) for compiler in _COMPILERS for case in chosen]))
    text = json.dumps(known | codes, indent=1)
    (folder / "codes.json").write_text(text, encoding="utf-8")
    return codes


def _prepared(folder: Path) -> Row:
    """What ``codes.json`` of an earlier call has, of files that are there."""
    try:
        found = json.loads((folder / "codes.json").read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError):
        return {}
    return {
        name: {c: held for c, held in made.items() if (folder / held.get("file", "-")).is_file()}
        for name, made in found.items()
    }


def _source(bytecode: bytes, target: str) -> str:
    """A hash of a kernel and the architecture; paths of source files do not count."""
    text = f"{target}\n{print_text(read(bytecode))}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _maker(compiler: str) -> str:
    """The version of a compiler; empty where it is not installed, so that code of any version will do."""
    return fingerprint() if compiler == "ours" else _version("nvidia-cuda-tileiras")


def _kept(made: Compiled, folder: Path, file: str, **made_of: str) -> Row:
    """Machine code in a file, what a launch has to know of it, and what it was made of."""
    if made.failure:
        return {"failure": made.failure}
    (folder / file).write_bytes(made.cubin)
    held: Row = {"file": file, "shared": made.dynamic_shared_bytes, "scratch": made.scratch_bytes}
    held |= made_of | {"seconds": made.seconds, "maps": [plan.as_record() for plan in made.maps]}
    return held | ({"ptx": made.ptx} if made.ptx else {})


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name)


# Jobs on the GPU


def measure(run: Run, jobs: Sequence[str], folder: Path, command: Sequence[str]) -> list[Row]:
    """The rows of jobs, by workers: a job that ends one, or makes it stick, fails, and the next one goes on."""
    rows: list[Row] = []
    pending = list(jobs)
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "rows.jsonl")
        while pending and run.left() > 0:
            file.write_text("")
            arguments = [str(folder), run.target, str(run.seed), str(file), *pending]
            process = subprocess.Popen([*command, *arguments], cwd=ROOT)
            why = _watch(process, file, run)
            found, begun = _read(file)
            rows += found
            run.data["rows"] = [*run.data.get("rows", []), *found]
            done = {row["job"] for row in found}
            pending = [job for job in pending if job not in done]
            if why and pending:
                # The job that was under way, or, of a worker that never began one, the first.
                failed = begun if begun in pending else pending[0]
                rows.append({"job": failed, "failure": why})
                run.data["rows"].append(rows[-1])
                pending.remove(failed)
            run.save()
    late = [{"job": job, "failure": "not run: out of time"} for job in pending]
    run.data["rows"] = [*run.data.get("rows", []), *late]
    run.save()
    return [*rows, *late]


def _watch(process: subprocess.Popen[bytes], file: Path, run: Run) -> str:
    """Wait for a worker; why it did not end well, or ""."""
    size, since = 0, time.monotonic()
    while process.poll() is None:
        now = file.stat().st_size
        if now != size:
            size, since = now, time.monotonic()
        stuck = time.monotonic() - since > STUCK
        if stuck or run.left() <= 0:
            process.kill()
            process.wait()
            return f"no end within {STUCK:g} s" if stuck else "not run: out of time"
        time.sleep(0.1)
    return "" if process.returncode == 0 else f"the process ended with {process.returncode}"


def _read(file: Path) -> tuple[list[Row], str]:
    """The rows that a worker wrote, and the last job that it began."""
    rows: list[Row] = []
    begun = ""
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            held = json.loads(line)
        except json.JSONDecodeError:  # it was ended while it wrote
            continue
        if "row" in held:
            rows.append({"job": held["job"], **held["row"]})
        begun = held["job"]
    return rows, begun


def gpu_tests(run: Run) -> Row:
    """How the tests end that launch on a GPU; of those that have no time to end, how far they came."""
    limit = min(TESTS, max(run.left(), 1))
    command = [sys.executable, "-m", "pytest", "-vv", "-rf", "-p", "no:cacheprovider", *GPU_TESTS]
    if find_spec("xdist") is not None:
        command += ["-n", str(min(TEST_PROCESSES, os.cpu_count() or 1))]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        try:
            # Unbuffered, so that what it has said is there when it has to be ended.
            env = {**os.environ, "PYTHONUNBUFFERED": "1"}
            process = subprocess.Popen(
                command, cwd=ROOT, env=env, stdout=said, stderr=subprocess.STDOUT
            )
        except OSError as error:
            return {"failure": str(error)}
        try:
            process.wait(limit)
            late = ""
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            late = f"no end within {limit:g} s"
        said.seek(0)
        lines = said.read().strip().splitlines()
    failed = [line for line in lines if re.search(r"\bFAILED\b" if late else "^FAILED ", line)]
    if late:
        passed = sum(bool(re.search(r"\bPASSED\b", line)) for line in lines)
        late = f"{late}: {passed} passed, {len(failed)} failed until then"
    return {"summary": late or (lines[-1] if lines else ""), "failed": failed}


def chosen_cases(patterns: Sequence[str]) -> list[Case]:
    """The kernels whose names have one of the patterns in them; all where there is none."""
    return [
        case
        for case in cases()
        if not patterns or any(fnmatch(case.name, f"*{pattern}*") for pattern in patterns)
    ]


def run_all(options: argparse.Namespace, worker: Sequence[str]) -> Run:
    """Everything, one after the other."""
    deadline = time.monotonic() + 60 * options.minutes
    target = options.target or target_of_gpu()
    seed = random.SystemRandom().randrange(1 << 31) if options.seed is None else options.seed
    run = Run(options.out, target, deadline, seed, facts() | {"target": target, "seed": seed})
    run.save()
    chosen = chosen_cases(options.kernels)
    folder = CODES / target
    codes = prepare(chosen, target, folder, options.workers, run.left() / 2)
    run.data["codes"] = codes
    run.data["tests"] = gpu_tests(run) if options.tests else {"summary": "not asked for"}
    run.save()
    jobs = [f"constant:{micro.constant}" for micro in MICROS] if options.constants else []
    # The products first: they matter most where time is short.
    order = {"products": 0, "attention": 1, "memory": 2}
    jobs = [f"kernel:{c.name}" for c in sorted(chosen, key=lambda c: order[c.group])] + jobs
    measure(run, jobs, folder, worker)
    run.data["clocks after"] = clocks()
    run.save()
    return run


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="benchmarks.gpu", description=__doc__)
    what = made.add_mutually_exclusive_group(required=True)
    what.add_argument("--all", action="store_true", help="measure everything")
    what.add_argument(
        "--prepare", action="store_true", help="only make machine code; no GPU needed"
    )
    made.add_argument("--out", type=Path, default=RESULTS, help="where results go")
    made.add_argument("--minutes", type=float, default=7.5, help="when it ends (7.5)")
    made.add_argument("--target", default="", help="the architecture; by default that of the GPU")
    made.add_argument("--kernels", nargs="*", default=[], metavar="PATTERN", help="parts of names")
    made.add_argument("--seed", type=int, default=None, help="of the inputs; by default a new one")
    made.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="compilers at once")
    made.add_argument("--no-tests", dest="tests", action="store_false", help="leave out the tests")
    made.add_argument(
        "--no-constants", dest="constants", action="store_false", help="leave out the constants"
    )
    return made


def main(argv: Sequence[str] | None = None) -> int:
    options = parser().parse_args(argv)
    if options.prepare:
        target = options.target or "sm_90a"
        codes = prepare(chosen_cases(options.kernels), target, CODES / target, options.workers)
        made = sum("file" in held for each in codes.values() for held in each.values())
        print(f"{made} kernels in {CODES / target}")
        return 0
    run = run_all(options, [sys.executable, "-m", "benchmarks.gpu_worker"])
    print(report(run.data))
    wrong = [row for row in run.data["rows"] if not row.get("right", {}).get("ours", True)]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
