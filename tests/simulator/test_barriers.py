"""Phases, parities and tokens of mbarriers; named barriers; barriers of clusters."""

from __future__ import annotations

import numpy as np
import pytest
from tests.simulator.kernels import codes, run

from tilewright.simulator.compile import IMPLEMENTATIONS
from tilewright.simulator.state import MBarrier

INIT = """
%bar = nvgpu.mbarrier.create -> !bars
scf.if %first {
  nvgpu.mbarrier.init %bar[%c0], %n : !bars
}
gpu.barrier
"""


class _Block:
    """What a barrier asks of its block."""

    class cluster:
        progress = 0

    @staticmethod
    def new_clock() -> np.ndarray:
        return np.zeros(1, np.int64)


def barrier(expected: int) -> MBarrier:
    made = MBarrier(0, "b", _Block())  # pyright: ignore[reportArgumentType]
    made.valid, made.expected, made.pending = True, expected, expected
    return made


def test_phase_needs_arrivals_and_bytes() -> None:
    b = barrier(2)
    b.tx, b.pending = 64, 0
    b.settle()
    assert b.phase == 0
    b.tx = 0
    b.settle()
    assert (b.phase, b.pending, b.tx) == (1, 2, 0)


def test_bytes_may_come_before_they_are_expected() -> None:
    b = barrier(1)
    b.tx -= 64
    b.settle()
    assert b.phase == 0 and "64 bytes more than expected" in b.missing()
    b.tx += 64
    b.pending = 0
    b.settle()
    assert b.phase == 1


def test_missing_says_what() -> None:
    b = barrier(3)
    b.tx = 16
    assert b.missing() == "3 of 3 arrivals are missing and 16 bytes of copies are missing"


def test_fresh_barrier_has_parity_one_behind_it() -> None:
    wait = "nvgpu.mbarrier.try_wait.parity %bar[%c0], %{}, %ticks : !bars"
    init = "%n = arith.addi %c0, %c1 : index\n" + INIT
    assert not run(init + wait.format("odd")).diagnostics
    assert codes(run(init + wait.format("even"))) == {"sim-deadlock"}


@pytest.mark.parametrize("seed", range(4))
def test_tokens_and_test_wait(seed: int) -> None:
    """Two warps meet at an mbarrier by asking again and again, as on Ampere."""
    out = np.zeros(64, np.float32)
    body = (
        "%n = arith.addi %c32, %c32 : index\n"
        + INIT
        + """
    %x = arith.constant 3.0 : f32
    memref.store %x, %words[%tid] : memref<256xf32, 3>
    %token = nvgpu.mbarrier.arrive %bar[%c0] : !bars -> !token
    %never = scf.while (%i = %c0) : (index) -> index {
      %done = nvgpu.mbarrier.test.wait %bar[%c0], %token : !bars, !token
      %again = arith.xori %done, %odd : i1
      scf.condition(%again) %i : index
    } do {
    ^bb0(%i: index):
      scf.yield %i : index
    }
    %m = arith.addi %tid, %c32 : index
    %other = arith.remui %m, %c64 : index
    %y = memref.load %words[%other] : memref<256xf32, 3>
    memref.store %y, %out[%tid] : memref<64xf32>
    """
    )
    result = run(body, "%out: memref<64xf32>", [out], block=64, arch="sm_80", seed=seed)
    assert not result.diagnostics, [d.brief() for d in result.diagnostics]
    assert (out == 3).all()


def test_asking_for_ever_is_a_deadlock() -> None:
    body = (
        "%n = arith.addi %c32, %c32 : index\n"
        + INIT
        + """
    %token = nvgpu.mbarrier.arrive %bar[%c0] : !bars -> !token
    %never = scf.while (%i = %c0) : (index) -> index {
      %done = nvgpu.mbarrier.test.wait %bar[%c0], %token : !bars, !token
      %again = arith.xori %done, %odd : i1
      scf.condition(%again) %i : index
    } do {
    ^bb0(%i: index):
      scf.yield %i : index
    }
    """
    )
    (found,) = run(body).diagnostics
    assert found.code == "sim-deadlock"
    assert "poll for the end" in found.notes[0].message


def test_arrivals_that_do_not_end_a_phase() -> None:
    body = "%n = arith.addi %c64, %c32 : index\n" + INIT
    two = "%t = nvgpu.mbarrier.arrive.nocomplete %bar[%c0], %c2 : !bars -> !token\n"
    rest = "%u = nvgpu.mbarrier.arrive %bar[%c0] : !bars -> !token\n"
    wait = "nvgpu.mbarrier.try_wait.parity %bar[%c0], %even, %ticks : !bars"
    assert not run(body + two + rest + wait).diagnostics
    assert codes(run(body + two + rest + two.replace("%t ", "%v ").replace("%c2", "%c4"))) == {
        "sim-arrival-count"
    }


NAMED = """
%id = arith.constant {} : i32
%threads = arith.constant {} : i32
%x = arith.constant 1.0 : f32
%is = arith.cmpi eq, %warp, %c0 : index
scf.if %is {{
  memref.store %x, %words[%lane] : memref<256xf32, 3>
  {} id = %id number_of_threads = %threads
}} else {{
  nvvm.barrier id = %id number_of_threads = %threads
  %y = memref.load %words[%lane] : memref<256xf32, 3>
}}
"""


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("first", ["nvvm.barrier", "nvvm.barrier.arrive"])
def test_named_barriers_order(first: str, seed: int) -> None:
    assert not run(NAMED.format(1, 64, first), block=64, seed=seed).diagnostics


@pytest.mark.parametrize(("number", "threads"), [(16, 64), (1, 33), (1, 128), (1, 0)])
def test_impossible_named_barriers(number: int, threads: int) -> None:
    body = NAMED.format(number, threads, "nvvm.barrier")
    assert codes(run(body, block=64)) == {"sim-barrier-state"}


def test_barriers_of_clusters() -> None:
    out = np.zeros(4, np.int32)
    body = """
    %block = gpu.block_id x
    %id = gpu.cluster_id x
    %rank = gpu.cluster_block_id x
    %ten = arith.constant 10 : index
    %big = arith.muli %id, %ten : index
    %sum = arith.addi %big, %rank : index
    nvvm.cluster.arrive
    nvvm.cluster.wait
    %word = arith.index_cast %sum : index to i32
    scf.if %first {
      memref.store %word, %out[%block] : memref<4xi32>
    }
    """
    assert not run(body, "%out: memref<4xi32>", [out], grid=4, cluster=2).diagnostics
    assert out.tolist() == [0, 1, 10, 11]
    half = body.replace(
        "nvvm.cluster.arrive\n",
        "%z = arith.cmpi eq, %rank, %c0 : index\nscf.if %z {\nnvvm.cluster.arrive\n}\n",
    )
    found = run(half, "%out: memref<4xi32>", [out], grid=2, cluster=2).diagnostics
    assert [d.code for d in found] == ["sim-deadlock"]


@pytest.mark.parametrize("arrive", ["nvvm.cluster.arrive", "nvvm.cluster.arrive.relaxed"])
def test_relaxed_arrivals_publish_no_writes(arrive: str) -> None:
    """What one warp has written, another reads behind the barrier of the cluster."""
    out = np.zeros(128, np.int32)
    body = f"""
    %rank = gpu.cluster_block_id x
    %words_of_block = arith.muli %rank, %c64 : index
    %at = arith.addi %words_of_block, %lane : index
    %word = arith.constant 7 : i32
    %writes = arith.cmpi eq, %warp, %c0 : index
    scf.if %writes {{
      memref.store %word, %out[%at] : memref<128xi32>
    }}
    {arrive}
    nvvm.cluster.wait
    %reads = arith.cmpi ne, %warp, %c0 : index
    scf.if %reads {{
      %seen = memref.load %out[%at] : memref<128xi32>
      %behind = arith.addi %at, %c32 : index
      memref.store %seen, %out[%behind] : memref<128xi32>
    }}
    """
    result = run(body, "%out: memref<128xi32>", [out], block=64, grid=2, cluster=2)
    assert codes(result) == ({"sim-race"} if arrive.endswith("relaxed") else set())


def test_every_operation_of_nvgpu_runs() -> None:
    """But the one of the host."""
    from tilewright.dialects.nvgpu import load

    names = {op.name for op in load().operations}
    assert names - set(IMPLEMENTATIONS) == {"nvgpu.tma.create.descriptor"}
