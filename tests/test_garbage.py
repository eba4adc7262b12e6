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


_IMPORTS = """
import gc, sys
from tilewright.garbage import rare_collections
{before}
with rare_collections:
    kept = [[] for _ in range(5000)]
    for number in range(20):
        sys.modules[f"a module that is new {{number}}"] = sys
print(gc.get_count()[0] > 4000, gc.get_freeze_count(), gc.get_threshold())
"""


def _after_imports(before: str = "") -> str:
    command = [sys.executable, "-c", _IMPORTS.format(before=before)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_what_imports_make_counts_as_old() -> None:
    """The next collection of the youngest does not walk it; nothing is kept from collections for good."""
    # Without collections the counts stay as they are.
    assert _after_imports("gc.disable()") == f"False 0 {gc.get_threshold()}"


def test_objects_that_somebody_has_frozen_stay_so() -> None:
    many, frozen, _ = _after_imports("gc.disable(); gc.freeze()").split(" ", 2)
    assert many == "True"
    assert int(frozen) > 0
