"""What tells tests that processes are gone."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

#: Seconds that anything may take on a machine that has much else to do.
PATIENCE = 60.0
ROOT = Path(__file__).resolve().parents[2]


class Fifo:
    """Tells how many processes have begun, and whether all are gone: each holds it open for writing, and the
    last one's end is the end of what can be read."""

    def __init__(self, path: Path):
        os.mkfifo(path)
        self.path = str(path)
        self._end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self._begun = 0

    def wait_for(self, count: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while self._begun < count:
            assert time.monotonic() < deadline, f"{self._begun} of {count} have begun"
            # Before the first writer there is an end already.
            data = self._read(deadline)
            self._begun += len(data)
            if not data:
                time.sleep(0.02)

    def wait_for_end(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            assert time.monotonic() < deadline

    def _read(self, deadline: float) -> bytes:
        found, _, _ = select.select([self._end], [], [], max(0.0, deadline - time.monotonic()))
        assert found, "a process lives on"
        return os.read(self._end, 100)

    def close(self) -> None:
        os.close(self._end)


def default_signals() -> None:
    """Whoever runs the tests may ignore some, as ``nohup`` does."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def end_who_asks(fifo: Fifo, number: signal.Signals, *words: str) -> None:
    """Let a process ask for jobs that wait, send it a signal, and see all of it end."""
    asking = subprocess.Popen(
        [sys.executable, "-m", "tests.campaign.sample_jobs", fifo.path, *words],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
        preexec_fn=default_signals,
    )
    try:
        fifo.wait_for(2)
        asking.send_signal(number)
        assert asking.wait(PATIENCE) != 0
    finally:
        asking.kill()
        asking.wait()
    fifo.wait_for_end()


@pytest.fixture
def fifo(tmp_path: Path) -> Iterator[Fifo]:
    found = Fifo(tmp_path / "fifo")
    yield found
    found.close()
