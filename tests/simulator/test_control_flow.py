"""Lanes that go apart and meet again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.simulator.kernels import codes, run

OUT = "%out: memref<64xi32>"


def result_of(body: str, *, block: int = 64, **options: Any) -> np.ndarray:
    out = np.full(64, -1, np.int32)
    result = run(body, OUT, [out], block=block, **options)
    assert not result.diagnostics, [d.brief() for d in result.diagnostics]
    return out


STORE = """
%word = arith.index_cast %value : index to i32
memref.store %word, %out[%tid] : memref<64xi32>
"""
TID = np.arange(64)


def test_if_with_results() -> None:
    body = """
    %odd_bit = arith.remui %tid, %c2 : index
    %is_odd = arith.cmpi eq, %odd_bit, %c1 : index
    %value = scf.if %is_odd -> (index) {
      %x = arith.muli %tid, %c2 : index
      scf.yield %x : index
    } else {
      scf.yield %c8 : index
    }"""
    assert (result_of(body + STORE) == np.where(TID % 2, 2 * TID, 8)).all()


def test_if_without_else_writes_its_lanes_only() -> None:
    body = """
    %less = arith.cmpi ult, %tid, %c8 : index
    scf.if %less {
      %one = arith.constant 1 : i32
      memref.store %one, %out[%tid] : memref<64xi32>
    }"""
    assert (result_of(body) == np.where(TID < 8, 1, -1)).all()


def test_for_with_other_bounds_in_each_lane() -> None:
    body = """
    %value = scf.for %i = %c0 to %tid step %c2 iter_args(%sum = %c0) -> (index) {
      %next = arith.addi %sum, %i : index
      scf.yield %next : index
    }"""
    assert (result_of(body + STORE) == [sum(range(0, t, 2)) for t in TID]).all()


def test_while_with_other_turns_in_each_lane() -> None:
    """The number of Collatz steps."""
    body = """
    %begin = arith.addi %tid, %c1 : index
    %three = arith.constant 3 : index
    %last, %value = scf.while (%n = %begin, %count = %c0) : (index, index) -> (index, index) {
      %more = arith.cmpi ugt, %n, %c1 : index
      scf.condition(%more) %n, %count : index, index
    } do {
    ^bb0(%n: index, %count: index):
      %bit = arith.remui %n, %c2 : index
      %is_odd = arith.cmpi eq, %bit, %c1 : index
      %tripled = arith.muli %n, %three : index
      %up = arith.addi %tripled, %c1 : index
      %down = arith.divui %n, %c2 : index
      %m = arith.select %is_odd, %up, %down : index
      %next = arith.addi %count, %c1 : index
      scf.yield %m, %next : index, index
    }"""

    def collatz(n: int) -> int:
        steps = 0
        while n > 1:
            n, steps = (3 * n + 1 if n % 2 else n // 2), steps + 1
        return steps

    assert (result_of(body + STORE) == [collatz(t + 1) for t in TID]).all()


def test_branches_meet_again() -> None:
    """Behind the join, all lanes take part in a shuffle."""
    body = """
    %odd_bit = arith.remui %lane, %c2 : index
    %is_odd = arith.cmpi eq, %odd_bit, %c1 : index
    cf.cond_br %is_odd, ^one(%tid : index), ^other
  ^one(%x: index):
    %y = arith.addi %x, %c64 : index
    cf.br ^join(%y : index)
  ^other:
    cf.br ^join(%c0 : index)
  ^join(%joined: index):
    %word = arith.index_cast %joined : index to i32
    %o = arith.constant 1 : i32
    %w = arith.constant 32 : i32
    %got, %ok = gpu.shuffle xor %word, %o, %w : i32
    memref.store %got, %out[%tid] : memref<64xi32>
    cf.br ^end
  ^end:"""
    assert (result_of(body) == np.where(TID % 2, 0, (TID ^ 1) + 64)).all()


def test_loops_of_blocks_wait_for_all_lanes() -> None:
    body = """
    cf.br ^head(%c0, %c0 : index, index)
  ^head(%i: index, %sum: index):
    %more = arith.cmpi ult, %i, %lane : index
    cf.cond_br %more, ^turn, ^done
  ^done:
    %word = arith.index_cast %sum : index to i32
    %total = gpu.subgroup_reduce add %word : (i32) -> i32
    memref.store %total, %out[%tid] : memref<64xi32>
    cf.br ^end
  ^turn:
    %s = arith.addi %sum, %i : index
    %j = arith.addi %i, %c1 : index
    cf.br ^head(%j, %s : index, index)
  ^end:"""
    assert (result_of(body) == sum(sum(range(lane)) for lane in range(32))).all()


def test_switch() -> None:
    body = """
    %rest = arith.remui %tid, %c4 : index
    %case = arith.index_cast %rest : index to i32
    cf.switch %case : i32, [
      default: ^join(%c64 : index),
      0: ^join(%c1 : index),
      2: ^two
    ]
  ^two:
    cf.br ^join(%tid : index)
  ^join(%value: index):
    %word = arith.index_cast %value : index to i32
    memref.store %word, %out[%tid] : memref<64xi32>
    cf.br ^end
  ^end:"""
    wanted = np.select([TID % 4 == 0, TID % 4 == 2], [1, TID], 64)
    assert (result_of(body) == wanted).all()


def test_lanes_that_returned_do_not_hold_up_a_barrier() -> None:
    body = """
    %early = arith.cmpi ult, %lane, %c8 : index
    cf.cond_br %early, ^leave, ^stay
  ^leave:
    gpu.return
  ^stay:
    gpu.barrier
    %one = arith.constant 1 : i32
    memref.store %one, %out[%tid] : memref<64xi32>
    cf.br ^end
  ^end:"""
    assert (result_of(body) == np.where(TID % 32 < 8, -1, 1)).all()


def test_calls() -> None:
    functions = """
    func.func @twice(%x: index) -> index {
      %two = arith.constant 2 : index
      %big = arith.constant 100 : index
      %is = arith.cmpi ugt, %x, %two : index
      cf.cond_br %is, ^more, ^less
    ^more:
      %y = arith.muli %x, %two : index
      func.return %y : index
    ^less:
      func.return %big : index
    }
    """
    body = """
    %first_value = func.call @twice(%tid) : (index) -> index
    %value = func.call @twice(%first_value) : (index) -> index"""
    once = np.where(TID > 2, 2 * TID, 100)
    found = result_of(body + STORE, functions=functions)
    assert (found == np.where(once > 2, 2 * once, 100)).all()


def test_recursion_is_refused() -> None:
    functions = """
    func.func @f(%x: index) -> index {
      %y = func.call @f(%x) : (index) -> index
      func.return %y : index
    }
    """
    with pytest.raises(Exception, match="is recursive"):
        run("%v = func.call @f(%tid) : (index) -> index", functions=functions)


def test_loop_without_end_is_reported() -> None:
    body = """
    %never = scf.while (%i = %c0) : (index) -> index {
      scf.condition(%odd) %i : index
    } do {
    ^bb0(%i: index):
      scf.yield %i : index
    }"""
    assert codes(run(body, max_iterations=1000)) == {"sim-step-limit"}
    assert codes(run("cf.br ^a\n^a:\ncf.br ^a\n^b:", max_iterations=1000)) == {"sim-step-limit"}


def test_assertions() -> None:
    body = '%ok = arith.cmpi ult, %tid, %c16 : index\ncf.assert %ok, "too far"'
    (found,) = run(body).diagnostics
    assert found.code == "sim-assertion" and "too far" in found.message
    assert not run(body, block=16).diagnostics


def test_division_by_zero_in_idle_lanes_is_fine() -> None:
    body = """
    %some = arith.cmpi ugt, %tid, %c0 : index
    %value = scf.if %some -> (index) {
      %q = arith.divui %c64, %tid : index
      scf.yield %q : index
    } else {
      scf.yield %c0 : index
    }"""
    assert (result_of(body + STORE)[1:] == 64 // TID[1:]).all()
    bad = run("%q = arith.divui %c64, %tid : index")
    assert codes(bad) == {"sim-undefined-arithmetic"}
