"""What the sanitizer remembers stays in proportion to the memory watched, however long a run is."""

from __future__ import annotations

import numpy as np
import pytest
from tests.machine.kernels import checked

from tilewright.machine.sanitize import accesses, races
from tilewright.machine.sanitize.sanitizer import SanitizingProgram

ORDERED_LOOP = checked("""
  entry @k(%x: tile<ptr<i32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = make_token : token
    %end = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%t = %start) -> (token) {
      %v, %a = load_ptr_tko weak %x token=%t : tile<ptr<i32>> -> tile<i32>, token
      %more = addi %v, %one : tile<i32>
      %b = store_ptr_tko weak %x, %more token=%a : tile<ptr<i32>>, tile<i32> -> token
      continue %b : token
    }
  }""")

ALLOCA_LOOP = checked("""
  entry @k(%x: tile<ptr<i32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    for %i in (%zero to %n, step %one) : tile<i32> {
      %area = alloca num_elem = 16, alignment = 4 : tile<ptr<i32>>
      %a = store_ptr_tko weak %area, %i : tile<ptr<i32>>, tile<i32> -> token
      %v, %b = load_ptr_tko weak %area token=%a : tile<ptr<i32>> -> tile<i32>, token
      continue
    }
  }""")

COUNTER = checked("""
  entry @k(%x: tile<ptr<i32>>) {
    %one = constant <i32: 1> : tile<i32>
    %old, %t = atomic_rmw_tko acq_rel device %x, add, %one
      : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
  }""")


@pytest.fixture(autouse=True)
def sweep_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(races, "_MIN_STATES", 50)
    monkeypatch.setattr(accesses, "_MIN_FRESH", 50)


def checked_run(module, grid: int, args: tuple) -> races.RaceDetector:
    program = SanitizingProgram(module, 0, races=True)
    program.launch("k", grid, args)
    assert program.collector.diagnostics == []
    assert program._detector is not None
    return program._detector


def test_states_of_cells() -> None:
    x = np.zeros(4, np.int32)
    detector = checked_run(ORDERED_LOOP, 1, (x, 1000))
    assert x[0] == 1000
    assert len(detector._states) <= 60


def test_memory_that_has_ended_its_life() -> None:
    detector = checked_run(ALLOCA_LOOP, 1, (np.zeros(4, np.int32), 1000))
    assert len(detector._shadows) + len(detector._states) <= 120


def test_a_chain_of_releases() -> None:
    """Each atomic acquires from the one before it, which stands for all before that."""
    detector = checked_run(COUNTER, 300, (np.zeros(1, np.int32),))
    (shadow,) = detector._shadows.values()
    assert [len(chain) for chain in shadow.releases.values()] == [1]
