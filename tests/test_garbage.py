"""Collections are rare while IR is made, and as they were behind that."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

import tilewright
from tilewright.garbage import OBJECTS, rare_collections


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[tuple[int, int, int]]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield (700, 10, 10)
    gc.set_threshold(*before)


def test_nested_stretches_count_as_one(thresholds: tuple[int, int, int]) -> None:
    with rare_collections:
        with rare_collections:
            assert gc.get_threshold()[0] == OBJECTS
        assert gc.get_threshold()[0] == OBJECTS
    assert gc.get_threshold() == thresholds


def test_an_error_ends_a_stretch(thresholds: tuple[int, int, int]) -> None:
    with pytest.raises(tilewright.TileIRError):
        tilewright.parse("nonsense")
    assert gc.get_threshold() == thresholds


def test_threads_share_a_stretch(thresholds: tuple[int, int, int]) -> None:
    inside = Barrier(4)

    def work() -> int:
        with rare_collections:
            inside.wait(timeout=30)
            return gc.get_threshold()[0]

    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(lambda _: work(), range(4))] == [OBJECTS] * 4
    assert gc.get_threshold() == thresholds


@pytest.mark.parametrize("own", [(0, 10, 10), (OBJECTS * 2, 10, 10)])
def test_who_collects_more_rarely_is_left_alone(own: tuple[int, int, int]) -> None:
    gc.set_threshold(*own)
    with rare_collections:
        assert gc.get_threshold() == own
    assert gc.get_threshold() == own


def test_thresholds_set_inside_stay() -> None:
    with rare_collections:
        gc.set_threshold(1234, 5, 6)
    assert gc.get_threshold() == (1234, 5, 6)


def test_a_process_that_runs_llvm_loads_no_compiler() -> None:
    code = "import tilewright.gpu.budget, sys; print([m for m in sys.modules if 'xdsl' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
