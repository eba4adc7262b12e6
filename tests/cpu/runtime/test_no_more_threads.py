"""A system that starts no more threads (a container's limit, ``ulimit -u``): kernels run on those there are."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from tests.cpu.runtime.hand_written import BUSY, COUNT, Launch, native

from tilewright.cpu.runtime.interrupts import Watcher
from tilewright.cpu.runtime.pool import ChunkFeedback, Pool
from tilewright.diagnostics import TileIRError
from tilewright.launching.disk_cache import DiskCache, key_of


@pytest.fixture(autouse=True)
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)


def test_the_cache_makes_room_itself(tmp_path: Path) -> None:
    DiskCache(tmp_path).set_limit(3000)
    for name in ("a", "b", "c", "d"):
        cache = DiskCache(tmp_path)  # as another process: its first entry is put
        cache.put(key_of([name]), bytes(1000))
        assert cache.get(key_of([name])) == bytes(1000)
    assert DiskCache(tmp_path).use().size_bytes <= 3000


def test_a_grid_runs_on_the_threads_that_there_are() -> None:
    counts = np.zeros(1000, np.int64)
    pool = Pool()
    for _ in range(2):
        launch = Launch(native(COUNT), len(counts), counts)
        pool.run(launch.state, 128, 4, ChunkFeedback())
        assert launch.state.finished == len(counts)
    assert (counts == 2).all()


def test_nobody_watches_over_a_launch_that_can_do_without() -> None:
    watcher, launch = Watcher(), Launch(native(BUSY), 1, np.zeros(1, np.int64))
    watcher.begin(launch.state)
    watcher.end(launch.state)
    watcher.guarded(launch.state, lambda: False)()


def test_a_time_limit_that_nobody_could_keep_is_refused() -> None:
    watcher, launch = Watcher(), Launch(native(BUSY), 1, np.zeros(1, np.int64))
    with pytest.raises(TileIRError, match=r"unsupported-option.*time limit") as caught:
        watcher.limited(launch.state, 5.0)
    assert "can't start new thread" in str(caught.value)
    with pytest.raises(TileIRError):  # still, not only the first
        watcher.limited(launch.state, 5.0)
