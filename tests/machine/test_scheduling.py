"""Tile blocks that wait for one another, orders by seed, and runs that cannot end."""

from __future__ import annotations

import numpy as np
import pytest
from tests.machine.kernels import checked, run_body

from tilewright import LaunchOptions, run
from tilewright.diagnostics import Span, TileIRError
from tilewright.machine import Program

SEEDS = range(6)

#: A lock around an increment of ordinary memory.
LOCKED_INCREMENT = checked("""entry @k(%lock: tile<ptr<i32>>, %sum: tile<ptr<i32>>) {
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %got = loop : token {
    %old, %t = atomic_cas_tko acquire device %lock, %zero, %one
      : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    %won = cmpi equal %old, %zero, signed : tile<i32> -> tile<i1>
    if %won { break %t : token }
  }
  %x, %t1 = load_ptr_tko weak %sum token=%got : tile<ptr<i32>> -> tile<i32>, token
  %y = addi %x, %one : tile<i32>
  %t2 = store_ptr_tko weak %sum, %y token=%t1 : tile<ptr<i32>>, tile<i32> -> token
  %z, %t3 = atomic_rmw_tko release device %lock, xchg, %zero token=%t2
    : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
  return
}""")

#: Block 0 waits for block 1, which waits for block 2, and so on: only the last can start at once.
CHAIN = checked("""entry @k(%flags: tile<ptr<i32>>, %out: tile<ptr<i32>>) {
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %x, %y, %z = get_tile_block_id : tile<i32>
  %n, %ny, %nz = get_num_tile_blocks : tile<i32>
  %next = addi %x, %one : tile<i32>
  %mine = offset %flags, %x : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
  %theirs = offset %flags, %next : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
  %waits = cmpi less_than %next, %n, signed : tile<i32> -> tile<i1>
  %value = if %waits -> (tile<i32>) {
    %got = loop : tile<i32> {
      %f, %t = load_ptr_tko acquire device %theirs : tile<ptr<i32>> -> tile<i32>, token
      %set = cmpi not_equal %f, %zero, signed : tile<i32> -> tile<i1>
      if %set { break %f : tile<i32> }
    }
    yield %got : tile<i32>
  } else {
    yield %one : tile<i32>
  }
  %o = offset %out, %x : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
  %s = store_ptr_tko weak %o, %value : tile<ptr<i32>>, tile<i32> -> token
  %more = addi %value, %one : tile<i32>
  %r = store_ptr_tko release device %mine, %more token=%s : tile<ptr<i32>>, tile<i32> -> token
  return
}""")

TICKETS = checked("""entry @k(%counter: tile<ptr<i32>>, %order: tile<ptr<i32>>) {
  %one = constant <i32: 1> : tile<i32>
  %x, %y, %z = get_tile_block_id : tile<i32>
  %old, %t = atomic_rmw_tko relaxed device %counter, add, %one
    : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
  %p = offset %order, %old : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
  %s = store_ptr_tko weak %p, %x : tile<ptr<i32>>, tile<i32> -> token
  return
}""")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_spin_lock_protects(seed: int):
    lock, total = np.zeros(1, np.int32), np.zeros(1, np.int32)
    run(LOCKED_INCREMENT, grid=(30,), args=(lock, total), options=LaunchOptions(seed=seed))
    assert (lock[0], total[0]) == (0, 30)


@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_may_wait_for_later_ones(seed: int):
    flags, out = np.zeros(12, np.int32), np.zeros(12, np.int32)
    run(CHAIN, grid=(12,), args=(flags, out), options=LaunchOptions(seed=seed))
    assert out.tolist() == list(range(12, 0, -1))


def _order(seed: int, count: int = 16) -> list[int]:
    counter, order = np.zeros(1, np.int32), np.full(count, -1, np.int32)
    run(TICKETS, grid=(count,), args=(counter, order), options=LaunchOptions(seed=seed))
    assert counter[0] == count
    return order.tolist()


def test_seed_0_is_the_ascending_order():
    assert _order(0) == list(range(16))


def test_a_seed_gives_one_order_and_others_give_others():
    orders = [_order(seed) for seed in SEEDS]
    assert all(sorted(order) == list(range(16)) for order in orders)
    assert orders == [_order(seed) for seed in SEEDS]
    assert len({tuple(order) for order in orders}) == len(orders)


def test_blocks_of_plain_kernels_are_shuffled_too():
    body = """%x, %y, %z = get_tile_block_id : tile<i32>
    %t = print_tko "%d%d%d ", %x, %y, %z : tile<i32>, tile<i32>, tile<i32> -> token"""
    texts = [run_body(body, {}, {}, grid=(2, 2, 2), seed=seed)[1].text for seed in (0, 1, 1)]
    assert texts[0] == "000 100 010 110 001 101 011 111 "
    assert texts[1] == texts[2] != texts[0]
    assert sorted(texts[1].split()) == sorted(texts[0].split())


@pytest.mark.parametrize("seed", (0, 3))
def test_a_deadlock_is_reported(seed: int):
    lock, total = np.ones(1, np.int32), np.zeros(1, np.int32)
    with pytest.raises(TileIRError) as caught:
        run(LOCKED_INCREMENT, grid=(3,), args=(lock, total), options=LaunchOptions(seed=seed))
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "deadlock"
    assert "3 tile blocks" in diagnostic.message
    assert isinstance(diagnostic.location, Span)
    assert diagnostic.location.text.startswith("atomic_cas_tko")


def test_an_endless_loop_is_reported():
    with pytest.raises(TileIRError) as caught:
        run_body("loop { }", {}, {}, max_iterations=1000)
    assert caught.value.diagnostics[0].code == "step-limit"
    body = """%one = constant <i64: 1> : tile<i64>
    %all = constant <i64: -1> : tile<i64>
    for unsigned %i in (%one to %all, step %one) : tile<i64> { }"""
    with pytest.raises(TileIRError) as caught:
        run_body(body, {}, {})
    assert caught.value.diagnostics[0].code == "step-limit"


def test_return_leaves_loops_between_switch_points():
    body = """%one = constant <i32: 1> : tile<i32>
    loop {
      %x, %t = atomic_rmw_tko relaxed device %ptr_m, add, %one
        : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
      %nine = constant <i32: 9> : tile<i32>
      %c = cmpi equal %x, %nine, signed : tile<i32> -> tile<i1>
      if %c { return }
    }
    %s = store_ptr_tko weak %ptr_m, %zero : tile<ptr<i32>>, tile<i32> -> token"""
    found, _, _ = run_body(body, {}, {"m": np.zeros(1, np.int32)})
    assert found["m"][0] == 10


def test_alloca_lives_through_switch_points_and_ends_with_its_block():
    body = """%one = constant <i32: 1> : tile<i32>
    %five = constant <i32: 5> : tile<i32>
    for %i in (%zero to %five, step %one) : tile<i32> {
      %h = alloca num_elem = 1, alignment = 4 : tile<ptr<i32>>
      %old, %t = load_ptr_tko weak %h : tile<ptr<i32>> -> tile<i32>, token
      %s = store_ptr_tko weak %h, %one token=%t : tile<ptr<i32>>, tile<i32> -> token
      %x, %u = atomic_rmw_tko relaxed device %ptr_m, add, %one
        : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
      %y, %v = load_ptr_tko weak %h token=%s : tile<ptr<i32>> -> tile<i32>, token
      %d = subi %y, %old : tile<i32>
      %z, %w = atomic_rmw_tko relaxed device %ptr_m, add, %d
        : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    }"""
    for seed in SEEDS:
        found, _, _ = run_body(body, {}, {"m": np.zeros(1, np.int32)}, grid=(4,), seed=seed)
        assert found["m"][0] == 4 * 5 * 2


def test_progress_is_told():
    told: list[tuple[int, int]] = []
    Program(TICKETS).launch(
        grid=(3,),
        args=(np.zeros(1, np.int32), np.zeros(3, np.int32)),
        options=LaunchOptions(progress=lambda done, count: told.append((done, count))),
    )
    assert told == [(1, 3), (2, 3), (3, 3)]
