"""Barriers at their limits: counts, indices, warps that end, what deadlocks tell, and when waits end."""

from __future__ import annotations

import numpy as np
import pytest
from tests.simulator.kernels import codes, run

from tilewright.simulator import SimulationResult

MAX_COUNT = 2**20 - 1
INIT = """
%bar = nvgpu.mbarrier.create -> !bars
%n = arith.constant {} : index
scf.if %first {{
  nvgpu.mbarrier.init %bar[{}], %n : !bars
}}
gpu.barrier
"""
ARRIVE = "%{} = nvgpu.mbarrier.arrive %bar[{}] : !bars -> !token\n"
WAIT = "nvgpu.mbarrier.try_wait.parity %bar[{}], %{}, %ticks : !bars\n"
EXPECT = """
%bytes = arith.constant {} : index
scf.if %first {{
  nvgpu.mbarrier.arrive.expect_tx %bar[%c0], %bytes : !bars
}}
"""


def told(result: SimulationResult) -> str:
    """What the only finding says, with its notes."""
    (found,) = result.diagnostics
    return "\n".join([found.message, *(note.message for note in found.notes)])


def test_warps_that_end_are_not_waited_for() -> None:
    body = "%is = arith.cmpi eq, %warp, %c0 : index\nscf.if %is {\ngpu.barrier\n}\n"
    for seed in range(4):
        assert not run(body, block=64, seed=seed).diagnostics


def test_a_deadlock_names_the_threads_that_lack() -> None:
    """Warp 2 waits elsewhere; warp 3 has ended, and is not missed."""
    body = """
    %one = arith.constant 1 : i32
    %two = arith.constant 2 : i32
    %many = arith.constant 96 : i32
    %low = arith.cmpi ult, %warp, %c2 : index
    %c3 = arith.constant 3 : index
    %is2 = arith.cmpi eq, %warp, %c2 : index
    scf.if %low {
      nvvm.barrier id = %one number_of_threads = %many
    }
    scf.if %is2 {
      nvvm.barrier id = %two number_of_threads = %many
    }
    """
    text = told(run(body, block=128))
    assert "barrier 1 of the block, where 64 of 96 threads have arrived; not there: warps 2" in text
    assert "warps 2, 3" not in text
    assert (
        "barrier 2 of the block, where 32 of 96 threads have arrived; not there: warps 0, 1" in text
    )


def test_a_deadlock_at_a_barrier_for_all_tells_how_many_are_missing() -> None:
    """Warp 1 waits for a phase that never ends."""
    body = INIT.format(32, "%c0") + "%is = arith.cmpi eq, %warp, %c0 : index\nscf.if %is {\n"
    body += "gpu.barrier\n} else {\n" + WAIT.format("%c0", "even") + "}\n"
    text = told(run(body, block=64))
    assert "where 32 of 64 threads have arrived; not there: warps 1" in text


@pytest.mark.parametrize(
    "count, fits", [(0, False), (1, True), (MAX_COUNT, True), (MAX_COUNT + 1, False)]
)
def test_arrivals_that_a_barrier_can_wait_for(count: int, fits: bool) -> None:
    found = codes(run(INIT.format(count, "%c0")))
    assert found == (set() if fits else {"sim-arrival-count"})


def test_lanes_that_disagree_on_the_number_of_arrivals() -> None:
    body = "%bar = nvgpu.mbarrier.create -> !bars\nnvgpu.mbarrier.init %bar[%c0], %tid : !bars\n"
    found = run(body).diagnostics
    assert "cannot wait for None arrivals" in found[0].message


@pytest.mark.parametrize("index", [0, 1, 2, 8])
def test_a_group_has_the_barriers_that_it_was_made_with(index: int) -> None:
    found = run(f"%at = arith.constant {index} : index\n" + INIT.format(32, "%at")).diagnostics
    assert [d.code for d in found] == ([] if index < 2 else ["sim-out-of-bounds"])
    assert index < 2 or f"names barrier {index} of 2" in found[0].message


@pytest.mark.parametrize(
    "expected, fits", [(0, True), (1, True), (MAX_COUNT, True), (MAX_COUNT + 1, False)]
)
def test_bytes_that_a_phase_can_expect(expected: int, fits: bool) -> None:
    found = run(INIT.format(32, "%c0") + EXPECT.format(expected)).diagnostics
    refused = [d.message for d in found if "the most is 1048575" in d.message]
    assert len(refused) == (not fits)


def test_bytes_are_expected_by_each_thread() -> None:
    """What 32 threads expect, a phase must be able to count."""
    expect = "nvgpu.mbarrier.arrive.expect_tx %bar[%c0], %bytes : !bars\n"
    most = MAX_COUNT // 32
    for each, refused in ((most, False), (most + 1, True)):
        bytes_ = f"%bytes = arith.constant {each} : index\n"
        result = run(INIT.format(64, "%c0") + bytes_ + expect)
        told = [d.message for d in result.diagnostics if "brings the bytes" in d.message]
        assert len(told) == refused
        assert not refused or f"to {32 * each}; a phase counts up to {MAX_COUNT}" in told[0]


TWO = INIT + "scf.if %first {{\nnvgpu.mbarrier.init %bar[%c1], %n : !bars\n}}\ngpu.barrier\n"


def test_lanes_meet_at_barriers_of_their_own() -> None:
    """Half of a warp meets at one barrier of a group, the other half at the other."""
    body = TWO.format(16, "%c0") + "%half = arith.divui %lane, %c16 : index\n"
    meet = ARRIVE.format("t", "%half") + WAIT.format("%half", "even")
    assert not run(body + meet).diagnostics
    text = told_all(run(body + meet.replace("[%half] : !bars ->", "[%c1] : !bars ->")))
    assert "16 times more" in text and "%bar[1]" in text


@pytest.mark.parametrize("block", [32, 128])
def test_lanes_wait_for_phases_of_their_own(block: int) -> None:
    """Of a fresh barrier the phase before is over, that of the lower lanes is not."""
    body = INIT.format(2 * block, "%c0") + "%high = arith.cmpi uge, %lane, %c16 : index\n"
    body += ARRIVE.format("t", "%c0")
    assert not run(body + WAIT.format("%c0", "odd"), block=block).diagnostics
    assert not run(
        body + "scf.if %high {\n" + WAIT.format("%c0", "high") + "}\n", block=block
    ).diagnostics
    text = told(run(body + WAIT.format("%c0", "high"), block=block))
    assert f"phase 0 (parity 0) of %bar[0]: {block} of {2 * block} arrivals are missing" in text


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_warps_meet_at_barriers_of_their_own(seed: int) -> None:
    """Warps 0 and 2 meet at one barrier, 1 and 3 at the other, where nobody arrives in the end."""
    body = TWO.format(64, "%c0") + "%mine = arith.remui %warp, %c2 : index\n"
    wait = WAIT.format("%mine", "even")
    assert not run(body + ARRIVE.format("t", "%mine") + wait, block=128, seed=seed).diagnostics
    body += "%is = arith.cmpi eq, %mine, %c0 : index\nscf.if %is {\n"
    body += ARRIVE.format("t", "%c0") + "}\n"
    text = told(run(body + wait, block=128, seed=seed))
    assert "%bar[1]: 64 of 64 arrivals are missing" in text
    assert "%bar[0]: " not in text


@pytest.mark.parametrize("in_groups", [True, False])
def test_a_warp_waits_for_no_barrier_of_another(in_groups: bool) -> None:
    """Odd warps wait for what even ones do behind their own wait: in a group, too, each waits alone."""
    body = INIT.format(128, "%c0") + "%half = arith.constant 64 : index\n"
    body += "scf.if %first {\nnvgpu.mbarrier.init %bar[%c1], %half : !bars\n}\ngpu.barrier\n"
    body += ARRIVE.format("t", "%c0") + "%mine = arith.remui %warp, %c2 : index\n"
    body += "%is = arith.cmpi eq, %mine, %c0 : index\n" + WAIT.format("%mine", "even")
    body += "scf.if %is {\n" + ARRIVE.format("u", "%c1") + "}\n"
    found = run(body, block=128, in_groups=in_groups).diagnostics
    assert not found, [d.brief() for d in found]


def test_too_many_arrivals_count_for_the_next_phase() -> None:
    """Three warps at a barrier for two: the third is told, and begins the next phase."""
    body = INIT.format(48, "%c0") + ARRIVE.format("t", "%c0")
    result = run(body + WAIT.format("%c0", "even"), block=64)
    text = told(result)
    assert "16 times more than phase 0 allows, which expects 48 arrivals" in text
    assert "lacks" not in text
    waiting = told_all(run(body + WAIT.format("%c0", "odd"), block=64))
    assert "32 of 48 arrivals are missing" in waiting


def test_arrivals_are_told_by_warp() -> None:
    body = INIT.format(128, "%c0") + ARRIVE.format("t", "%c0") + ARRIVE.format("u", "%c0")
    text = told_all(run(body + WAIT.format("%c0", "odd") + WAIT.format("%c0", "even"), block=32))
    assert "64 of 128 arrivals are missing; arrived in this phase: warp 0 (64)" in text


def told_all(result: SimulationResult) -> str:
    return "\n".join(
        m for f in result.diagnostics for m in (f.message, *(n.message for n in f.notes))
    )


@pytest.mark.parametrize("each, fits", [(1, True), (2, False), (3, False)])
def test_arrivals_that_must_not_end_a_phase(each: int, fits: bool) -> None:
    """32 threads arrive ``each`` times; the last arrival of 64 would end the phase."""
    body = INIT.format(64, "%c0") + f"%each = arith.constant {each} : index\n"
    body += "%t = nvgpu.mbarrier.arrive.nocomplete %bar[%c0], %each : !bars -> !token\n"
    found = run(body).diagnostics
    assert [d.code for d in found] == ([] if fits else ["sim-arrival-count"])
    assert fits or f"makes {32 * each} arrivals" in found[0].message


def test_waits_end_when_the_last_has_come() -> None:
    """The slow warp comes late to each kind of barrier; those who wait leave no sooner."""
    slow = """
    %is = arith.cmpi eq, %warp, %c0 : index
    scf.if %is {
      %k = scf.for %i = %c0 to %ticks step %c1 iter_args(%a = %c0) -> (index) {
        %b = arith.addi %a, %i : index
        scf.yield %b : index
      }
      memref.store %k, %sums[%c0] : memref<1xindex>
    }
    """
    kinds = {
        "barrier": "gpu.barrier\n",
        "wait": ARRIVE.format("t", "%c0") + WAIT.format("%c0", "even"),
    }
    for kind, meet in kinds.items():
        out = np.zeros(1, np.int64)
        body = INIT.format(64, "%c0") + slow + meet
        result = run(body, "%sums: memref<1xindex>", [out], block=64)
        assert not result.diagnostics, [d.brief() for d in result.diagnostics]
        last = [e for e in result.timeline.events if e.kind == kind][-2:]
        assert len(last) == 2
        # The fast one leaves with the slow one, long after it has come.
        assert abs(last[0].end - last[1].end) <= 1
        assert max(e.end - e.start for e in last) > 900


def test_a_deadlock_of_a_cluster_names_who_lacks() -> None:
    """The first block waits at the cluster, the second one for a phase that never ends."""
    body = INIT.format(32, "%c0") + "%rank = gpu.cluster_block_id x\n"
    body += "%is = arith.cmpi eq, %rank, %c0 : index\nscf.if %is {\n"
    body += (
        "nvvm.cluster.arrive\nnvvm.cluster.wait\n} else {\n" + WAIT.format("%c0", "even") + "}\n"
    )
    text = told(run(body, grid=2, cluster=2))
    (line,) = (line for line in text.splitlines() if "waits for its cluster" in line)
    absent = line.partition("not arrived: ")[2]
    assert "(1,0,0)" in absent.replace(" ", "") and "(0,0,0)" not in absent.replace(" ", ""), line


@pytest.mark.parametrize("first", [0, 1])
def test_clusters_leave_together(first: int) -> None:
    out = np.zeros(1, np.int64)
    body = f"""
    %rank = gpu.cluster_block_id x
    %slow = arith.constant {first} : index
    %is = arith.cmpi eq, %rank, %slow : index
    scf.if %is {{
      %k = scf.for %i = %c0 to %ticks step %c1 iter_args(%a = %c0) -> (index) {{
        %b = arith.addi %a, %i : index
        scf.yield %b : index
      }}
      memref.store %k, %sums[%c0] : memref<1xindex>
    }}
    nvvm.cluster.arrive
    nvvm.cluster.wait
    gpu.barrier
    """
    result = run(body, "%sums: memref<1xindex>", [out], grid=2, cluster=2)
    assert not result.diagnostics
    met = [e.start for e in result.timeline.events if e.kind == "barrier"]
    assert met and min(met) > 900, met  # of the first block
