"""A block over time: rings of copies between warps with different tasks, barriers, and what is waited for."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from tests.model.support import kernels, requires_tools

from tilewright.model.block_times import time_blocks
from tilewright.model.micro_ops import Step
from tilewright.model.multiprocessor import BlockProgram, Multiprocessor, Rates, Route
from tilewright.model.profile import Options, Profile
from tilewright.model.report import by_reason
from tilewright.model.sass import Kernel
from tilewright.model.tables import GPUS, Gpu, load_constants
from tilewright.model.timing import profile
from tilewright.model.traces import Event
from tilewright.model.walk import LaunchShape, parameter_words

H100 = GPUS["h100"]
QUEUES = {name: GPUS["h100"][name] for name in ("pipe_queue", "bank_queue", "memory_queue")}
RATES = Rates(64, 16, 128, load_misses=0, store_misses=0, bulk_latency=500, **QUEUES)
SMALL = 256


def _ring(stages: int, work: int) -> str:
    """Warp 0 copies into a ring, warp 1 reads: ``work`` dependent loads from the stage each turn."""
    begin = " ".join(
        f"mbarrier.init.shared.b64 [%r3+{2048 + 8 * s}], 1; mbarrier.init.shared.b64 [%r3+{2112 + 8 * s}], 1;"
        for s in range(stages)
    )
    slot = (
        f"and.b32 %r6, %r5, {stages - 1}; shr.u32 %r7, %r5, {stages.bit_length() - 1}; and.b32 %r7, %r7, 1;"
        f"mad.lo.u32 %r8, %r6, {SMALL}, %r3; mad.lo.u32 %r9, %r6, 8, %r3; add.u32 %r9, %r9, 2048; add.u32 %r10, %r9, 64;"
    )
    loaded = "ld.volatile.shared.u32 %r14, [%r14]; " * work
    wait = "{name}: mbarrier.try_wait.parity.shared.b64 %p1, [{at}], {parity}; @!%p1 bra {name};"
    return f"""
  mov.u32 %r3, sm; mov.u32 %r4, %tid.x; setp.ne.u32 %p0, %r4, 0; @%p0 bra BEGUN; {begin}
  BEGUN: bar.sync 0; mov.u32 %r5, 0; shr.u32 %r11, %r4, 5; setp.ne.u32 %p2, %r11, 0; @%p2 bra READER;
  and.b32 %r12, %r4, 31; setp.ne.u32 %p0, %r12, 0; @%p0 bra END;
  .pragma "nounroll"; WRITER: {slot} xor.b32 %r13, %r7, 1; {wait.format(name="W0", at="%r10", parity="%r13")}
  mbarrier.arrive.expect_tx.shared.b64 _, [%r9], {SMALL};
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r8], [%rd0], {SMALL}, [%r9];
  add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, %r0; @%p3 bra WRITER; bra END;
  READER: and.b32 %r12, %r4, 31; setp.eq.u32 %p4, %r12, 0;
  .pragma "nounroll"; AGAIN: {slot} {wait.format(name="R0", at="%r9", parity="%r7")} ld.volatile.shared.u32 %r14, [%r8];
  {loaded} @%p4 mbarrier.arrive.shared.b64 _, [%r10];
  add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, %r0; @%p3 bra AGAIN; st.global.u32 [%rd0], %r14;
  END:
"""


def _profile(found: Kernel, turns: int, gpu: Gpu = H100, threads: int = 64) -> Profile:
    words = parameter_words(found, [(8, 1 << 40), (4, turns), (4, 3), (4, 5)])
    launch = LaunchShape((1, 1, 1), (threads, 1, 1), words)
    return profile(found, gpu, launch, Options(footprint_bytes=1))


def _turn(found: Kernel, gpu: Gpu = H100) -> float:
    """Clocks of a turn, of many."""
    short, long = (_profile(found, turns, gpu).block_latency for turns in (64, 192))
    return (long - short) / 128


def _later(clocks: float) -> Gpu:
    rows = {"l2_latency": {"value": H100["l2_latency"] + clocks}}
    return load_constants(json.dumps({"gpu": "h100", "constants": rows}), H100)


@requires_tools
@pytest.mark.oracle
def test_a_ring_divides_the_latency_of_copies_by_its_stages() -> None:
    """A stage is filled, read and given back in so many clocks; as many stages as there are share them."""
    made = kernels({f"s{n}": _ring(n, 0) for n in (1, 2, 4)}, threads=64)
    turns = {n: _turn(made[f"s{n}"]) for n in (1, 2, 4)}
    assert turns[1] > H100["l2_latency"] + SMALL / H100["l2_rate"]
    assert turns[1] < H100["l2_latency"] + SMALL / H100["l2_rate"] + 250
    # Stages differ by some instructions that find their addresses.
    assert turns[2] * 2 == pytest.approx(turns[1], abs=30)
    assert turns[4] * 4 == pytest.approx(turns[1], abs=60)
    for stages, turn in turns.items():
        slower, slowest = (_turn(made[f"s{stages}"], _later(clocks)) for clocks in (400, 800))
        assert turn < slower
        assert slowest - slower == 400 / stages


@requires_tools
@pytest.mark.oracle
def test_behind_enough_stages_only_the_reader_counts() -> None:
    """100 dependent loads take far more clocks than a copy."""
    made = kernels({f"s{n}": _ring(n, 100) for n in (1, 2, 4)}, threads=64)
    turns = {n: _turn(made[f"s{n}"]) for n in (1, 2, 4)}
    least = 100 * H100["shared_latency"]
    assert turns[1] > least + H100["l2_latency"]
    assert least < turns[2] < least * 1.1 + 150
    assert turns[1] - turns[2] > H100["l2_latency"]
    assert turns[4] == pytest.approx(turns[2], abs=10)
    for stages in (2, 4):
        assert _turn(made[f"s{stages}"], _later(400)) == turns[stages]


@requires_tools
@pytest.mark.oracle
def test_waits_of_a_ring_name_the_other_side() -> None:
    """The reader of an empty ring waits for copies, the writer of a full one for the reader."""
    made = kernels({"fast": _ring(2, 0), "slow": _ring(2, 100)}, threads=64)
    fast, slow = (_profile(made[name], 100) for name in ("fast", "slow"))
    assert {reason for reason, _ in by_reason(fast)[:2]} == {"bulk copies", "barriers in memory"}
    texts = {cost.address: cost.text for cost in fast.costs}
    first = next(stall for stall in fast.stalls if stall.reason == "bulk copies")
    assert "PHASECHK" in texts[first.address]
    assert texts[first.producer].partition(" ")[0].startswith("UBLKCP")
    waited = [stall for stall in slow.stalls if stall.reason == "barriers in memory"]
    texts = {cost.address: cost.text for cost in slow.costs}
    longest = max(waited, key=lambda stall: stall.clocks)
    assert "PHASECHK" in texts[longest.address]
    assert "ARRIVE" in texts[longest.producer]
    assert [row.role for row in fast.timeline] == ["copies", "work"]
    kinds = {span.kind for span in fast.timeline[1].spans}
    assert "wait" in kinds


@requires_tools
@pytest.mark.oracle
def test_conflicts_take_one_clock_more_each() -> None:
    """A chain of loads from shared memory, of which each takes n waves."""
    step = "ld.volatile.shared.u32 %r3, [%r3]; "
    made = kernels(
        {f"n{n}": f"mov.u32 %r3, sm; {step * n} st.global.u32 [%rd0], %r3;" for n in (50, 150)}
    )

    def load(ways: int) -> float:
        launch = LaunchShape((1, 1, 1), (32, 1, 1), parameter_words(made["n50"], [(8, 1 << 40)]))
        options = Options(footprint_bytes=1, shared_factor=ways)
        short, long = (
            profile(made[n], H100, launch, options).block_latency for n in ("n50", "n150")
        )
        return (long - short) / 100

    assert [load(ways) - load(1) for ways in (2, 4, 8, 32)] == [1, 3, 7, 31]


# Without tools: steps written here.


def _plain(count: int, clocks: int) -> Step:
    return Step(0, "plain", clocks, demand=((0, count, 1.0),), count=count)


def _run(program: BlockProgram, rates: Rates = RATES) -> float:
    return Multiprocessor(program, rates, 10**6, 100).run().end


def test_warps_of_a_quarter_share_its_issue() -> None:
    """Eight warps of 100 instructions at 4 clocks each: two of each quarter hide in each other's stalls, 20 do not."""
    for warps, clocks in ((1, 400), (4, 400), (8, 400), (16, 400), (20, 500), (32, 800)):
        program = BlockProgram([[_plain(100, 400)]], [Route([0], [])] * warps)
        assert _run(program) == clocks


def test_all_wait_for_the_last_at_a_barrier() -> None:
    meet = Step(1, "barrier", 1, latency=30, barrier="0x0")
    program = BlockProgram(
        [[_plain(10, 40)], [_plain(100, 400)], [meet]], [Route([0, 2], []), Route([1, 2], [])]
    )
    result = Multiprocessor(program, RATES, 10**6, 100).run()
    assert result.end == 400 + 30 + 1
    assert result.waits[1, 1, ""] == (400 - 40 + 30) + 30


def test_banks_serve_one_access_after_the_other() -> None:
    """Four warps, each with a load of 8 waves, and then its use: the last data come behind all waves."""
    load = Step(0, "timed", 1, latency=29, shared=8, write=0)
    use = Step(1, "timed", 1, waits=(0,))
    program = BlockProgram([[load, use]], [Route([0], [])] * 4)
    assert _run(program) == 3 * 8 + (8 - 1) + 29 + 1


def test_a_barrier_that_nobody_comes_to_is_counted_and_passed() -> None:
    wait = Step(0, "wait phase", 1)
    begin = Step(1, "begin phases", 1)
    events = [Event(1, True, 64, (1 << 21) - 2), Event(0, True, 64, 0)]
    program = BlockProgram([[begin, wait]], [Route([0], events)])
    result = Multiprocessor(program, RATES, 10**6, 100).run()
    assert (result.forced, result.end) == (1, 2)


def test_long_loops_go_on_as_fast_as_before() -> None:
    program = BlockProgram([[_plain(2, 8)], [_plain(1, 4)]], [Route([0, 1] * 5000, [])] * 4)
    whole = Multiprocessor(program, RATES, 10**6, 0).run()
    cut = Multiprocessor(program, RATES, 2000, 0).run()
    assert cut.cut and not whole.cut
    assert cut.end == pytest.approx(whole.end, rel=0.01)


@pytest.mark.parametrize("seed", range(12))
def test_slower_units_make_no_block_faster(seed: int) -> None:
    """Random warps of equal code: less of anything takes no less time."""
    chance = random.Random(seed)
    steps: list[Step] = []
    for index in range(12):
        board = index % 6
        kind = chance.choice(("plain", "load", "shared", "use"))
        if kind == "plain":
            count = chance.randrange(1, 20)
            steps.append(replace(_plain(count, count * chance.choice((1, 2, 4))), index=index))
        elif kind == "load":
            size = chance.choice((128, 512))
            steps.append(Step(index, "timed", 1, latency=300, l1=4, loaded=size, write=board))
        elif kind == "shared":
            steps.append(
                Step(index, "timed", 2, latency=29, shared=chance.choice((1, 4)), write=board)
            )
        else:
            steps.append(Step(index, "timed", 1, waits=(chance.randrange(6),)))
    program = BlockProgram([steps], [Route([0] * 6, [])] * 4)
    missing = replace(RATES, load_misses=1.0)
    for name in ("l2", "memory"):
        ends = [
            _run(program, replace(missing, **{name: getattr(missing, name) * factor}))
            for factor in (0.25, 0.5, 1, 2, 4)
        ]
        assert ends == sorted(ends, reverse=True)


def test_kinds_of_blocks_count_by_their_weights() -> None:
    short, long = (BlockProgram([[_plain(n, 4 * n)]], [Route([0], [])]) for n in (100, 300))
    found = time_blocks([(short, 3.0), (long, 1.0)], RATES, 10)
    assert found.latency == (3 * 400 + 1200) / 4
    assert found.heaviest.end == 400
