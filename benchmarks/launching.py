"""What a warm launch costs on each machine, through ``tilewright.load`` and ``Program.launch``.

One tile block of a vector addition, so that nearly all of it is the launch: options, arguments and their
checks, and what the machine does to start and end. "directly" is the program that the machine's own class
makes, without the machine interface.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tilewright
from benchmarks.report import Table
from tilewright import LaunchOptions

_EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "vector_add.tileir"
#: Launches in one sample; a sample takes some milliseconds.
_LAUNCHES = {"reference": 100, "cpu": 2000, "sim:sm_90a": 20}
_LENGTH = 128


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


def tables(runs: int) -> list[Table]:
    module = tilewright.parse(_EXAMPLE.read_text(encoding="utf-8"))
    rows = [_row(module, machine, count, runs) for machine, count in _LAUNCHES.items()]
    head = ("machine", "directly", "launch", "with options")
    return [Table("launching", "a warm launch of one tile block", head, rows)]
