"""Blocks that wait for one another."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest
from tests.cpu.runtime.hand_written import COUNT, WAIT_FOR_LAST, Launch, native

from tilewright.cpu.runtime import waiting
from tilewright.cpu.runtime.waiting import run_waiting
from tilewright.diagnostics import TileIRError


@pytest.mark.parametrize("total", [2, 5, 64, 200])
def test_all_wait_for_the_last(total: int) -> None:
    launch = Launch(native(WAIT_FOR_LAST), total, number=total - 1)
    run_waiting(launch.state, 64)
    assert launch.state.finished == total


def test_more_blocks_than_may_be_in_flight(monkeypatch) -> None:
    monkeypatch.setattr(waiting, "IN_FLIGHT", 8)
    launch = Launch(native(WAIT_FOR_LAST), 100, number=0)
    run_waiting(launch.state, 64)
    assert launch.state.finished == 100


def test_each_block_runs_once() -> None:
    counts = np.zeros(1000, np.int64)
    launch = Launch(native(COUNT), 1000, counts)
    run_waiting(launch.state, 64)
    assert (counts == 1).all()


def test_a_deadlock_is_reported_and_ended() -> None:
    launch = Launch(native(WAIT_FOR_LAST), 4, number=99)
    before = threading.active_count()
    with pytest.raises(TileIRError) as error:
        run_waiting(launch.state, 64, patience=0.02)
    (found,) = error.value.diagnostics
    assert found.code == "deadlock"
    assert "0 of 4 tile blocks have ended, and 4 seem to wait" in found.message
    # No thread was lost: the same ones run the next launch.
    following = Launch(native(WAIT_FOR_LAST), 4, number=3)
    run_waiting(following.state, 64)
    assert following.state.finished == 4
    assert threading.active_count() <= max(before, 5)


def test_waiting_for_a_block_that_cannot_begin(monkeypatch) -> None:
    monkeypatch.setattr(waiting, "IN_FLIGHT", 3)
    launch = Launch(native(WAIT_FOR_LAST), 10, number=9)
    with pytest.raises(TileIRError) as error:
        run_waiting(launch.state, 64, patience=0.02)
    assert "at most 3 tile blocks" in error.value.diagnostics[0].help


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c() -> None:
    launch = Launch(native(WAIT_FOR_LAST), 4, number=99)
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_waiting(launch.state, 64)
    assert time.monotonic() - started < 10


def test_progress() -> None:
    told: list[int] = []
    launch = Launch(native(WAIT_FOR_LAST), 20, number=19)
    run_waiting(launch.state, 64, progress=lambda done, _: told.append(done))
    assert told == sorted(set(told))
