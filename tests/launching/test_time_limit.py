"""A limit of time on every machine: it ends a launch, and names the loop."""

from __future__ import annotations

import time

import numpy as np
import pytest

import tilewright
from tilewright import LaunchOptions, TileIRError

ENDLESS = """entry @k(%out: tile<ptr<i32>>, %bad: tile<i32>) {
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %block, %by, %bz = get_tile_block_id : tile<i32>
  %mine = cmpi equal %block, %bad, signed : tile<i32> -> tile<i1>
  if %mine {
    %r = loop iter_values(%i = %zero) : tile<i32> -> tile<i32> {
      %c = cmpi less_than %i, %zero, signed : tile<i32> -> tile<i1>
      if %c { break %i : tile<i32> }
      %j = andi %i, %one : tile<i32>
      continue %j : tile<i32>
    }
    %t = store_ptr_tko weak %out, %r : tile<ptr<i32>>, tile<i32> -> token
  }
}"""
LONG = """entry @k(%out: tile<ptr<i32>>, %bad: tile<i32>) {
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %block, %by, %bz = get_tile_block_id : tile<i32>
  %mine = cmpi equal %block, %bad, signed : tile<i32> -> tile<i1>
  %some = constant <i32: 2000000000> : tile<i32>
  %count = select %mine, %some, %one : tile<i1>, tile<i32>
  %r = for %a in (%zero to %count, step %one) : tile<i32> iter_values(%i = %zero) -> (tile<i32>) {
    %j = xori %i, %a : tile<i32>
    continue %j : tile<i32>
  }
  %t = store_ptr_tko weak %out, %r : tile<ptr<i32>>, tile<i32> -> token
}"""
MACHINES = ("reference", "cpu", "sim:sm_90a")


def limited(text: str, machine: str, grid: int, bad: int, limit: float) -> None:
    options = LaunchOptions(time_limit=limit)
    if machine != "cpu":
        options = LaunchOptions(time_limit=limit, max_iterations=2_000_000_001)
    module = tilewright.parse(text, "endless.tileir")
    tilewright.run(module, "k", grid, [np.zeros(1, np.int32), bad], machine, options)


@pytest.mark.parametrize(("text", "line"), [(ENDLESS, 7), (LONG, 8)])
@pytest.mark.parametrize("machine", MACHINES)
def test_the_loop_is_named(machine: str, text: str, line: int) -> None:
    limited(text, machine, 2, 7, 30)
    started = time.monotonic()
    with pytest.raises(TileIRError) as caught:
        limited(text, machine, 2, 1, 0.3)
    assert 0.3 <= time.monotonic() - started < 2.5
    (found,) = [d for d in caught.value.diagnostics if d.is_error]
    assert found.code == "time-limit"
    who = "warp 0 of block (1, 0, 0)" if machine.startswith("sim") else "tile block (1, 0, 0)"
    assert found.message == f"the launch exceeded its time limit of 0.3 s: {who} was in this loop"
    assert (found.file, found.line) == ("endless.tileir", line)


@pytest.mark.parametrize("machine", ["reference", "sim:sm_90a"])
def test_many_tile_blocks_without_loops(machine: str) -> None:
    text = "entry @k(%out: tile<ptr<i32>>, %bad: tile<i32>) { }"
    with pytest.raises(TileIRError, match=r"exceeded its time limit of 0\.2 s"):
        limited(text, machine, 10_000_000, 0, 0.2)


def test_a_checked_run_is_limited() -> None:
    module = tilewright.parse(ENDLESS)
    args = [np.zeros(1, np.int32), 0]
    with pytest.raises(TileIRError, match="was in this loop"):
        tilewright.run(module, "k", 1, args, options=LaunchOptions(sanitize=True, time_limit=0.2))
    trace = tilewright.LaunchOptions(time_limit=0.2, breakpoints=())
    with pytest.raises(TileIRError, match="was in this loop"):
        tilewright.run(module, "k", 1, args, options=trace)


def test_at_the_level_below() -> None:
    from tilewright.lowering import lower_to_tileaa

    module = lower_to_tileaa(tilewright.parse(ENDLESS)).module
    with pytest.raises(TileIRError, match=r"tile block \(0, 0, 0\) was in this loop"):
        tilewright.run(
            module, "k", 1, [np.zeros(1, np.int32), 0], options=LaunchOptions(time_limit=0.2)
        )


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan"), float("inf"), "1", True])
def test_limits_that_make_no_sense(seconds: object) -> None:
    with pytest.raises(TileIRError) as caught:
        LaunchOptions(time_limit=seconds)  # pyright: ignore[reportArgumentType]
    assert caught.value.diagnostics[0].code == "bad-run-option"
