"""``tileas-schedule``: products that go on into the next iteration, on both sides of the pass, on the simulator
in many orders of warps, and what machines say when they are waited for too late or not at all."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from tests.passes.tileas import kernels as K
from tests.passes.tileas.test_tma import TMA, how, launch, product
from tests.sampling import some

from tilewright import LaunchOptions
from tilewright.diagnostics import TileIRError
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileas.asynchronous import AsyncDotOp, AsyncWaitOp, FutureWaitOp
from tilewright.dialects.nv_tileas.ops import DotOp
from tilewright.dialects.nv_tileas.pipelines import ConsumerReleaseOp
from tilewright.machine.launch import Program
from tilewright.passes.tileas import schedule
from tilewright.passes.tileas.remarks import Remarks
from tilewright.passes.tileas.schedule import schedule_products
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse, print_text

SCHEDULE = TMA + ",tileas-schedule"
TILE = (64, 64, 64)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("depth", [0, 1, 64, 100, 256, 320])
def test_both_sides_of_the_pass_compute_the_same(nested: bool, depth: int) -> None:
    text = product(*TILE, nested=nested)
    before, after = (K.lowered(text, passes) for passes in (TMA, SCHEDULE))
    kinds = [type(op) for op in after.walk()]
    assert kinds.count(AsyncDotOp) == kinds.count(FutureWaitOp) == kinds.count(AsyncWaitOp) == 1
    # That of the iteration before, and behind the loop that of the last.
    assert kinds.count(ConsumerReleaseOp) == 2 and DotOp not in kinds
    extents = (100, 60, depth)
    one, right = launch(Program(before), extents, TILE, how(nested=nested))
    two, _ = launch(Program(after), extents, TILE, how(nested=nested))
    assert one.tobytes() == two.tobytes()
    np.testing.assert_array_equal(one, right)
    assert print_text(parse(print_text(after))) == print_text(after)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("tile", [TILE, (128, 128, 64), (128, 64, 128)])
def test_on_the_simulator_in_many_orders(nested: bool, tile: tuple[int, int, int]) -> None:
    program = TileProgram(parse(product(*tile, nested=nested)), "sm_90a")
    for seed in some(range(20 if tile == TILE else 3)):
        for depth in (0, 64, 320):
            options = {"options": LaunchOptions(seed=seed)}
            found, right = launch(
                program, (64, 60, depth), tile, how(nested=nested, options=options)
            )
            np.testing.assert_array_equal(found, right)
    assert not program.fallbacks


def said(text: str) -> list[str]:
    module, remarks = K.lowered(text, TMA), Remarks()
    (func,) = (op for op in module.walk() if isinstance(op, FuncOp))
    schedule_products(func, remarks)
    return [remark.message for remark in remarks.found]


ROUND = "    %next = mmaf %l, %r, %acc : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>\n"
ALONE = "product not kept in flight: "
BLOCKED: list[tuple[str, str]] = [
    (
        "    %twice = addf %acc, %acc : tile<64x64xf32>\n" + ROUND.replace("%acc", "%twice"),
        "it does not accumulate onto the product of the previous iteration",
    ),
    (
        ROUND.replace("%next", "%made") + "    %next = addf %made, %made : tile<64x64xf32>\n",
        "the iteration uses its accumulator",
    ),
    (
        ROUND.replace("%next", "%made").replace("%acc", "%nothing")
        + "    %next = addf %made, %acc : tile<64x64xf32>\n",
        "the iteration uses its accumulator",
    ),
    (
        "    %h = constant <f16: 1.0> : tile<64x64xf16>\n" + ROUND.replace("%l,", "%h,"),
        "its operands do not come from one stage of a pipeline",
    ),
    (
        "    %h = addf %l, %l : tile<64x64xf16>\n" + ROUND.replace("%l,", "%h,"),
        "its operands do not come from one stage of a pipeline",
    ),
]


def test_remarks() -> None:
    text = product(*TILE)
    assert said(text) == ["a product stays in flight across iterations"]
    assert ROUND in text
    for other, why in BLOCKED:
        assert ALONE + why in said(text.replace(ROUND, other)), why


def scheduled() -> str:
    return print_text(K.lowered(product(*TILE), SCHEDULE))


def _without(pattern: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        found = re.sub(pattern, "", text, count=1, flags=re.MULTILINE)
        assert found != text
        return found

    return change


def _released_early(text: str) -> str:
    """The wait for the product of the iteration before comes behind the release of its stage."""
    wait, release = (
        re.search(rf"^ *nv_tileas\.async\.{name} .*\n", text, re.MULTILINE)
        for name in ("wait", "pipeline.consumer_release")
    )
    assert wait is not None and release is not None and wait.end() == release.start()
    return text[: wait.start()] + release.group() + wait.group() + text[release.end() :]


NO_WAIT = _without(r"^ *nv_tileas\.async\.wait .*\n")


def one_more(text: str) -> str:
    return text.replace("{pending = 1 : i64}", "{pending = 2 : i64}", 1)


@pytest.mark.parametrize("change", [NO_WAIT, _released_early], ids=["no wait", "released early"])
def test_the_reference_machine_finds_a_stage_that_is_given_back_early(
    change: Callable[[str], str],
) -> None:
    with pytest.raises(TileIRError, match="storage was written while a product"):
        launch(Program(parse(change(scheduled()))), (64, 64, 256), TILE, how())


def test_the_reference_machine_finds_a_wait_for_too_little() -> None:
    with pytest.raises(
        TileIRError, match="the wait for product 1 allows 2 pending products, but 2 were started"
    ):
        launch(Program(parse(one_more(scheduled()))), (64, 64, 256), TILE, how())


def test_the_simulator_finds_a_stage_that_is_given_back_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Copies of a later iteration write what a product still reads."""
    monkeypatch.setattr(schedule, "GOING", 9)
    program = TileProgram(parse(product(*TILE)), "sm_90a")
    found: set[str] = set()
    for seed in some(range(4)):
        with pytest.raises(TileIRError) as raised:
            options = {"options": LaunchOptions(seed=seed)}
            launch(program, (64, 64, 320), TILE, how(options=options))
        found |= {finding.code for finding in raised.value.diagnostics}
    # Of the storage that it reads as of its sums: both are the product's until it has been waited for.
    assert found == {"sim-accumulator-not-awaited"}
