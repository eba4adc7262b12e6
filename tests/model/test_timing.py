"""Modelled times: clocks that can be computed by hand, and what must hold for every kernel."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from tests.model.support import kernel, kernels, requires_tools

from tilewright.diagnostics import TileIRError
from tilewright.model.report import Launch, as_json, as_text
from tilewright.model.sass import Kernel
from tilewright.model.tables import GPUS, MODEL_VERSION, Gpu, load_constants
from tilewright.model.timing import BlockFacts, Options, Profile, clocks_of_a_block, profile
from tilewright.model.walk import LaunchShape, parameter_words

H100 = GPUS["h100"]


def _profile(
    found: Kernel,
    *,
    gpu: Gpu = H100,
    grid: tuple[int, int, int] = (1, 1, 1),
    threads: int = 32,
    turns: int = 1,
    **options: object,
) -> Profile:
    launch = LaunchShape(
        grid, (threads, 1, 1), parameter_words(found, [(8, 1 << 40), (4, turns), (4, 3), (4, 5)])
    )
    return profile(found, gpu, launch, Options(**options))  # pyright: ignore[reportArgumentType]


def _changed(name: str, factor: float, gpu: Gpu = H100) -> Gpu:
    rows = {name: {"value": gpu[name] * factor}}
    return load_constants(json.dumps({"gpu": gpu.name, "constants": rows}), gpu)


_BULK = """
  mov.u32 %r9, sm; mov.u32 %r3, %tid.x; mad.lo.u32 %r10, %r3, 16, %r9; ld.global.u32 %r4, [%rd0];
  {first}
  st.shared.u32 [%r10], %r4; bar.sync 0; ld.shared.u32 %r5, [%r9]; bar.sync 0;
  st.shared.v4.u32 [%r10], {{%r5,%r5,%r5,%r5}}; st.shared.v4.u32 [%r10+512], {{%r5,%r5,%r5,%r4}};
  fence.proxy.async.shared::cta; {meet}
  cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd0, {{%r3,%r4}}], [%r9];
  cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;
"""


@requires_tools
@pytest.mark.oracle
@pytest.mark.parametrize(
    "meet", ["bar.sync 0;", "mbarrier.arrive.shared.b64 _, [%r9+2048];"], ids=["bar", "mbarrier"]
)
def test_bulk_stores_take_what_the_fence_before_them_orders(meet: str) -> None:
    """Two stores of 512 bytes, not the word of the reduction in front of them; what threads store themselves comes on top."""
    firsts = {"none": "", "own": "st.volatile.global.u32 [%rd0+64], %r4;"}
    found = kernels({name: _BULK.format(first=first, meet=meet) for name, first in firsts.items()})
    assert _profile(found["none"]).stored_bytes == 1024
    assert _profile(found["own"]).stored_bytes == 1024 + 128


def test_one_block_takes_its_latency() -> None:
    assert clocks_of_a_block(10, 100, 1) == pytest.approx(100)
    assert clocks_of_a_block(100, 10, 1) == pytest.approx(100)


def test_many_blocks_take_what_the_unit_needs() -> None:
    assert clocks_of_a_block(10, 100, 1000) == pytest.approx(10, rel=0.01)


@pytest.mark.parametrize(("busy", "latency"), [(1, 50), (20, 50), (49, 50), (80, 50)])
def test_resident_blocks_never_beat_the_bounds(busy: float, latency: float) -> None:
    last = math.inf
    for resident in range(1, 33):
        clocks = clocks_of_a_block(busy, latency, resident)
        assert clocks >= max(busy, latency / resident) - 1e-9
        assert clocks <= last + 1e-9
        last = clocks


def _floats(body: str) -> str:
    """The body between a load and a store, so that nothing is left out."""
    return (
        f"ld.global.f32 %f0, [%rd0]; ld.global.f32 %f1, [%rd0+4]; {body} st.global.f32 [%rd0], %f0;"
    )


@requires_tools
@pytest.mark.oracle
@pytest.mark.parametrize(
    ("arch", "gpu"), [("sm_80", "a100"), ("sm_90", "h100"), ("sm_120", "rtx5090")]
)
def test_a_chain_of_dependent_multiplications(arch: str, gpu: str) -> None:
    """Each waits four clocks for the one before."""
    step = "fma.rn.f32 %f0, %f0, %f0, %f1; "
    made = kernels({f"k{n}": _floats(step * n) for n in (100, 300)}, arch)
    latencies = [_profile(found, gpu=GPUS[gpu]).block_latency for found in made.values()]
    assert latencies[1] - latencies[0] == 200 * 4


@requires_tools
@pytest.mark.oracle
def test_a_chain_of_loads_from_shared_memory() -> None:
    """Each waits for the address: the latency of shared memory, and the clock of its issue or two."""
    step = "ld.volatile.shared.u32 %r3, [%r3]; "
    text = "mov.u32 %r3, sm; {} st.global.u32 [%rd0], %r3;"
    made = kernels({f"k{n}": text.format(step * n) for n in (50, 150)})
    latencies = [_profile(found).block_latency for found in made.values()]
    per_load = (latencies[1] - latencies[0]) / 100
    assert H100["shared_latency"] <= per_load <= H100["shared_latency"] + 3


@requires_tools
@pytest.mark.oracle
def test_special_functions_take_eight_clocks_of_a_quarter() -> None:
    """16 lanes a clock are four for each quarter: a warp takes eight clocks."""
    step = "ex2.approx.ftz.f32 %f0, %f0; "
    made = kernels({f"k{n}": _floats(step * n) for n in (64, 192)})
    found = [_profile(each) for each in made.values()]
    busy = [one.clocks * one.shares["sfu"] for one in found]
    assert busy[1] - busy[0] == pytest.approx(128 * 8)


@requires_tools
@pytest.mark.oracle
@pytest.mark.parametrize(
    ("arch", "gpu", "share"), [("sm_80", "a100", 1.0), ("sm_90", "h100", 0.63)]
)
def test_products_of_matrices_take_the_rate_of_the_tensor_unit(
    arch: str, gpu: str, share: float
) -> None:
    step = (
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r4,%r5,%r6,%r7},"
        " {%r8,%r9}, {%f0,%f1,%f2,%f3}; "
    )
    loads = " ".join(f"ld.global.u32 %r{n}, [%rd0+{4 * n}];" for n in range(4, 10))
    starts = " ".join(f"ld.global.f32 %f{n}, [%rd0+{64 + 4 * n}];" for n in range(4))
    stores = " ".join(f"st.global.f32 [%rd0+{4 * n}], %f{n};" for n in range(4))
    made = kernels({f"k{n}": loads + starts + step * n + stores for n in (10, 50)}, arch)
    found = [_profile(each, gpu=GPUS[gpu]) for each in made.values()]
    busy = [one.clocks * one.shares["tensor"] for one in found]
    expected = 40 * 16 * 8 * 16 / (GPUS[gpu]["tensor_f16"] * share / 4)
    assert busy[1] - busy[0] == pytest.approx(expected)
    assert found[1].flops == 50 * 2 * 16 * 8 * 16
    # Each adds to what the one before has made.
    waited = found[1].block_latency - found[0].block_latency
    assert waited >= 40 * GPUS[gpu]["tensor_latency"]


_COPY = """
  mov.u32 %r3, %tid.x; mov.u32 %r4, %ctaid.x; mad.lo.u32 %r3, %r4, 256, %r3; mul.wide.u32 %rd1, %r3, 16;
  add.u64 %rd2, %rd0, %rd1; ld.global.v4.u32 {%r5,%r6,%r7,%r8}, [%rd2];
  st.global.v4.u32 [%rd2+1073741824], {%r5,%r6,%r7,%r8};
"""


@requires_tools
@pytest.mark.oracle
def test_a_copy_is_bound_by_memory() -> None:
    found = _profile(kernel(_COPY, threads=256), grid=(1 << 16, 1, 1), threads=256)
    size = (1 << 16) * 256 * 16
    assert (found.loaded_bytes, found.stored_bytes) == (size, size)
    assert found.bound_by == "memory"
    assert found.seconds == pytest.approx(2 * size / (3350e9 * 0.92))
    assert found.seconds >= found.roofline_seconds


_LOOP = """
  mov.u32 %r3, %tid.x; shl.b32 %r4, %r3, 2; mov.u32 %r5, sm; add.u32 %r5, %r5, %r4; mov.u32 %r6, %laneid;
  .pragma "nounroll"; L: ld.volatile.shared.u32 %r7, [%r5]; mad.lo.u32 %r7, %r7, %r7, %r1; st.volatile.shared.u32 [%r5], %r7;
  ld.global.u32 %r8, [%rd0]; st.global.u32 [%rd0+8], %r8; ex2.approx.ftz.f32 %f0, %f0; st.global.f32 [%rd0+16], %f0;
  bar.sync 0; add.u32 %r6, %r6, 1; setp.lt.u32 %p0, %r6, %r0; @%p0 bra L;
"""


@requires_tools
@pytest.mark.oracle
def test_times_change_as_the_constants_do() -> None:
    """Less of anything never makes a launch faster, and more never slower."""
    found = kernel(_LOOP, threads=256)

    def seconds(blocks: int, gpu: Gpu = H100) -> float:
        return _profile(found, gpu=gpu, grid=(blocks, 1, 1), threads=256, turns=3).seconds

    base = _profile(found, grid=(1100, 1, 1), threads=256, turns=3)
    assert base.seconds >= base.roofline_seconds
    for name in (
        "hbm_rate",
        "l2_rate",
        "l1_rate",
        "shared_rate",
        "sfu_lanes",
        "alu_lanes",
        "issue_rate",
        "sms",
    ):
        found_for = [seconds(1100, _changed(name, factor)) for factor in (0.25, 0.5, 2, 4)]
        assert found_for[0] >= found_for[1] >= base.seconds >= found_for[2] >= found_for[3], name
    few = seconds(132)
    for name in ("hbm_latency", "shared_latency", "barrier_latency"):
        slower = seconds(132, _changed(name, 3))
        # Shorter latencies may lie behind that of memory.
        assert slower > few or (name != "hbm_latency" and slower == few)
    assert seconds(132, _changed("clock", 2)) < few


@requires_tools
@pytest.mark.oracle
def test_times_grow_with_turns_conflicts_and_blocks() -> None:
    found = kernel(_LOOP, threads=256)
    by_turns = [_profile(found, threads=256, turns=n).block_latency for n in (10, 20, 30)]
    assert by_turns[0] < by_turns[1] < by_turns[2]
    assert by_turns[2] - by_turns[1] == by_turns[1] - by_turns[0]
    conflicts = [
        _profile(found, grid=(1100, 1, 1), threads=256, turns=5, shared_factor=factor)
        for factor in (1.0, 4.0, 32.0)
    ]
    assert conflicts[0].seconds <= conflicts[1].seconds < conflicts[2].seconds
    busy = [one.clocks * one.shares["shared"] for one in conflicts]
    assert busy[1] == pytest.approx(4 * busy[0])
    blocks = [
        _profile(found, grid=(n, 1, 1), threads=256, turns=5).seconds for n in (1, 132, 133, 2200)
    ]
    assert blocks[0] <= blocks[1] <= blocks[2] < blocks[3]


@requires_tools
@pytest.mark.oracle
def test_occupancy_says_what_limits_it() -> None:
    found = kernel(_COPY, threads=256)
    free = _profile(found, threads=256).occupancy
    assert (free.blocks, free.limit, free.warps) == (8, "threads", 64)
    held = _profile(found, threads=256, dynamic_shared_bytes=100_000).occupancy
    assert (held.blocks, held.limit) == (2, "shared memory")
    with pytest.raises(TileIRError, match=r"\[model-cannot-run\]: .* does not fit on the H100"):
        _profile(found, threads=256, dynamic_shared_bytes=300_000)


@requires_tools
@pytest.mark.oracle
def test_code_of_another_architecture_is_refused() -> None:
    told = r"\[model-other-architecture\]: .* code for sm_90, which cannot run on the A100"
    with pytest.raises(TileIRError, match=told):
        _profile(kernel(_COPY, threads=256), gpu=GPUS["a100"], threads=256)


@requires_tools
@pytest.mark.oracle
def test_shared_memory_that_nobody_gives_is_named() -> None:
    """A cubin does not say what the launch adds."""
    found = kernel("mov.u32 %r5, 64; st.volatile.shared.u32 [%r5], %r0;")
    bare = replace(found, file=replace(found.file, shared_bytes=0))
    said = [any("dynamic shared memory: assumed none" in text for text in each.blind) for each in (
        _profile(bare), _profile(found), _profile(bare, dynamic_shared_bytes=4096),
    )]  # fmt: skip
    assert said == [True, False, False]


@requires_tools
@pytest.mark.oracle
def test_reports_say_that_they_are_modelled() -> None:
    found = _profile(kernel(_LOOP, threads=256), threads=256, turns=7)
    text = as_text([Launch("k", found)], H100)
    assert "modelled" in text.splitlines()[0]
    assert f"model {MODEL_VERSION}" in text
    assert "ignores" in text
    assert "7 iterations" in text
    data = json.loads(as_json([Launch("k", found)]))
    assert data["modelled"] is True
    assert data["version"] == MODEL_VERSION
    assert data["known_error"]
    assert data["launches"][0]["blind"]


@requires_tools
@pytest.mark.oracle
def test_a_ring_of_copies_hides_their_latency_by_its_stages() -> None:
    """A turn of a ring of n stages takes the latency of a copy over n - 1 turns that it is ahead."""

    def body(stages: int) -> str:
        first = "cp.async.ca.shared.global [%r3], [%rd0], 16; cp.async.commit_group; "
        return (
            f"mov.u32 %r3, sm; mov.u32 %r6, 0; {first * (stages - 1)}"
            f'.pragma "nounroll"; L: {first} cp.async.wait_group {stages - 1}; '
            "ld.volatile.shared.u32 %r4, [%r3]; st.volatile.shared.u32 [%r3+64], %r4; "
            "add.u32 %r6, %r6, 1; setp.lt.u32 %p0, %r6, %r0; @%p0 bra L;"
        )

    made = kernels({f"k{stages}": body(stages) for stages in (1, 2, 3, 4, 5)})

    def turn(found: Kernel) -> float:
        clocks = [_profile(found, turns=n, footprint_bytes=64).block_latency for n in (40, 80)]
        return (clocks[1] - clocks[0]) / 40

    latency = H100["l2_latency"]
    turns = {int(name[1:]): turn(found) for name, found in made.items()}
    assert turns[1] >= latency
    for stages in (2, 3, 4):
        # The copy begins within its turn, so that the turn itself hides up to one more.
        assert latency <= turns[stages] * stages
        assert turns[stages] * (stages - 1) <= latency + turns[stages]
    assert turns[1] > turns[2] > turns[3] > turns[4] >= turns[5]


@requires_tools
@pytest.mark.oracle
def test_waits_name_what_is_waited_for() -> None:
    step = "ld.volatile.shared.u32 %r3, [%r3]; "
    found = _profile(kernel(f"mov.u32 %r3, sm; {step * 20} st.global.u32 [%rd0], %r3;"))
    longest = [stall for stall in found.stalls if stall.reason == "shared memory"]
    assert len({stall.producer for stall in longest}) == 20
    texts = {cost.address: cost.text for cost in found.costs}
    assert all(texts[stall.producer].startswith("LDS") for stall in longest)
    assert sum(cost.share for cost in found.costs) == pytest.approx(1)
    row = found.timeline[0]
    assert (row.warp, row.cut) == (0, False)
    assert row.spans[-1].end == found.block_latency
    assert all(a.end == b.start for a, b in zip(row.spans, row.spans[1:]))
    waited = sum(span.end - span.start for span in row.spans if span.kind == "wait")
    # Of each the clocks of its issue are no wait.
    assert waited >= 20 * (H100["shared_latency"] - 4)


@requires_tools
@pytest.mark.oracle
def test_turns_that_the_code_does_not_say_come_from_facts() -> None:
    loop = (
        '.pragma "nounroll"; L: ld.volatile.global.u32 %r3, [%rd0]; st.volatile.global.u32 [%rd0+4], %r3; '
        "setp.ne.u32 %p0, %r3, 0; @%p0 bra L;"
    )
    found = kernel(loop)
    with pytest.raises(TileIRError, match="how often loop L0 of"):
        _profile(found)
    facts = {(0, 0, 0): BlockFacts(trips={"L0": 11})}
    assert _profile(found, facts=facts).loops[0].turns == 11
    assert _profile(found, facts=facts, trips={"L0": 5}).loops[0].turns == 5
