"""What accesses to one flag, lock or counter cost the race detector, at growing numbers of them.

Times are those of the processor: all of this is one thread, and machines are shared.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.report import Table
from benchmarks.timing import interleaved_reports, processor_timed
from tilewright.machine.memory import Memory
from tilewright.machine.sanitize.events import EMPTY
from tilewright.machine.sanitize.races import RaceDetector

#: Accesses to the cell.
SIZES = (1_000, 4_000, 16_000)
_CELL = np.array([0])
_YES, _NO = np.array([True]), np.array([False])


class _Blocks:
    """Tile blocks that access one cell, each access without a token."""

    def __init__(self) -> None:
        self._detector = RaceDetector(lambda race: None)
        self._flag = Memory().allocate(np.zeros(64, np.uint8), "flag")
        self.count = 0

    def do(
        self,
        block: int,
        ordering: str,
        *,
        reads: bool = True,
        writes: bool = False,
        wrote: np.ndarray | None = None,
    ) -> None:
        event = self._detector.event(
            block, None, ordering=ordering, scope="device", size=4, reads=reads, writes=writes
        )
        self._detector.access(event, EMPTY, self._flag, _CELL, wrote=wrote)
        self.count += 1


def _polls(ordering: str, update: str, count: int) -> None:
    blocks = _Blocks()
    while blocks.count < count:
        blocks.do(0, update, writes=True)
        for reader in range(1, 8):
            blocks.do(reader, ordering)


def _lock(count: int) -> None:
    blocks = _Blocks()
    while blocks.count < count:
        for block in range(8):
            blocks.do(block, "acquire", writes=True, wrote=_NO if block else _YES)
        blocks.do(0, "release", reads=False, writes=True)


def _counter(count: int) -> None:
    blocks = _Blocks()
    for block in range(count):
        blocks.do(block, "relaxed", writes=True)


_JOBS: dict[str, Callable[[int], None]] = {
    "7 blocks poll a counter, relaxed": partial(_polls, "relaxed", "relaxed"),
    "7 blocks poll a flag, acquire and release": partial(_polls, "acquire", "release"),
    "8 blocks spin for a lock": _lock,
    "each block adds to a counter": _counter,
}

_HEAD = ("job", "accesses", "median", "min..max", "for each access")


def tables(runs: int) -> list[Table]:
    """One table: an access is to take about as long however many there were before."""
    table = Table("cell", "the race detector and one cell of memory", _HEAD)
    for name, job in _JOBS.items():
        jobs = {str(size): processor_timed(partial(job, size)) for size in SIZES}
        for size, sample in interleaved_reports(jobs, runs).items():
            each = sample.median / int(size)
            row = name, size, f"{sample.median * 1e3:.1f} ms", f"{sample.spread} s"
            table.rows.append((*row, f"{each * 1e6:.1f} µs"))
    return [table]
