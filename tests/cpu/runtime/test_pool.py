"""Grids on threads."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from tests.cpu.runtime.hand_written import BUSY, CHUNKS, COUNT, Launch, native

from tilewright.cpu.runtime.arena import Arena
from tilewright.cpu.runtime.driver import ALL_DONE, HAS_JOB, MORE_TO_DO, driver
from tilewright.cpu.runtime.pool import POOL, ChunkFeedback, Pool, thread_count
from tilewright.cpu.target import usable_cores
from tilewright.diagnostics import TileIRError


@pytest.mark.parametrize("total", [1, 2, 3, 7, 64, 1000, 100_003])
@pytest.mark.parametrize("threads", [1, 2, 5, 16])
def test_every_block_runs_once(total: int, threads: int) -> None:
    counts = np.zeros(total, np.int64)
    feedback = ChunkFeedback()
    for _ in range(3):
        launch = Launch(native(COUNT), total, counts)
        POOL.run(launch.state, 128, threads, feedback)
        assert launch.state.finished == total
        assert not launch.state.stop
    assert (counts == 3).all()


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_chunks_get_smaller_towards_the_end(threads: int) -> None:
    total = 10_000
    sizes = np.zeros(total, np.int64)
    # At a pace of a microsecond no chunk is too long. The threads of a new pool are not late from another launch.
    Pool().run(Launch(native(CHUNKS), total, sizes).state, 0, threads, ChunkFeedback(1e-6))
    for number in range(threads):
        first, behind = (total * n // threads for n in (number, number + 1))
        begins = first + np.flatnonzero(sizes[first:behind])
        chunks = sizes[begins]
        assert chunks.sum() == behind - first
        assert (begins[1:] == begins[:-1] + chunks[:-1]).all()
        assert chunks.max() == chunks[0] == total // (16 * threads)
        if threads > 1:
            assert (np.diff(chunks) <= 0).all()
            assert chunks[-1] == 1


@pytest.mark.parametrize("threads", [4, 20])
def test_a_thread_begins_with_its_own_blocks_and_helps_with_the_others(threads: int) -> None:
    total = 1000
    part = total // threads
    sizes = np.zeros(total, np.int64)
    launch = Launch(native(CHUNKS), total, sizes)
    launch.state.divide(threads)
    arena = Arena()
    take = driver().take_blocks
    launch.state.chunk, launch.state.shares = part, 1
    where = launch.state.address
    assert take(where, arena.address(64), 1, 2) == MORE_TO_DO
    assert np.flatnonzero(sizes).tolist() == [2 * part] and launch.state.finished == part
    assert take(where, arena.address(64), 100, 2) == ALL_DONE
    assert np.flatnonzero(sizes).tolist() == list(range(0, total, part))
    assert launch.state.finished == total


def test_no_chunk_takes_long() -> None:
    total = 1000
    sizes = np.zeros(total, np.int64)
    POOL.run(Launch(native(CHUNKS), total, sizes).state, 0, 2, ChunkFeedback(1e-3))
    assert sizes.max() == 10


def test_the_pace_is_learnt() -> None:
    feedback = ChunkFeedback()
    launch = Launch(native(BUSY), 20, number=200_000)
    POOL.run(launch.state, 0, 1, feedback)
    assert 1e-6 < feedback.seconds < 1.0


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    launch = Launch(native(BUSY), 200, number=1_000_000)
    POOL.run(launch.state, 0, 2, ChunkFeedback(), lambda done, total: told.append((done, total)))
    assert told
    assert told == sorted(told)
    assert all(total == 200 for _, total in told)


def test_launches_from_several_threads() -> None:
    total, kernel = 500, native(COUNT)
    counts = [np.zeros(total, np.int64) for _ in range(6)]

    def run(array: np.ndarray) -> None:
        for _ in range(20):
            POOL.run(Launch(kernel, total, array).state, 64, 2, ChunkFeedback())

    threads = [threading.Thread(target=run, args=(array,)) for array in counts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((array == 20).all() for array in counts)


def test_a_launch_that_is_over_is_left_alone() -> None:
    """A helping thread that comes late, when all blocks have run, harms neither the next launch, whose
    memory may be elsewhere, nor what the last one used."""
    pool, kernel = Pool(), native(COUNT)
    for number in range(300):
        counts = np.zeros(2, np.int64)
        launch = Launch(kernel, 2, counts)
        pool.run(launch.state, 64 << number // 20, 2, ChunkFeedback())
        assert (counts == 1).all()
        if number % 10 == 0:
            time.sleep(0.002)  # The helping thread goes to sleep.
    array = np.zeros(1000, np.int64)
    used = weakref.ref(array)
    launch = Launch(kernel, 1000, array)
    pool.run(launch.state, 64, 2, ChunkFeedback())
    del array, launch
    assert used() is None


def test_a_launch_does_not_wait_for_a_thread_that_is_late() -> None:
    """On a busy machine the thread may not get a processor for long after its launch is over."""
    pool, total = Pool(), 1000
    launch, counts = (
        Launch(native(COUNT), total, np.zeros(total, np.int64)),
        np.zeros(total, np.int64),
    )
    pool.run(launch.state, 0, 2, ChunkFeedback())
    (worker,) = pool._workers
    worker.wait()
    worker._box.state = HAS_JOB  # as if it had not seen the end of that launch
    done = threading.Event()

    def run() -> None:
        pool.run(Launch(native(COUNT), total, counts).state, 0, 2, ChunkFeedback())
        done.set()

    threading.Thread(target=run, daemon=True).start()
    assert done.wait(60)
    assert (counts == 1).all()


def test_a_stop_ends_it() -> None:
    launch = Launch(native(COUNT), 1000, np.zeros(1000, np.int64))
    launch.state.stop = 1
    POOL.run(launch.state, 0, 2, ChunkFeedback())
    assert launch.state.finished == 0


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c(threads: int) -> None:
    launch = Launch(native(BUSY), 1_000_000, number=2_000_000)
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        POOL.run(launch.state, 0, threads, ChunkFeedback())
    assert time.monotonic() - started < 10
    assert 0 < launch.state.finished < 1_000_000
    # The pool is as good as new.
    counts = np.zeros(100, np.int64)
    POOL.run(Launch(native(COUNT), 100, counts).state, 0, threads, ChunkFeedback())
    assert (counts == 1).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_gets_threads_of_its_own() -> None:
    total = 1000
    POOL.run(Launch(native(COUNT), total, np.zeros(total, np.int64)).state, 0, 2, ChunkFeedback())
    child = os.fork()
    if child == 0:
        counts = np.zeros(total, np.int64)
        POOL.run(Launch(native(COUNT), total, counts).state, 0, 2, ChunkFeedback())
        os._exit(0 if (counts == 1).all() else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_memory_that_cannot_be_had() -> None:
    launch = Launch(native(COUNT), 1000, np.zeros(1000, np.int64))
    with pytest.raises(TileIRError) as error:
        Pool().run(launch.state, sys.maxsize // 2, 2, ChunkFeedback())
    assert error.value.diagnostics[0].code == "cpu-out-of-memory"
    assert launch.state.finished == 0


def test_the_number_of_threads(monkeypatch) -> None:
    monkeypatch.delenv("TILEWRIGHT_THREADS", raising=False)
    assert thread_count() >= 1
    assert thread_count(3) == 3
    monkeypatch.setenv("TILEWRIGHT_THREADS", "5")
    assert thread_count() == 5
    assert thread_count(2) == 2


@pytest.mark.parametrize("threads", [0, -1, 1025, True, 1.5, "2"])
def test_bad_numbers_of_threads(threads: object) -> None:
    with pytest.raises(TileIRError) as error:
        thread_count(threads)  # pyright: ignore[reportArgumentType]
    assert error.value.diagnostics[0].code == "bad-threads"


@pytest.mark.parametrize("text", ["0", "many", "-3", "1.5", "2000"])
def test_bad_numbers_in_the_environment(monkeypatch, text: str) -> None:
    monkeypatch.setenv("TILEWRIGHT_THREADS", text)
    with pytest.raises(TileIRError) as error:
        thread_count()
    assert "TILEWRIGHT_THREADS" in error.value.diagnostics[0].message


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no affinities")
@pytest.mark.skipif(usable_cores() < 2, reason="there is one processor only")
def test_helpers_stay_off_the_processor_of_the_launch() -> None:
    usable, pool = os.sched_getaffinity(0), Pool()
    counts = np.zeros(64, np.int64)

    def places() -> set[int]:
        """Where the helper may run after a launch."""
        pool.run(Launch(native(COUNT), 64, counts).state, 128, 2, ChunkFeedback())
        number = pool._workers[0]._thread.native_id
        assert number is not None
        return os.sched_getaffinity(number)

    seen = {frozenset(places()) for _ in range(20)}
    assert seen <= {frozenset(usable - {processor}) for processor in usable}
    before = places()
    try:
        os.sched_setaffinity(0, usable - before)
        if len(usable - before) == 1:
            assert places() == before
    finally:
        os.sched_setaffinity(0, usable)
    assert (counts == 22).all()
