"""Running kernels on the reference machine: its own overhead, its checks, and beside peers.

Most of the jobs take some milliseconds. In those another process that takes a processor for one
time slice, or keeps the other thread of a core busy, doubles the time of whoever it happens to
meet, and the job before has left the caches cold. So in its turn each job runs again and again for
a tenth of a second, and the fastest run counts; medians are of the turns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np

from benchmarks import kernels
from benchmarks.peers.client import started
from benchmarks.peers.problems import (
    HEIGHT,
    LENGTH,
    ROWS,
    SIZE,
    TILE_K,
    TILE_M,
    TILE_N,
    VECTOR,
    WIDTH,
    Array,
    problems,
)
from benchmarks.report import Table
from benchmarks.timing import Sample, interleaved_reports, timed
from tilewright.machine import Program
from tilewright.machine.sanitize.sanitizer import SanitizingProgram

_OURS = "Tilewright"
_OURS_CHECKED = "Tilewright, sanitizer with races"
_PAUSE = 0.3
_TURN = 0.1
"""Seconds that a job may fill with runs in its turn; one that takes longer runs once."""


@dataclass(frozen=True, slots=True)
class Work:
    """A kernel, its grid, and its arguments around the arrays of a problem."""

    module: Any
    grid: tuple[int, ...]
    arrays: tuple[Array, ...]
    scalars: tuple[int, ...]

    def run(self, program: Program) -> None:
        """Launch it; the output is the last array."""
        program.launch(None, self.grid, (*self.arrays, *self.scalars))

    def plain(self) -> Callable[[], object]:
        program = Program(self.module)
        return lambda: self.run(program)

    def checked(self, *, races: bool) -> Callable[[], object]:
        """A sanitizer is for one launch, so translating the kernel is part of the job."""

        def job() -> None:
            program = SanitizingProgram(self.module, 0, races=races)
            self.run(program)
            assert not program.collector.diagnostics

        return job


def _fastest(job: Callable[[], float]) -> Callable[[], float]:
    """A job's turn: the seconds of its fastest run."""

    def turn() -> float:
        best = total = job()
        while total < _TURN:
            seconds = job()
            best, total = min(best, seconds), total + seconds
        return best

    return turn


def _in_turn(jobs: dict[str, Callable[[], float]], runs: int, pause: float) -> dict[str, Sample]:
    turns = {name: _fastest(job) for name, job in jobs.items()}
    return interleaved_reports(turns, runs, pause=pause)


def works() -> dict[str, Work]:
    """The kernels for the problems that peers solve as well; their outputs are checked."""
    known = problems()
    rows_grid, vector_grid = (HEIGHT // ROWS,), (LENGTH // VECTOR,)
    made = {
        "matmul": (kernels.matmul(SIZE), (SIZE // TILE_M, SIZE // TILE_N), (SIZE, SIZE)),
        "softmax": (kernels.softmax(WIDTH), rows_grid, (HEIGHT,)),
        "layer_norm": (kernels.layer_norm(WIDTH), rows_grid, (HEIGHT,)),
        "vector_add": (kernels.vector_add(), vector_grid, (LENGTH,)),
    }
    found: dict[str, Work] = {}
    for name, (module, grid, scalars) in made.items():
        problem = known[name]
        output = np.zeros(problem.output_shape, np.float32)
        found[name] = work = Work(module, grid, (*problem.inputs, output), scalars)
        work.plain()()
        problem.check(output)
    return found


def beside_peers(runs: int) -> list[Table]:
    """Whole launches, each beside the peers that are installed."""
    found: list[Table] = []
    with started() as peers:
        absent = [f"{peer.title} not installed" for peer in peers if not peer.version]
        present = [peer for peer in peers if peer.version]
        for name, work in works().items():
            first = {_OURS: timed(lambda w=work: w.plain()())()}
            first[_OURS_CHECKED] = timed(work.checked(races=True))()
            jobs = {_OURS: timed(work.plain()), _OURS_CHECKED: timed(work.checked(races=True))}
            able = [peer for peer in present if name not in peer.left_out]
            jobs |= {f"{p.title}, {p.version}": p.job(name) for p in able}
            samples = _in_turn(jobs, runs, _PAUSE)
            first |= {f"{p.title}, {p.version}": p.first[name] for p in able}
            table = Table.of(name, "; ".join([problems()[name].title, *absent]), samples, _OURS)
            rows = [(*row, f"{first[row[0]] * 1e3:.1f} ms") for row in table.rows]
            found.append(Table(name, table.title, (*table.head, "first run"), rows))
    return found


def checks(runs: int) -> list[Table]:
    """What the sanitizer costs."""
    found = works()
    steps = (SIZE // TILE_M) * (SIZE // TILE_N) * (SIZE // TILE_K)
    by_pointers = Work(
        kernels.vector_add_by_pointers(),
        found["vector_add"].grid,
        found["vector_add"].arrays,
        found["vector_add"].scalars,
    )
    cases = {
        "matrix step": (found["matmul"], steps),
        "softmax block": (found["softmax"], HEIGHT // ROWS),
        "layer normalisation block": (found["layer_norm"], HEIGHT // ROWS),
        "vector addition block": (found["vector_add"], LENGTH // VECTOR),
        "vector addition block, by pointers": (by_pointers, LENGTH // VECTOR),
    }
    rows: list[tuple[str, ...]] = []
    for name, (work, count) in cases.items():
        jobs = {
            "unchecked": timed(work.plain()),
            "checks": timed(work.checked(races=False)),
            "races": timed(work.checked(races=True)),
        }
        samples = _in_turn(jobs, runs, pause=0.0)
        plain, checked, racing = (sample.median / count * 1e6 for sample in samples.values())
        rows.append(
            (
                name,
                f"{plain:.1f} us",
                f"{checked:.1f} us",
                f"{checked / plain:.2f}",
                f"{racing:.1f} us",
                f"{racing / plain:.2f}",
            )
        )
    head = ("work", "unchecked", "checked", "ratio", "with races", "ratio")
    title = f"the sanitizer; a matrix step is {TILE_M}x{TILE_N}x{TILE_K}, f16, with its loads"
    return [Table("sanitizer", title, head, rows)]


_ITERATIONS, _ADDITIONS = 1000, 10


def _numpy_additions(dims: tuple[int, ...]) -> Callable[[], object]:
    """As many dependent additions by hand."""
    one = np.ones(dims, np.float32)

    def job() -> None:
        total = one
        for _ in repeat(None, _ITERATIONS * _ADDITIONS):
            total = np.add(total, one)

    return job


def overhead(runs: int) -> list[Table]:
    """Time of an operation beyond that of the NumPy call that computes it."""
    count = _ITERATIONS * _ADDITIONS
    rows: list[tuple[str, ...]] = []
    for name, dims in (("scalar", ()), ("64x64", (64, 64))):
        module = kernels.additions(dims, _ITERATIONS, _ADDITIONS)
        jobs = {
            "ours": timed(Work(module, (1,), (), ()).plain()),
            "numpy": timed(_numpy_additions(dims)),
        }
        samples = _in_turn(jobs, runs, pause=0.0)
        ours, numpy = (sample.median / count * 1e6 for sample in samples.values())
        rows.append((name, f"{ours:.2f} us", f"{numpy:.2f} us", f"{ours - numpy:.2f} us"))
    title = f"one f32 addition, in a loop of {_ADDITIONS}"
    return [Table("overhead", title, ("tile", "Tilewright", "NumPy alone", "overhead"), rows)]


def tables(runs: int) -> list[Table]:
    return [*checks(runs), *overhead(runs), *beside_peers(runs)]
