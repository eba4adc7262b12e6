"""What accesses to flags, locks and counters cost the race detector: each of them about the same."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects import test

from tilewright.machine.memory import Allocation, Memory
from tilewright.machine.sanitize.events import EMPTY, History
from tilewright.machine.sanitize.races import Race, RaceDetector

CELL = np.array([0])
NO = np.array([False])
YES = np.array([True])


class Blocks:
    """Tile blocks that access one flag; operations stand for lines of their kernel."""

    def __init__(self) -> None:
        self.races: list[Race] = []
        self.detector = RaceDetector(self.races.append)
        self.flag: Allocation = Memory().allocate(np.zeros(64, np.uint8), "flag")
        self.ops: dict[str, test.TestOp] = {}

    def do(
        self, block: int, what: str, ordering: str = "relaxed", wrote: np.ndarray | None = None
    ) -> History:
        reads, writes = what in ("read", "update"), what in ("write", "update")
        event = self.detector.event(
            block,
            self.ops.setdefault(what, test.TestOp()),
            ordering=ordering,
            scope="" if ordering == "weak" else "device",
            size=4,
            reads=reads,
            writes=writes,
        )
        return self.detector.access(event, EMPTY, self.flag, CELL, wrote=wrote)


def relaxed_polls(count: int) -> Blocks:
    blocks = Blocks()
    for turn in range(count):
        blocks.do(0, "update")
        blocks.do(1 + turn % 7, "read")
    return blocks


def acquiring_polls(count: int) -> Blocks:
    blocks = Blocks()
    for turn in range(count):
        blocks.do(turn % 16, "update", "release")
        blocks.do(100 + turn % 16, "read", "acquire")
    return blocks


def spinning_locks(count: int) -> Blocks:
    blocks = Blocks()
    for turn in range(count):
        for block in range(4):
            blocks.do(block, "update", "acquire", YES if block == turn % 4 else NO)
        blocks.do(turn % 4, "write", "release")
    return blocks


def counters(count: int) -> Blocks:
    blocks = Blocks()
    for block in range(count):
        blocks.do(block, "update")
    return blocks


def weak_polls(count: int) -> Blocks:
    """Races, reported once."""
    blocks = Blocks()
    blocks.do(0, "write")
    for turn in range(count):
        blocks.do(1 + turn % 7, "read", "weak")
    return blocks


def seconds(work: Callable[[int], Blocks], count: int) -> float:
    def once() -> float:
        started = time.process_time()
        work(count)
        return time.process_time() - started

    return min(once() for _ in range(3))


@pytest.mark.parametrize("work", [relaxed_polls, acquiring_polls, spinning_locks, counters])
@pytest.mark.rotates(2)
def test_four_times_the_accesses_take_about_four_times_as_long(
    work: Callable[[int], Blocks],
) -> None:
    few, many = seconds(work, 750), seconds(work, 3000)
    assert many < 9 * few, f"{many / few:.1f} times as long"
    assert work(100).races == []


def test_what_races_again_and_again_is_reported_once() -> None:
    (race,) = weak_polls(3000).races
    assert (race.first.block, race.second.block) == (0, 1)


def test_what_many_releases_give_is_had_at_once() -> None:
    blocks = Blocks()
    for block in range(50):
        blocks.do(block, "update", "release")
    history = blocks.do(99, "read", "acquire")
    assert set(history.masks) == set(range(50))
