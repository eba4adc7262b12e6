"""Launches like the one before, on several threads."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest

import tilewright
from tilewright import LaunchOptions
from tilewright.cpu import Program
from tilewright.cpu.runtime import pool, warm
from tilewright.cpu.runtime.driver import LaunchState

_EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "vector_add.tileir"
_TILE = 128
_BLOCKS = 700


@pytest.fixture(autouse=True)
def always_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """No launch is so short that one thread runs it."""
    monkeypatch.setattr(pool, "_WORTH_SHARING", 0.0)
    for module in (pool, warm):
        monkeypatch.setattr(
            module,
            "is_for_one",
            lambda total, threads, feedback, worth=0.0: threads == 1 or total == 1,
        )


def _launch(program: Program, seed: int) -> None:
    rng = np.random.default_rng(seed)
    length = int(rng.integers(1, _TILE * _BLOCKS))
    x, y = rng.random((2, _TILE * _BLOCKS)).astype(np.float32)
    out = np.zeros(_TILE * _BLOCKS, np.float32)
    program.launch("vector_add", (_BLOCKS, 1, 1), (x, y, out, length))
    np.testing.assert_array_equal(out[:length], (x + y)[:length])
    assert not out[length:].any()


@pytest.mark.parametrize("threads", [2, 3, 12])
def test_other_arguments_each_time(threads: int) -> None:
    program = Program(tilewright.parse(_EXAMPLE.read_text()), LaunchOptions(threads=threads))
    for seed in range(60):
        _launch(program, seed)
        if seed % 20 == 19:
            time.sleep(0.01)  # longer than threads stay awake


def test_kernels_in_turn() -> None:
    programs = [
        Program(tilewright.parse(_EXAMPLE.read_text()), LaunchOptions(threads=threads))
        for threads in (2, 4, 1)
    ]
    for seed in range(90):
        _launch(programs[seed % 3], seed)


def test_python_threads_at_once() -> None:
    program = Program(tilewright.parse(_EXAMPLE.read_text()), LaunchOptions(threads=2))
    failed: list[BaseException] = []

    def work(first: int) -> None:
        try:
            for seed in range(first, first + 30):
                _launch(program, seed)
        except BaseException as error:  # noqa: BLE001 (told below)
            failed.append(error)

    workers = [threading.Thread(target=work, args=(1000 * number,)) for number in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failed


@pytest.mark.parametrize("threads", [2, 12])
def test_a_copy_is_the_same_launch(threads: int) -> None:
    state = LaunchState(17, [5, 6, 2**64 - 1], (70000, 3, 2), object(), threads)
    state.divide(threads)
    other = state.copy()
    assert other.address != state.address
    assert (other.total, other.next, other.shared_by) == (state.total, 0, 0)
    assert other.keep is state.keep
    words = state.slots_address - state.address, state.grid_address - state.address
    for begin in (place // 8 for place in words):
        assert list(other.words[begin:]) == list(state.words[begin:])
    other.divide(threads)
    assert other.arranged[1] == state.arranged[1]
