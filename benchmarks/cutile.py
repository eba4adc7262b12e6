"""cuTile programs: what a launch costs beside its kernel, and the first launch of a program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import cuda.tile as ct
import numpy as np
import torch

from benchmarks.peers.client import PYTHON, ROOT
from benchmarks.report import Table
from benchmarks.timing import Sample, interleaved_reports
from tilewright.cutile import on
from tilewright.launching.disk_cache import DIRECTORY_VARIABLE

_LENGTH = 16
_LAUNCHES = 500
_PAUSE = 0.1
_MACHINES = ("reference", "cpu")
_SUM, _EMPTY = "sum of four arrays of 16 numbers", "empty kernel"
_PEERS = {"triton": "Triton's interpreter", "torch": "three operators of torch"}


@ct.kernel
def add_four(a, b, c, d, out, n: ct.Constant[int]):
    i = ct.bid(0)
    total = ct.load(a, (i,), (n,)) + ct.load(b, (i,), (n,)) + ct.load(c, (i,), (n,))
    ct.store(out, (i,), total + ct.load(d, (i,), (n,)))


@ct.kernel
def nothing(a, b, c, d, out, n: ct.Constant[int]):
    pass


_KERNELS = {_SUM: add_four, _EMPTY: nothing}
_ARRAYS: dict[str, Callable[[], Any]] = {
    "NumPy": lambda: np.ones(_LENGTH, np.float32),
    "torch": lambda: torch.ones(_LENGTH),
}


def _repeated(job: Callable[[], object]) -> Callable[[], float]:
    """The seconds that one of many takes."""

    def measure() -> float:
        started = time.perf_counter()
        for _ in range(_LAUNCHES):
            job()
        return (time.perf_counter() - started) / _LAUNCHES

    return measure


def _ours(machine: str, arrays: str, kernel: Any) -> Callable[[], float]:
    arguments = (*(_ARRAYS[arrays]() for _ in range(5)), _LENGTH)

    def measure() -> float:
        with on(machine):
            return _repeated(lambda: ct.launch(0, (1,), kernel, arguments))()

    measure()
    assert kernel is nothing or np.asarray(arguments[4])[0] == 4
    return measure


def _ask(process: subprocess.Popen[str], question: str = "") -> dict[str, Any]:
    assert process.stdin is not None and process.stdout is not None
    if question:
        process.stdin.write(f"{question}\n")
        process.stdin.flush()
    return json.loads(process.stdout.readline())


@contextmanager
def _peers() -> Iterator[dict[str, Callable[[], float]]]:
    """The peers that are installed, and a measurement of each."""
    command = [PYTHON, "-m", "benchmarks.peers.small_launches"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        versions = _ask(process).get("versions", {})
        yield {
            f"{_PEERS[name]}, {version}": lambda name=name: (
                _ask(process, f"{name} {_LAUNCHES}")["seconds"] / _LAUNCHES
            )
            for name, version in versions.items()
        }


def launches(runs: int) -> Table:
    """Warm launches on five arrays, beside peers that compute the same."""
    jobs: dict[tuple[str, str], Callable[[], float]] = {}
    for kernel, function in _KERNELS.items():
        for machine in _MACHINES:
            for arrays in _ARRAYS:
                title = f"Tilewright, {machine}, {arrays} arrays"
                jobs[title, kernel] = _ours(machine, arrays, function)
    with _peers() as peers:
        jobs |= {(title, _SUM): measure for title, measure in peers.items()}
        named = {f"{title}|{kernel}": job for (title, kernel), job in jobs.items()}
        samples = interleaved_reports(named, runs, pause=_PAUSE)
    titles = list(dict.fromkeys(title for title, _ in jobs))
    rows = [
        (title, *(_microseconds(samples.get(f"{title}|{kernel}")) for kernel in _KERNELS))
        for title in titles
    ]
    head = ("launch", *_KERNELS)
    return Table("launches", "a warm launch with five arrays", head, rows)


def _microseconds(sample: Sample | None) -> str:
    if sample is None:
        return "-"
    return f"{sample.median * 1e6:.1f} us ({min(sample.seconds) * 1e6:.1f})"


_FACTS = ("ready", "front_end", "whole", "next_front_end", "next_whole")


def _first(machine: str, program: str, cache: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.cutile_first", machine, program]
    environment = {**os.environ, DIRECTORY_VARIABLE: cache}
    run = subprocess.run(
        command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True
    )
    return json.loads(run.stdout)


def first_launches(runs: int) -> Table:
    """Whole processes: the first launch of a matrix product, and that of a second kernel."""
    cases = [
        (machine, program, is_known)
        for machine in _MACHINES
        for program in ("torch", "plain")
        for is_known in ((False,) if machine == "reference" else (False, True))
    ]
    found: dict[Any, list[dict[str, float]]] = {case: [] for case in cases}
    with tempfile.TemporaryDirectory() as filled:
        _first("cpu", "plain", filled)
        for _ in range(runs):
            for case in cases:
                machine, program, is_known = case
                with tempfile.TemporaryDirectory() as empty:
                    found[case].append(_first(machine, program, filled if is_known else empty))
    rows: list[tuple[str, ...]] = []
    for (machine, program, is_known), facts in found.items():
        seconds = {name: Sample(tuple(f[name] for f in facts)).median for name in _FACTS}
        title = f"{machine}, torch {'imported before' if program == 'torch' else 'not imported'}"
        row = [title + (", compiled in an earlier run" if is_known else "")]
        row.append(f"{seconds['ready'] * 1e3:.0f} ms")
        for prefix in ("", "next_"):
            whole, front = seconds[f"{prefix}whole"], seconds[f"{prefix}front_end"]
            row += [f"{whole * 1e3:.0f} ms", f"{front * 1e3:.0f} ms", f"{1 - front / whole:.0%}"]
        rows.append(tuple(row))
    head = ("machine", "choosing it", "first launch", "cuTile", "our share", "next kernel")
    title = "the first launch of a matrix product in a process, cuTile's imports included"
    return Table("first_launch", title, (*head, "cuTile", "our share"), rows)


def tables(runs: int) -> list[Table]:
    return [launches(runs), first_launches(runs)]
