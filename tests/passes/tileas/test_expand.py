"""``tileas-expand``: the same results on both sides, and code that starts copies as far ahead as the program says."""

from __future__ import annotations

import numpy as np
import pytest
from tests.passes.tileas import kernels as K
from tests.passes.tileas.test_tma import how, launch, product
from tests.sampling import some
from xdsl.dialects import builtin as b
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tilewright import LaunchOptions
from tilewright.analysis.verifier import verify
from tilewright.diagnostics import TileIRError
from tilewright.dialects.nv_tileas.asynchronous import AsyncGroupOp, AsyncTiledLoadOp, AsyncWaitOp
from tilewright.dialects.nv_tileas.pipelines import AsyncTiledTmaLoadOp, ProducerCommitOp
from tilewright.machine.launch import Program
from tilewright.passes import run_pipeline
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse, print_text

LAYOUTS = "tileaa,tileas-assign-layouts{target=sm_90a}"
TILE = (64, 64, 32)
MAKES = {
    "rings": "tileas-pipeline{stages=4 shared-bytes=180000}",
    "pipelines": "tileas-tma{stages=4}",
}


def made(makes: str, *, nested: bool = False) -> tuple[str, ModuleOp]:
    text = product(*TILE, nested=nested)
    return text, K.lowered(text, f"{LAYOUTS},{MAKES[makes]}")


def ends(module: object) -> list[AsyncGroupOp | ProducerCommitOp]:
    """What ends the copies of an iteration that are to start ahead."""
    kinds = (AsyncGroupOp, ProducerCommitOp)
    return [
        op
        for op in module.walk()  # pyright: ignore[reportAttributeAccessIssue]
        if isinstance(op, kinds) and "ahead" in op.properties
    ]


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("rounds", [1, 2, 3])
@pytest.mark.parametrize("makes", MAKES)
def test_loops_of_any_length_ahead_by_any_number_of_rounds(
    makes: str, rounds: int, nested: bool
) -> None:
    """A ring may have more stages than it takes."""
    _, module = made(makes, nested=nested)
    kind = AsyncTiledLoadOp if makes == "rings" else AsyncTiledTmaLoadOp
    each = sum(isinstance(op, kind) for op in module.walk())
    (marked,) = ends(module)
    assert each and marked.properties["ahead"] == b.IntegerAttr(3, b.i64)
    marked.properties["ahead"] = b.IntegerAttr(rounds, b.i64)
    given = run_pipeline(parse(print_text(module)), "tileas-expand", verify_each=True)
    assert ends(given) == []
    started = [op for op in given.walk() if isinstance(op, kind)]
    assert len(started) == each * (rounds + 1)
    assert all(isinstance(op.parent_op(), scf.IfOp) for op in started)
    for depth in (0, 1, 64, 100, 192, 320):
        extents = (64, 60, depth)
        before, right = launch(Program(module), extents, TILE, how(nested=nested))
        after, _ = launch(Program(given), extents, TILE, how(nested=nested))
        assert before.tobytes() == after.tobytes()
        np.testing.assert_array_equal(after, right)


def test_as_many_groups_are_under_way_as_rounds() -> None:
    module = run_pipeline(made("rings")[1], "tileas-expand", verify_each=True)
    (wait,) = (op for op in module.walk() if isinstance(op, AsyncWaitOp))
    assert wait.properties["pending"] == b.IntegerAttr(2, b.i64)
    loop = wait.parent_op()
    assert isinstance(loop, scf.ForOp)
    assert [op.name for op in loop.body.block.ops].count("nv_tileas.async.group") == 1
    groups = [op for op in module.walk() if isinstance(op, AsyncGroupOp)]
    assert len(groups) == 3 + 1


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_threads_agree_without_the_pass(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Barriers keep threads apart also where each iteration waits for its own copies, under several orders of warps."""
    marked: list[Operation] = []
    name = "tilewright.lowering.scheduled.schedule.expand"
    monkeypatch.setattr(name, lambda func: marked.extend(ends(func)))
    program = TileProgram(parse(product(*TILE)), arch)
    for seed in some(range(3)):
        options = {"options": LaunchOptions(seed=seed)}
        found, right = launch(program, (64, 60, 320), TILE, how(options=options))
        np.testing.assert_array_equal(found, right)
    assert marked and not program.fallbacks


@pytest.mark.parametrize(
    ("makes", "rounds", "why"),
    [
        ("rings", 0, "ahead is at least 1 iteration, got 0"),
        (
            "pipelines",
            0,
            "ahead is at least 1 iteration, as many as the pipeline has stages (4) at most, got 0",
        ),
        (
            "pipelines",
            5,
            "ahead is at least 1 iteration, as many as the pipeline has stages (4) at most, got 5",
        ),
    ],
)
def test_rounds_that_no_stage_is_left_for(makes: str, rounds: int, why: str) -> None:
    text = print_text(made(makes)[1])
    with pytest.raises(TileIRError, match="as-ahead") as caught:
        verify(parse(text.replace("ahead = 3", f"ahead = {rounds}")))
    assert why in str(caught.value)


@pytest.mark.parametrize("rounds", [4, 9])
def test_a_ring_with_too_few_stages_stays(rounds: int) -> None:
    """Copies would go to a stage that is read."""
    module = parse(print_text(made("rings")[1]).replace("ahead = 3", f"ahead = {rounds}"))
    before = print_text(module).replace('done = "tileas-pipeline"', 'done = "tileas-expand"')
    assert print_text(run_pipeline(module, "tileas-expand", verify_each=True)) == before


def test_ahead_of_what() -> None:
    text = print_text(run_pipeline(made("rings")[1], "tileas-expand"))
    wrong = text.replace("nv_tileas.async.group :", "nv_tileas.async.group {ahead = 1 : i64} :", 1)
    with pytest.raises(TileIRError, match="it is not in a loop"):
        verify(parse(wrong))


def test_a_program_that_says_nothing_stays() -> None:
    module = run_pipeline(made("rings")[1], "tileas-expand", verify_each=True)
    before = print_text(module)
    assert print_text(run_pipeline(module, "tileas-expand", verify_each=True)) == before
