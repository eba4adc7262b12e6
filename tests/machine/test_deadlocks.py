"""A deadlock tells what each tile block waits for."""

from __future__ import annotations

import numpy as np
import pytest
from tests.machine.kernels import checked

import tilewright
from tilewright import LaunchOptions
from tilewright.diagnostics import Diagnostic, TileIRError
from tilewright.lowering import lower_to_tileaa
from tilewright.machine import grid


def waiting_kernel(setup: str, element: str = "%x", kind: str = "i32"):
    """Every tile block reads an element until it is 7, which nobody writes."""
    return checked(f"""
      entry @wait(%x: tile<ptr<{kind}>>) {{
        %block, %by, %bz = get_tile_block_id : tile<i32>
        %seven = constant <{kind}: 7> : tile<{kind}>
        {setup}
        loop {{
          %v, %t = load_ptr_tko acquire device {element} : tile<ptr<{kind}>> -> tile<{kind}>, token
          %done = cmpi equal %v, %seven, signed : tile<{kind}> -> tile<i1>
          if %done {{
            break
          }}
          continue
        }}
      }}""")


def deadlock(module, grid: int, x: np.ndarray, seed: int = 0) -> Diagnostic:
    with pytest.raises(TileIRError) as caught:
        tilewright.run(module, "wait", grid, (x,), options=LaunchOptions(seed=seed))
    (found,) = caught.value.diagnostics
    assert found.code == "deadlock"
    return found


OWN = "%mine = offset %x, %block : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>"


def test_blocks_that_wait_for_one_element_are_told_together() -> None:
    found = deadlock(waiting_kernel(""), 6, np.array([3, 4], np.int32))
    assert found.message.startswith("6 tile blocks wait forever")
    (note,) = (n.message for n in found.notes if "waits" in n.message or "wait " in n.message)
    assert "and 2 more wait here for %x[0], which is 3" in note


def test_each_block_has_an_element_of_its_own() -> None:
    x = np.array([[3, 7], [5, 6]], np.int32)
    found = deadlock(waiting_kernel(OWN, "%mine"), 4, x)
    assert [n.message for n in found.notes if "waits" in n.message] == [
        "tile block (0, 0, 0) waits here for %x[0, 0], which is 3",
        "tile block (2, 0, 0) waits here for %x[1, 0], which is 5",
        "tile block (3, 0, 0) waits here for %x[1, 1], which is 6",
    ]
    alone = deadlock(waiting_kernel(OWN, "%mine"), 2, x)
    assert alone.message.startswith("1 tile block waits forever")


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_memory_of_a_block(seed: int) -> None:
    setup = """%area = alloca num_elem = 2, alignment = 4 : tile<ptr<i32>>
               %t0 = store_ptr_tko weak %area, %block : tile<ptr<i32>>, tile<i32> -> token"""
    found = deadlock(waiting_kernel(setup, "%area"), 2, np.zeros(1, np.int32), seed)
    assert sorted(n.message for n in found.notes if "waits" in n.message) == [
        "tile block (0, 0, 0) waits here for elements 0 of alloca memory, which is 0",
        "tile block (1, 0, 0) waits here for elements 0 of alloca memory, which is 1",
    ]


def test_a_tile_of_elements() -> None:
    module = checked("""
      entry @wait(%x: tile<ptr<i32>>) {
        %zeros = constant <i32: 0> : tile<8xi32>
        %base = reshape %x : tile<ptr<i32>> -> tile<1xptr<i32>>
        %bases = broadcast %base : tile<1xptr<i32>> -> tile<8xptr<i32>>
        %lane = iota : tile<8xi32>
        %all = offset %bases, %lane : tile<8xptr<i32>>, tile<8xi32> -> tile<8xptr<i32>>
        loop {
          %old, %t = atomic_rmw_tko relaxed device %all, add, %zeros
            : tile<8xptr<i32>>, tile<8xi32> -> tile<8xi32>, token
          continue
        }
      }""")
    found = deadlock(module, 1, np.arange(8, dtype=np.int32))
    assert found.notes[0].message == (
        "tile block (0, 0, 0) waits here for %x[0:8], which are 0, 1, 2, 3, ..."
    )


@pytest.mark.parametrize("level", ["cuda_tile", "nv_tileaa"])
def test_polls_that_are_counted_end(level: str) -> None:
    """However often blocks look while memory stays as it is: a counter says when they stop."""
    module = checked("""
      entry @wait(%x: tile<ptr<i32>>) {
        %block, %by, %bz = get_tile_block_id : tile<i32>
        %zero = constant <i32: 0> : tile<i32>
        %one = constant <i32: 1> : tile<i32>
        %many = constant <i32: 1500> : tile<i32>
        %seen = for %i in (%zero to %many, step %one) : tile<i32> iter_values(%sum = %one) -> (tile<i32>) {
          %v, %t = load_ptr_tko relaxed device %x : tile<ptr<i32>> -> tile<i32>, token
          %more = addi %sum, %v : tile<i32>
          continue %more : tile<i32>
        }
        %next = addi %block, %one : tile<i32>
        %mine = offset %x, %next : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
        %u = store_ptr_tko weak %mine, %seen : tile<ptr<i32>>, tile<i32> -> token
      }""")
    if level == "nv_tileaa":
        module = lower_to_tileaa(module).module
    x = np.array([2, 0, 0], np.int32)
    tilewright.run(module, "wait", 2, (x,))
    assert x.tolist() == [2, 3001, 3001]


SPIN = """
  entry @wait(%x: tile<ptr<i32>>) {{
    %block, %by, %bz = get_tile_block_id : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %many = constant <i32: {polls}> : tile<i32>
    %seen = loop iter_values(%looked = %zero) : tile<i32> -> tile<i32> {{
      %v, %t = load_ptr_tko acquire device %x : tile<ptr<i32>> -> tile<i32>, token
      %more = {next}
      %end = cmpi equal %more, %many, signed : tile<i32> -> tile<i1>
      if %end {{
        break %more : tile<i32>
      }}
      continue %more : tile<i32>
    }}
    %place = addi %block, %one : tile<i32>
    %mine = offset %x, %place : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %u = store_ptr_tko weak %mine, %seen : tile<ptr<i32>>, tile<i32> -> token
  }}"""
COUNTED = "addi %looked, %one : tile<i32>"
# 1, 2, 0, 1, 2, 0, ...
IN_A_CIRCLE = """addi %looked, %one : tile<i32>
      %three = constant <i32: 3> : tile<i32>
      %more = remi %grown, %three signed : tile<i32>"""


@pytest.mark.parametrize("sanitize", [False, True])
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_blocks_that_give_up_waiting_by_themselves_end(seed: int, sanitize: bool) -> None:
    """They count how often they have looked: their state does not repeat."""
    x = np.zeros(3, np.int32)
    options = LaunchOptions(seed=seed, sanitize=sanitize)
    tilewright.run(checked(SPIN.format(polls=3000, next=COUNTED)), "wait", 2, (x,), options=options)
    assert x.tolist() == [0, 3000, 3000]


@pytest.mark.parametrize("level", ["cuda_tile", "nv_tileaa"])
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_a_state_that_repeats_after_some_rounds_is_a_deadlock(level: str, seed: int) -> None:
    turning = SPIN.format(polls=9, next=IN_A_CIRCLE).replace("%more = addi", "%grown = addi")
    module = checked(turning)
    if level == "nv_tileaa":
        module = lower_to_tileaa(module).module
    found = deadlock(module, 2, np.zeros(3, np.int32), seed)
    assert found.message.startswith("2 tile blocks wait forever")


def test_blocks_that_count_without_end_are_stuck_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grid, "_MAX_IDLE_TURNS", 20_000)
    found = deadlock(checked(SPIN.format(polls=-1, next=COUNTED)), 2, np.zeros(3, np.int32))
    assert found.message.startswith("2 tile blocks wait forever")


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_a_deadlock_of_many_blocks_is_proven_within_a_few_rounds(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each looks at something else, and none of them is told before it has been seen to repeat."""
    monkeypatch.setattr(grid, "_MAX_IDLE_TURNS", 1 << 60)
    monkeypatch.setattr(grid, "_MAX_IDLE_ROUNDS", 1 << 60)
    found = deadlock(waiting_kernel(OWN, "%mine"), 70, np.zeros(70, np.int32), seed)
    assert found.message.startswith("70 tile blocks wait forever")
