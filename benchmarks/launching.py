"""What a warm launch costs on each machine, through ``tilewright.load`` and ``Program.launch``; and the first one of a
process.

One tile block of a vector addition, so that nearly all of it is the launch: options, arguments and their
checks, and what the machine does to start and end. "directly" is the program that the machine's own class
makes, without the machine interface.

The first launch is measured in processes of their own, in seconds of processor time from their start, with code that an
earlier process has compiled.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import timeit
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import tilewright
from benchmarks.report import Table
from tilewright import LaunchOptions
from tilewright.launching.disk_cache import DIRECTORY_VARIABLE

_EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "vector_add.tileir"
#: Launches in one sample; a sample takes some milliseconds.
_LAUNCHES = {"reference": 100, "cpu": 2000, "sim:sm_90a": 20}
_LENGTH = 128
_ROOT = _EXAMPLE.parents[1]
_SOURCES = {
    "operation": "a module that was read",
    "bytes": "bytes of bytecode",
    "path": "the path of a file",
}


def _microseconds(job: Callable[[], object], count: int, runs: int) -> float:
    """The shortest of the samples: what disturbs a launch only makes it longer."""
    job()
    return min(timeit.repeat(job, number=count, repeat=3 * runs)) / count * 1e6


def _own(module: Any, machine: str) -> Any:
    """The program as code would make it that knows the machine."""
    if machine == "cpu":
        from tilewright.cpu import Program

        return Program(module)
    if machine == "reference":
        from tilewright.machine import Program as Reference

        return Reference(module)
    from tilewright.simulator.tiles import TileProgram

    return TileProgram(module, machine.partition(":")[2])


def _row(module: Any, machine: str, count: int, runs: int) -> tuple[str, ...]:
    program = tilewright.load(module, machine=machine)
    x, y, out = (np.ones(_LENGTH, np.float32) for _ in range(3))
    grid, args, options = (1, 1, 1), (x, y, out, _LENGTH), LaunchOptions(allow_overlap=True)
    own = _own(module, machine)
    direct = _microseconds(lambda: own.launch("vector_add", grid, args), count, runs)
    plain = _microseconds(lambda: program.launch("vector_add", grid, args), count, runs)
    chosen = _microseconds(lambda: program.launch("vector_add", grid, args, options), count, runs)
    return machine, f"{direct:.1f} us", f"{plain:.1f} us", f"{chosen:.1f} us"


def _first(file: str, kind: str, environment: Mapping[str, str]) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.first_launch", file, kind]
    run = subprocess.run(
        command, cwd=_ROOT, env=environment, check=True, capture_output=True, text=True
    )
    return json.loads(run.stdout)


def _command(file: str, environment: Mapping[str, str]) -> float:
    """The seconds of ``tilewright run``, to its end."""
    numbers = ["ones:f32:128"] * 3 + ["128"]
    arguments = [part for number in numbers for part in ("--arg", number)]
    command = [sys.executable, "-m", "tilewright", "run", file, "--machine", "cpu", *arguments]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=_ROOT, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def first_launches(module: Any, runs: int) -> Table:
    """Whole processes, whose code is on disk: the shortest, as what disturbs a process only makes it longer."""
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in _SOURCES}
    commands: list[float] = []
    with tempfile.TemporaryDirectory() as directory:
        environment = {**os.environ, DIRECTORY_VARIABLE: os.path.join(directory, "cache")}
        file = os.path.join(directory, "vector_add.tileirbc")
        Path(file).write_bytes(tilewright.write(module))
        _first(file, "bytes", environment)
        for _ in range(runs):
            for kind, facts in found.items():
                facts.append(_first(file, kind, environment))
            commands.append(_command(file, environment))
    rows: list[tuple[str, ...]] = []
    for kind, facts in found.items():
        best = min(facts, key=lambda each: each["launched"])
        seconds = best["launched"], best["numpy"]
        rows.append((_SOURCES[kind], *(f"{each * 1e3:.0f} ms" for each in seconds)))
    rows.append(("`tilewright run FILE`", f"{min(commands) * 1e3:.0f} ms", "-"))
    title = "the first launch of a process on the CPU machine, compiled by an earlier one"
    return Table("first_launch", title, ("from", "processor time", "of which NumPy"), rows)


def tables(runs: int) -> list[Table]:
    module = tilewright.parse(_EXAMPLE.read_text(encoding="utf-8"))
    rows = [_row(module, machine, count, runs) for machine, count in _LAUNCHES.items()]
    head = ("machine", "directly", "launch", "with options")
    warm = Table("launching", "a warm launch of one tile block", head, rows)
    return [warm, first_launches(module, runs)]
