"""Rings of one stage: filled for the next iteration where this one has read them last, by threads and by tensor maps; the same
results on both sides, on the simulator in many orders of warps, and chosen where more blocks then share a multiprocessor."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from tests.passes.tileas import kernels as K
from tests.passes.tileas.softmax_loops import Loop
from tests.sampling import some
from xdsl.dialects import scf
from xdsl.ir import Operation

from tilewright import LaunchOptions
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas import pipelines as P
from tilewright.dialects.nv_tileas.asynchronous import (
    AsyncGroupOp,
    AsyncTiledLoadOp,
    AsyncWaitOp,
    BarrierOp,
)
from tilewright.machine.launch import Program
from tilewright.model.tables import GPUS
from tilewright.passes import run_pipeline
from tilewright.passes.tileas.conversion_scratch import BESIDE_RINGS, conversion_scratch
from tilewright.passes.tileas.decisions import Decisions
from tilewright.passes.tileas.pipeline import LoopPipeliner, pipeline
from tilewright.passes.tileas.remarks import Comparison, Remarks
from tilewright.passes.tileas.ring_stages import Ring, refills
from tilewright.passes.tileas.target import Target
from tilewright.passes.tileas.tma import tma_pipelines
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse, print_text

A100, KIB = GPUS["a100"], 1 << 10
MAKES = {
    "threads": "tileas-pipeline{stages=1 shared-bytes=99000}",
    "maps": "tileas-tma{stages=1 target=sm_120a}",
}
LOOPS = {
    "plain": Loop(),
    "branch": Loop(masked=True),
    "nested": Loop(nested=True),
    "biased": Loop(biased=True),
    "wide": Loop(64, 64, 128),
    "few rows": Loop(16, 64, 128),
}
ONE = Decisions.of({"stages": 1})
ROUNDS = [(0, 0), (1, 0), (2, 0), (5, 0), (0, 3), (3, 2)]


def made(loop: Loop, makes: str, more: str = "") -> Operation:
    return K.lowered(
        loop.text(), f"tileaa,tileas-assign-layouts{{target=sm_80}},{MAKES[makes]}{more}"
    )


@pytest.mark.parametrize("makes", MAKES)
@pytest.mark.parametrize("name", LOOPS)
def test_both_sides_compute_the_same(name: str, makes: str) -> None:
    loop = LOOPS[name]
    before, after = made(loop, makes), made(loop, makes, ",tileas-expand")
    assert print_text(parse(print_text(after))) == print_text(after)
    for rounds, first in ROUNDS:
        one, right = loop.launch(Program(before), rounds, first)
        two, _ = loop.launch(Program(after), rounds, first)
        assert one.tobytes() == two.tobytes(), (rounds, first)
        if rounds:
            np.testing.assert_allclose(one, right, atol=1e-3)


@pytest.mark.rotates(3)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
@pytest.mark.parametrize("name", LOOPS)
def test_any_order_of_warps(name: str, arch: str) -> None:
    """No warp fills what another one reads, or reads what has not come."""
    loop = LOOPS[name]
    program = TileProgram(parse(loop.text()), arch, decisions=ONE)
    for seed in some(range(20)):
        found, right = loop.launch(program, 3, 0, options=LaunchOptions(seed=seed))
        np.testing.assert_allclose(found, right, atol=1e-3)
    assert not program.fallbacks


def test_where_copies_start_and_what_is_waited_for() -> None:
    """The keys come again behind the first product, the values behind the second one; each wait leaves the other group under
    way, and threads meet four times in an iteration."""
    module = made(Loop(), "threads", ",tileas-expand,tileas-allocate,tileas-insert-barriers")
    (loop,) = (op for op in module.walk() if isinstance(op, scf.ForOp))
    body = list(loop.body.block.ops)
    products = [body.index(op) for op in body if isinstance(op, S.Product)]
    starts = [
        body.index(op)
        for op in body
        if isinstance(op, scf.IfOp) and any(isinstance(i, AsyncTiledLoadOp) for i in op.walk())
    ]
    waits = [op for op in body if isinstance(op, AsyncWaitOp)]
    assert products[0] < starts[0] < body.index(waits[1]) < products[1] < starts[1]
    assert body.index(waits[0]) < products[0]
    assert [int_property(op, "pending") for op in waits] == [1, 1]
    assert sum(isinstance(op, AsyncGroupOp) for op in body) == 2
    assert sum(isinstance(op, BarrierOp) for op in body) == 4


def test_a_map_fills_behind_the_release() -> None:
    module = made(Loop(), "maps", ",tileas-expand")
    (loop,) = (op for op in module.walk() if isinstance(op, scf.ForOp))
    names = [op.name.rsplit(".", 1)[-1] for op in loop.body.block.ops]
    kept = [name for name in names if name in ("consumer_wait", "dot", "consumer_release", "if")]
    assert kept == ["consumer_wait", "dot", "consumer_release", "if"] * 2
    assert all(
        P.stages_of(op.pipeline) == 1 for op in module.walk() if isinstance(op, P.ProducerAcquireOp)
    )


@pytest.mark.parametrize("rounds", [2, 3])
def test_more_stages_than_one_may_be_filled_behind_the_release(rounds: int) -> None:
    """As many iterations ahead as a pipeline has stages."""
    loop = Loop()
    text = print_text(
        K.lowered(
            loop.text(),
            f"tileaa,tileas-assign-layouts,tileas-tma{{stages={rounds} target=sm_120a}}",
        )
    )
    marked = text.replace(f"ahead = {rounds - 1}", f"ahead = {rounds}")
    assert marked != text
    module = run_pipeline(parse(marked), "tileas-expand", verify_each=True)
    for steps, first in ROUNDS:
        one, _ = loop.launch(Program(parse(text)), steps, first)
        two, _ = loop.launch(Program(module), steps, first)
        assert one.tobytes() == two.tobytes()


def test_pipelines_of_different_depths_share_a_counter() -> None:
    """The shorter one is filled behind its release, and so is the longer one, which would not have to be."""
    loop = Loop()
    text = print_text(
        K.lowered(loop.text(), "tileaa,tileas-assign-layouts,tileas-tma{stages=2 target=sm_120a}")
    )
    first = re.search(r"(%\d+) = nv_tileas.async.pipeline.create_pipeline (%\d+) ", text)
    assert first is not None
    lines = [
        line.replace("view<2x", "view<3x").replace("pipeline<2,", "pipeline<3,")
        if re.search(rf"(^ *{first[2]} = |pipeline\.\w+ ({first[1]}|{first[2]})\b)", line)
        else line
        for line in text.split("\n")
    ]
    module = parse("\n".join(lines).replace("ahead = 1", "ahead = 2"))
    made = [op for op in module.walk() if isinstance(op, P.ProducerAcquireOp)]
    assert [P.stages_of(op.pipeline) for op in made] == [3, 2]
    given = run_pipeline(module.clone(), "tileas-expand", verify_each=True)
    (body,) = (op.body.block for op in given.walk() if isinstance(op, scf.ForOp))
    names = [op.name.rsplit(".", 1)[-1] for op in body.ops]
    kept = [name for name in names if name in ("consumer_wait", "dot", "consumer_release", "if")]
    assert kept == ["consumer_wait", "dot", "consumer_release", "if"] * 2
    for steps, start in ROUNDS:
        one, _ = loop.launch(Program(parse(text)), steps, start)
        two, _ = loop.launch(Program(given), steps, start)
        assert one.tobytes() == two.tobytes()


TALL = Loop(16, 64, 512)


def func_of(passes: str) -> FuncOp:
    module = K.lowered(TALL.text(), passes)
    (found,) = (op for op in module.walk() if isinstance(op, FuncOp))
    return found


@pytest.mark.parametrize("target", ["sm_80", "sm_120a"])
@pytest.mark.parametrize("spare", [True, False])
def test_tiles_of_which_one_stage_fits_do_not_go_through_registers(
    target: str, spare: bool
) -> None:
    """Two tiles of 64 KiB, of 128 registers of each thread, beside what the largest exchange needs, which is less than rings leave as a rule."""
    layouts = f"tileaa,tileas-assign-layouts{{target={target}}}"
    func = func_of(layouts)
    loop = next(op for op in func.walk() if isinstance(op, scf.ForOp))
    threads, gpu = LoopPipeliner(func, loop, 3, 1 << 20, Remarks()), GPUS["rtx5090"]
    loads = threads.loads()
    least = conversion_scratch(loop, least=True)
    assert [load.bytes for load in loads] == [64 * KIB] * 2
    assert BESIDE_RINGS < least < conversion_scratch(loop)
    room = threads.beside(loads) + 128 * KIB + least - (0 if spare else 1)
    remarks = Remarks()
    if target == "sm_80":
        pipeline(func, 3, room, remarks, gpu)
    else:
        tma_pipelines(func, 4, Target(target, room), remarks, gpu)
    rings = [remark.message for remark in remarks.found if remark.kind == "ring"]
    assert bool(rings) == spare
    assert all("refilled as soon as it is read, 128 KiB" in ring for ring in rings)


BYTES, SUMS = (64, 64, "i8"), "tile<64x64xf32>"


def widened() -> str:
    """Sums of products of bytes that threads widen: both tiles have been read only where the second one is written."""
    halves = "tile<64x64xf16>"
    body = (
        f"  %nothing = constant <f32: 0.0> : {SUMS}\n"
        "  %sum = for %s in (%zero to %steps, step %one) : tile<i32> "
        f"iter_values(%acc = %nothing) -> ({SUMS}) {{\n"
        + K.load("l", "a", "%zero, %s", BYTES)
        + K.load("r", "b", "%s, %zero", BYTES)
        + f"    %x = itof %l signed : tile<64x64xi8> -> {halves}\n"
        f"    %y = itof %r signed : tile<64x64xi8> -> {halves}\n"
        f"    %next = mmaf %x, %y, %acc : {halves}, {halves}, {SUMS}\n"
        f"    continue %next : {SUMS}\n  }}\n"
        + K.store("sum", "c", "%zero, %zero", (64, 64, "f32"))
    )
    return K.entry({"a": BYTES, "b": BYTES, "c": (64, 64, "f32")}, body)


def launch_widened(program: Program | TileProgram, **more: object) -> None:
    rng, whole = np.random.default_rng(3), (K.WIDTH, K.WIDTH)
    a, b = (rng.integers(-9, 10, whole).astype(np.int8) for _ in range(2))
    out = np.zeros(whole, np.float32)
    program.launch("k", 1, (a, b, out, K.WIDTH, K.WIDTH, 4), **more)  # pyright: ignore[reportArgumentType]
    expected = a[:64].astype(np.float32) @ b[:, :64].astype(np.float32)
    np.testing.assert_array_equal(out[:64, :64], expected)


def test_groups_that_start_at_one_place_end_in_their_order() -> None:
    """Each wait covers its own group, whichever comes first."""
    passes = "tileaa,tileas-assign-layouts{target=sm_80},tileas-pipeline{stages=1}"
    before, after = (K.lowered(widened(), text) for text in (passes, f"{passes},tileas-expand"))
    (loop,) = (op for op in after.walk() if isinstance(op, scf.ForOp))
    body = list(loop.body.block.ops)
    groups = [body.index(op) for op in body if isinstance(op, AsyncGroupOp)]
    widest = max(body.index(op) for op in body if isinstance(op, S.CopyOp))
    assert len(groups) == 2
    assert min(groups) > widest
    for module in (before, after):
        launch_widened(Program(module))
    for arch in ("sm_80", "sm_120a"):
        program = TileProgram(parse(widened()), arch, decisions=ONE)
        for seed in some(range(4)):
            launch_widened(program, options=LaunchOptions(seed=seed))
        assert not program.fallbacks


@pytest.fixture(scope="module")
def products() -> list[S.Product]:
    module = K.lowered(Loop().text(), "tileaa,tileas-assign-layouts{num-warps=4}")
    return [op for op in module.walk() if isinstance(op, S.Product)]


def choices(found: Comparison | None) -> list[str]:
    assert found is not None
    return [each.choice for each in found.alternatives]


def test_chosen_where_more_blocks_share_a_multiprocessor(products: list[S.Product]) -> None:
    spans = [(15 * KIB, [op], 0.0) for op in products]
    small = Ring(products, 4, 30 * KIB, 0, 10.0 * 64 * 64, spans)
    found = refills(A100, small, 3)
    assert str(found).startswith("modelled on A100")
    assert choices(found) == ["1 stage", "3 stages"]
    # Without another ring there are the figures of this one.
    assert choices(refills(A100, small, 1)) == ["1 stage"]
    # Neither is there room for a second block: threads bring what they have registers for.
    alone, big = replace(small, other_bytes=90 * KIB), [(44 * KIB, [op], 0.0) for op in products]
    assert refills(A100, alone, 1) is None
    # Where there is none without a ring either, copies at least run beside products.
    assert "1 block" in str(refills(A100, replace(alone, bare_bytes=120 * KIB), 1))
    assert "1 block" in str(refills(A100, replace(alone, spans=big), 1))
    assert refills(A100, replace(alone, spans=big), 2) is None
    # Two blocks share a multiprocessor in any case; each tile is read for the whole iteration; there are no products.
    assert refills(A100, replace(small, stage_bytes=24 * KIB), 3) is None
    whole = [(15 * KIB, products, small.work) for _ in products]
    assert refills(A100, replace(small, warps=8, spans=whole), 2) is None
    assert refills(A100, replace(small, products=[]), 3) is None
