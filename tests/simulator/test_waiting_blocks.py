"""Blocks that wait for one another: they end, in any order, or it is said who waits for what."""

from __future__ import annotations

import functools
import time
from typing import Any

import numpy as np
import pytest
from tests.machine.kernels import checked
from tests.machine.test_schedules import CIRCLE, KINDS, OPPOSITE, SAME, locks_kernel, memory
from tests.machine.test_scheduling import CHAIN, LOCKED_INCREMENT
from tests.sanitizer.cases import cases
from tests.simulator.kernels import codes, only, run

import tilewright
from tilewright import LaunchOptions
from tilewright.diagnostics import Span, TileIRError
from tilewright.simulator import SimulationResult

ARCHES = ("sm_80", "sm_90a", "sm_120a")
SEEDS = range(3)

every_arch = pytest.mark.parametrize("arch", ARCHES)
every_seed = pytest.mark.parametrize("seed", SEEDS)


#: A kernel is lowered once for all seeds.
loaded = functools.cache(tilewright.load)


def launch(
    module: Any, grid: int, args: Any, *, arch: str = "sm_90a", **options: Any
) -> SimulationResult:
    program = loaded(module, machine=f"sim:{arch}")
    return program.launch(None, (grid,), list(args), LaunchOptions(**options))  # pyright: ignore[reportReturnType]


def counters(*sizes: int) -> list[np.ndarray]:
    return [np.zeros(size, np.int32) for size in sizes]


# Kernels of tiles


@every_arch
@every_seed
def test_blocks_wait_for_later_ones(arch: str, seed: int) -> None:
    flags, out = counters(9, 9)
    launch(CHAIN, 9, (flags, out), arch=arch, seed=seed)
    assert out.tolist() == list(range(9, 0, -1))


@every_arch
@every_seed
def test_a_spin_lock_protects(arch: str, seed: int) -> None:
    lock, total = counters(1, 1)
    launch(LOCKED_INCREMENT, 12, (lock, total), arch=arch, seed=seed)
    assert (lock[0], total[0]) == (0, 12)


@pytest.mark.parametrize("optimization", (0, 1))
def test_both_lowerings_wait(optimization: int) -> None:
    flags, out = counters(5, 5)
    launch(CHAIN, 5, (flags, out), optimization=optimization)
    assert out.tolist() == [5, 4, 3, 2, 1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order, grid", [(OPPOSITE, 2), (CIRCLE, 3)])
def test_locks_in_opposite_orders_are_found_under_a_few_seeds(
    order: str, grid: int, kind: dict[str, Any]
) -> None:
    with pytest.raises(TileIRError) as caught:
        launch(locks_kernel(order, **kind), grid, memory(), seeds=8)
    assert caught.value.diagnostics[-1].code == "sim-deadlock"


@pytest.mark.parametrize("kind", KINDS)
def test_locks_in_one_order_pass_under_all_of_them(kind: dict[str, Any]) -> None:
    locks, total = memory()
    launch(locks_kernel(SAME, **kind), 5, (locks, total), seeds=8)
    assert total[0] == 5


WAITING = {
    "deadlock-flag-never-set": 1,
    "deadlock-lock-kept": 1,
    "deadlock-lock-order": 8,
    "deadlock-lock-twice": 1,
    "deadlock-missing-block": 1,
    "deadlock-turns": 1,
    "deadlock-wait-for-each-other": 1,
    "deadlock-wrong-value": 1,
}


def test_every_case_of_the_sanitizer_is_here() -> None:
    assert set(WAITING) == {c.kind for c in cases() if c.kind.startswith("deadlock")}


@pytest.mark.parametrize("kind", WAITING)
def test_deadlocks_of_the_sanitizers_corpus(kind: str) -> None:
    (case,) = (case for case in cases() if case.kind == kind)
    program = tilewright.load(case.module(), machine="sim:sm_90a")
    options = LaunchOptions(seeds=WAITING[kind], allow_overlap=True)
    with pytest.raises(TileIRError) as caught:
        program.launch(case.symbol("bug"), case.grid, list(case.arguments(0).values()), options)
    found = caught.value.diagnostics[-1]
    assert found.code == "sim-deadlock" and isinstance(found.location, Span)
    program.launch(case.symbol("twin"), case.grid, list(case.arguments(0).values()), options)


def test_a_deadlock_tells_who_waits_where_and_for_what() -> None:
    with pytest.raises(TileIRError) as caught:
        launch(CHAIN, 7, counters(7, 7), resident=2)
    (found,) = caught.value.diagnostics
    assert "2 blocks wait forever" in found.message
    assert "(0, 0, 0), (1, 0, 0)" in found.message
    assert isinstance(found.location, Span) and "load_ptr_tko" in found.location.text
    notes = [note.message for note in found.notes]
    assert any("this loop does not end in blocks (0, 0, 0), (1, 0, 0)" in n for n in notes)
    assert any("asked here for byte 4 of argument 'flags', which held 0" in n for n in notes)
    assert any("5 blocks have not started, as at most 2 are" in n for n in notes)


@every_seed
def test_limited_residency_holds_under_every_seed(seed: int) -> None:
    with pytest.raises(TileIRError) as caught:
        launch(CHAIN, 4, counters(4, 4), resident=3, seed=seed)
    assert caught.value.diagnostics[0].code == "sim-deadlock"
    flags, out = counters(4, 4)
    launch(CHAIN, 4, (flags, out), resident=4, seed=seed)
    assert out.tolist() == [4, 3, 2, 1]


# Kernels of threads

#: The whole block waits for a counter that every block adds to.
GRID_BARRIER = """\
%one = arith.constant 1 : i32
scf.if %first {
  %old = llvm.atomicrmw add %counter, %one acq_rel : !llvm.ptr<1>, i32
  scf.while : () -> () {
    %now = llvm.load %counter atomic acquire {alignment = 4 : i64} : !llvm.ptr<1> -> i32
    %less = arith.cmpi slt, %now, %n : i32
    scf.condition(%less)
  } do {
    scf.yield
  }
}
gpu.barrier
"""
PARAMETERS = "%counter: !llvm.ptr<1>, %n: i32"


@pytest.mark.parametrize("in_groups", (None, True, False))
@every_seed
def test_a_grid_barrier_ends_where_the_grid_fits(seed: int, in_groups: bool | None) -> None:
    found = run(
        GRID_BARRIER,
        PARAMETERS,
        [*counters(1), 20],
        grid=20,
        block=128,
        seed=seed,
        in_groups=in_groups,
    )
    assert found.completed and not found.diagnostics


def test_a_grid_barrier_hangs_where_the_grid_does_not_fit() -> None:
    """A block has nearly all shared memory of a multiprocessor, and the GPU has 132 of these."""
    big = {"dynamic_shared_bytes": 200 << 10}
    assert run(GRID_BARRIER, PARAMETERS, [*counters(1), 132], grid=132, **big).completed
    found = run(GRID_BARRIER, PARAMETERS, [*counters(1), 133], grid=133, **big)
    assert "132 blocks wait forever" in only(found, "sim-deadlock").message
    assert any("1 block has not started" in note.message for note in found.diagnostics[0].notes)


@pytest.mark.parametrize("seed", range(1, 5))
def test_many_warps_that_wait_are_told_too(seed: int) -> None:
    body = """\
%one = arith.constant 1 : i32
scf.if %first {
  %old = llvm.atomicrmw add %counter, %one acq_rel : !llvm.ptr<1>, i32
}
scf.while : () -> () {
  %now = llvm.load %counter atomic acquire {alignment = 4 : i64} : !llvm.ptr<1> -> i32
  %less = arith.cmpi slt, %now, %n : i32
  scf.condition(%less)
} do {
  scf.yield
}
"""
    options: dict[str, Any] = {"grid": 2, "block": 1024, "seed": seed}
    assert run(body, PARAMETERS, [*counters(1), 2], **options).completed
    assert codes(run(body, PARAMETERS, [*counters(1), 3], **options)) == {"sim-deadlock"}


def test_clusters_count_as_blocks() -> None:
    options: dict[str, Any] = {"grid": 4, "cluster": 2}
    assert run(GRID_BARRIER, PARAMETERS, [*counters(1), 4], **options).completed
    found = run(GRID_BARRIER, PARAMETERS, [*counters(1), 4], resident=2, **options)
    assert codes(found) == {"sim-deadlock"}


BRANCHES = """\
%one = arith.constant 1 : i32
cf.cond_br %first, ^add, ^end
^add:
%old = llvm.atomicrmw add %counter, %one acq_rel : !llvm.ptr<1>, i32
cf.br ^wait
^wait:
%now = llvm.load %counter atomic acquire {alignment = 4 : i64} : !llvm.ptr<1> -> i32
%less = arith.cmpi slt, %now, %n : i32
cf.cond_br %less, ^wait, ^end
^end:
"""
BY_MEMREF = """\
%one = arith.constant 1 : i32
scf.if %first {
  %old = memref.atomic_rmw addi %one, %counter[%c0] : (i32, memref<1xi32>) -> i32
  scf.while : () -> () {
    %now = memref.load %counter[%c0] : memref<1xi32>
    %less = arith.cmpi slt, %now, %n : i32
    scf.condition(%less)
  } do {
    scf.yield
  }
}
"""
BY_EXCHANGE = """\
%one = arith.constant 1 : i32
%zero = arith.constant 0 : i32
scf.if %first {
  %old = llvm.atomicrmw add %counter, %one acq_rel : !llvm.ptr<1>, i32
  scf.while : () -> () {
    %now = llvm.atomicrmw add %counter, %zero acquire : !llvm.ptr<1>, i32
    %less = arith.cmpi slt, %now, %n : i32
    scf.condition(%less)
  } do {
    scf.yield
  }
}
"""


@pytest.mark.parametrize(
    "body, parameters",
    [
        (BRANCHES, PARAMETERS),
        (BY_MEMREF, "%counter: memref<1xi32>, %n: i32"),
        (BY_EXCHANGE, PARAMETERS),
    ],
    ids=["branches", "memref", "update-that-changes-nothing"],
)
@every_seed
def test_other_ways_to_ask(body: str, parameters: str, seed: int) -> None:
    assert run(body, parameters, [*counters(1), 6], grid=6, block=64, seed=seed).completed
    found = run(body, parameters, [*counters(1), 7], grid=6, block=64, seed=seed)
    assert "6 blocks wait" in only(found, "sim-deadlock").message


#: A warp waits for what another one of its block writes to global memory.
WITHIN = """\
%one = arith.constant 1 : i32
%zero = arith.constant 0 : i32
%is0 = arith.cmpi eq, %warp, {waits} : index
scf.if %is0 {{
  scf.while : () -> () {{
    %now = llvm.load %counter atomic acquire {{alignment = 4 : i64}} : !llvm.ptr<1> -> i32
    %less = arith.cmpi eq, %now, %zero : i32
    scf.condition(%less)
  }} do {{
    scf.yield
  }}
}} else {{
  llvm.store %one, %counter atomic release {{alignment = 4 : i64}} : i32, !llvm.ptr<1>
}}
"""


@pytest.mark.parametrize("waits", ("%c0", "%c1"))
@every_seed
def test_warps_of_a_block_wait_by_global_memory(seed: int, waits: str) -> None:
    body = WITHIN.format(waits=waits)
    found = run(body, "%counter: !llvm.ptr<1>", counters(1), block=64, seed=seed)
    assert found.completed and not found.diagnostics


GIVES_UP = """\
%one = arith.constant 1 : i32
%zero = arith.constant 0 : i32
%tries = scf.while (%tried = %zero) : (i32) -> i32 {
  %now = llvm.load %counter atomic acquire {alignment = 4 : i64} : !llvm.ptr<1> -> i32
  %unset = arith.cmpi eq, %now, %zero : i32
  %few = arith.cmpi slt, %tried, %n : i32
  %on = arith.andi %unset, %few : i1
  scf.condition(%on) %tried : i32
} do {
^bb0(%t: i32):
  %more = arith.addi %t, %one : i32
  scf.yield %more : i32
}
scf.if %first {
  llvm.store %tries, %out {alignment = 4 : i64} : i32, !llvm.ptr<1>
}
"""


def test_a_block_that_gives_up_is_no_deadlock() -> None:
    counter, out = counters(1, 1)
    found = run(
        GIVES_UP,
        "%counter: !llvm.ptr<1>, %n: i32, %out: !llvm.ptr<1>",
        [counter, 5000, out],
        grid=3,
    )
    assert found.completed and out[0] == 5000


READS_ONLY = """\
%zero = arith.constant 0 : i32
%one = arith.constant 1 : i32
%last = scf.while (%i = %zero) : (i32) -> i32 {
  %x = llvm.load %counter {alignment = 4 : i64} : !llvm.ptr<1> -> i32
  %next = arith.addi %i, %one : i32
  %on = arith.cmpi slt, %next, %n : i32
  scf.condition(%on) %next : i32
} do {
^bb0(%t: i32):
  scf.yield %t : i32
}
%drawn = llvm.atomicrmw add %counter, %one acq_rel : !llvm.ptr<1>, i32
"""


def test_blocks_that_do_not_wait_run_one_after_the_other() -> None:
    """The order in which they draw numbers is that of their begin."""
    module = checked("""entry @k(%counter: tile<ptr<i32>>, %order: tile<ptr<i32>>) {
      %one = constant <i32: 1> : tile<i32>
      %x, %y, %z = get_tile_block_id : tile<i32>
      %old, %t = atomic_rmw_tko relaxed device %counter, add, %one
        : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
      %p = offset %order, %old : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
      %s = store_ptr_tko weak %p, %x : tile<ptr<i32>>, tile<i32> -> token
      return
    }""")
    orders: list[list[int]] = []
    for seed in (0, 0, 1, 2):
        counter, order = counters(1, 12)
        launch(module, 12, (counter, order), seed=seed)
        assert sorted(order.tolist()) == list(range(12))
        orders.append(order.tolist())
    assert orders[0] == orders[1] == list(range(12))
    assert len({tuple(order) for order in orders}) == 3


def test_several_seeds_begin_from_the_same_memory() -> None:
    """Each launch adds to what it finds; the result is that of one launch."""
    lock, total = counters(1, 1)
    total[0] = 100
    found = launch(LOCKED_INCREMENT, 4, (lock, total), seeds=5)
    assert total[0] == 104 and found.seed == 4
    found = launch(LOCKED_INCREMENT, 4, (lock, total), seeds=[7, 3])
    assert total[0] == 108 and found.seed == 3


def test_the_first_seed_with_an_error_is_told() -> None:
    locks, total = memory()
    module = locks_kernel(OPPOSITE, tickets=False, by="store")
    found = launch(module, 2, (locks, total), seeds=8, strict=False)
    assert found.errors and found.seed > 0
    again = launch(module, 2, memory(), seed=found.seed, strict=False)
    assert again.errors == found.errors


def test_time_limits_hold_while_blocks_wait() -> None:
    """A lock that is never free, with blocks that change memory all the time."""
    body = """\
%one = arith.constant 1 : i32
scf.while : () -> () {
  %old = llvm.atomicrmw add %counter, %one acq_rel : !llvm.ptr<1>, i32
  %on = arith.cmpi ne, %n, %one : i32
  scf.condition(%on)
} do {
  scf.yield
}
"""
    began = time.perf_counter()
    found = run(body, PARAMETERS, [*counters(1), 0], grid=2, time_limit=0.5)
    assert codes(found) == {"time-limit"}
    assert time.perf_counter() - began < 30
