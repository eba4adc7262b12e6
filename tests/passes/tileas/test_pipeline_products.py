"""``tileas-ahead``: products that are started an iteration ahead, on both sides of the pass, on the simulator in many
orders of warps, and what machines say when they are waited for too late or not at all."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tests.passes.tileas import kernels as K
from tests.passes.tileas.softmax_loops import Loop
from tests.sampling import some
from xdsl.dialects import scf

from tilewright import LaunchOptions
from tilewright.analysis.verifier import find_problems
from tilewright.diagnostics import TileIRError
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileas import pipelines as P
from tilewright.dialects.nv_tileas.agents import AgentSwitchOp
from tilewright.dialects.nv_tileas.asynchronous import AsyncDotOp, FutureWaitOp
from tilewright.dialects.nv_tileas.ops import DotOp
from tilewright.machine.launch import Program
from tilewright.passes.tileas import product_candidates
from tilewright.passes.tileas.pipeline_products import pipeline_products
from tilewright.passes.tileas.remarks import Remarks
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse, print_text

LAYOUTS = "tileaa,tileas-assign-layouts{target=sm_90a}"
AGENTS = ",tileas-specialize"


def schedule(stages: int = 3, agents: str = AGENTS) -> str:
    return f"{LAYOUTS},tileas-tma{{stages={stages}}},tileas-expand,tileas-schedule{agents}"


LOOPS = {
    "plain": Loop(),
    "branch": Loop(masked=True),
    "nested": Loop(nested=True),
    # Sums that two operations use.
    "unscaled": Loop(scaled=False),
    # The second product adds to the sums of the iteration before as they are.
    "sums only": Loop(
        second="mmaf %p, %values, %acc : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>"
    ),
    # Beside the rings of tensor maps, threads bring a tile in a ring of their own.
    "biased": Loop(biased=True),
    "two blocks": Loop(128, 64, 64),
    "wide": Loop(64, 64, 128),
    "two groups": Loop(128, 128, 128),
}
#: With the stages that their rings have.
ALL_WARPS = [(name, stages) for name in list(LOOPS)[:6] for stages in (2, 3)]
SPLIT = [
    (replace(loop, **how), stages)
    for loop, stages in ((LOOPS["two blocks"], 4), (LOOPS["wide"], 2))
    for how in ({}, {"masked": True}, {"nested": True})
]
ROUNDS = [(0, 0), (1, 0), (2, 0), (5, 0), (0, 3), (3, 2)]


def both_sides(loop: Loop, passes: str) -> None:
    """Run a loop before and behind the pass, and beside float64."""
    before, after = (K.lowered(loop.text(), text) for text in (passes, passes + ",tileas-ahead"))
    assert any(isinstance(op, AsyncDotOp) for op in after.walk())
    assert print_text(parse(print_text(after))) == print_text(after)
    for rounds, first in ROUNDS:
        one, right = loop.launch(Program(before), rounds, first)
        for options in ({}, {"options": LaunchOptions(seed=rounds)}):
            two, _ = loop.launch(Program(after), rounds, first, **options)
            assert one.tobytes() == two.tobytes(), (rounds, first)
        if rounds and "%shrunk :" in loop.text():
            np.testing.assert_allclose(one, right, atol=1e-3)


@pytest.mark.rotates(2)
@pytest.mark.parametrize(("name", "stages"), ALL_WARPS)
def test_both_sides_compute_the_same_where_all_warps_fill(name: str, stages: int) -> None:
    both_sides(LOOPS[name], schedule(stages, ""))


@pytest.mark.rotates(2)
@pytest.mark.parametrize(("loop", "stages"), SPLIT, ids=str)
def test_both_sides_compute_the_same_with_agents(loop: Loop, stages: int) -> None:
    split = K.lowered(loop.text(), schedule(stages))
    assert any(isinstance(op, AgentSwitchOp) for op in split.walk())
    both_sides(loop, schedule(stages))


@pytest.mark.parametrize("step", ["one", "two"])
def test_bounds_that_are_compared_unsigned(step: str) -> None:
    text = Loop().text().replace("for %j in", "for unsigned %j in")
    assert "step %one) : tile<i32> iter_values(%top" in text
    text = text.replace("step %one) : tile<i32> iter", f"step %{step}) : tile<i32> iter")
    before, after = (
        K.lowered(text, passes) for passes in (schedule(), schedule() + ",tileas-ahead")
    )
    for rounds, first in ROUNDS:
        one, _ = Loop().launch(Program(before), rounds, first)
        two, _ = Loop().launch(Program(after), rounds, first)
        assert one.tobytes() == two.tobytes()


def test_what_a_round_does() -> None:
    module = K.lowered(LOOPS["two blocks"].text(), schedule(4) + ",tileas-ahead")
    (loop,) = (
        op
        for op in module.walk()
        if isinstance(op, scf.ForOp) and any(isinstance(inner, AsyncDotOp) for inner in op.walk())
    )
    kept = (AsyncDotOp, FutureWaitOp, P.ConsumerWaitOp, P.ConsumerReleaseOp)
    kinds = [type(op) for op in loop.body.block.ops if isinstance(op, kept)]
    assert kinds == [
        # The product of the next iteration waits for its stage, and that of the iteration before has ended.
        P.ConsumerWaitOp,
        FutureWaitOp,
        P.ConsumerReleaseOp,
        AsyncDotOp,
        # The second one goes on.
        P.ConsumerWaitOp,
        AsyncDotOp,
        FutureWaitOp,
        P.ConsumerReleaseOp,
    ]
    names = [op.name.rpartition(".")[2] for op in loop.body.block.ops]
    first, second = (n for n, name in enumerate(names) if name == "dot")
    assert names.index("reduce") < first < names.index("exp2") < second
    # In front of the loop the first product, behind it the second one of the last iteration.
    around = loop.parent_op()
    assert isinstance(around, scf.IfOp)
    kinds = [type(op) for op in around.walk()]
    assert kinds.count(DotOp) == 2 and kinds.count(FutureWaitOp) == 3


@pytest.mark.rotates(2)
@pytest.mark.parametrize("name", LOOPS)
def test_on_the_simulator_in_many_orders(name: str) -> None:
    loop = LOOPS[name]
    program = TileProgram(parse(loop.text()), "sm_90a")
    small = (loop.m, loop.size) == (64, 64)
    for seed in some(range(20 if name == "plain" else 3 if small else 1)):
        for rounds in (0, 1, 4) if small else (3,):
            found, right = loop.launch(program, rounds, options=LaunchOptions(seed=seed))
            if rounds and name != "sums only":
                np.testing.assert_allclose(found, right, atol=1e-3)
    assert not program.fallbacks
    scheduled = program._lowered.scheduled("k")  # pyright: ignore[reportPrivateUsage]
    told = [remark.message for remark in scheduled.remarks if remark.kind == "in-flight"]
    # Nothing is left of what was said before.
    assert told == [AHEAD, GOES_ON]


def test_two_stages_are_filled_in_the_order_in_which_they_are_waited_for() -> None:
    """With two stages the keys of an iteration are on their way before the values of the iteration before."""
    loop = LOOPS["wide"]
    module = K.lowered(loop.text(), schedule(2) + ",tileas-ahead")
    (fills,) = (
        op
        for op in module.walk()
        if isinstance(op, scf.ForOp)
        and any(isinstance(inner, P.ProducerAcquireOp) for inner in op.walk())
    )
    branches = [op for op in fills.body.block.ops if isinstance(op, scf.IfOp)]
    assert len(branches) == 2
    keys, values = (
        next(inner for inner in op.walk() if isinstance(inner, P.ProducerAcquireOp))
        for op in branches
    )
    assert keys.pipeline is not values.pipeline
    # In front of the loop only keys are filled.
    assert sum(isinstance(op, P.ProducerAcquireOp) for op in module.walk()) == 3
    before = K.lowered(loop.text(), schedule(2))
    assert sum(isinstance(op, P.ProducerAcquireOp) for op in before.walk()) == 4


AHEAD = "the product of the next iteration starts before the accumulator of this one is used"
GOES_ON = "a product stays in flight across iterations"
ALONE = "product not started an iteration ahead: "


def said(text: str, warps: int = 4) -> list[str]:
    module, remarks = K.lowered(text, schedule()), Remarks()
    (func,) = (op for op in module.walk() if isinstance(op, FuncOp))
    pipeline_products(func, warps, remarks)
    return [remark.message for remark in remarks.found]


FIRST = "    %s = mmaf %query, %kt, %none : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>\n"
BLOCKED: list[tuple[str, str]] = [
    (
        "    %wt = broadcast %top : tile<64x1xf32> -> tile<64x64xf32>\n"
        "    %h = ftof %wt : tile<64x64xf32> -> tile<64x64xf16>\n"
        + FIRST.replace("%query,", "%h,"),
        "the loop writes an operand",
    ),
    (
        # The keys are the values, too.
        "    %k0 = mmaf %query, %key, %none : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>\n"
        + FIRST.replace("%none", "%k0"),
        "the iteration has another read of the stage",
    ),
]


def test_remarks() -> None:
    text = Loop().text()
    assert said(text) == [AHEAD, GOES_ON]
    assert FIRST in text
    for other, why in BLOCKED:
        assert ALONE + why in said(text.replace(FIRST, other)), why
    rounded = FIRST.replace("f32>\n", "f16>\n").replace("%s =", "%sh =").replace("%none", "%noneh")
    rounded += "    %s = ftof %sh : tile<64x64xf16> -> tile<64x64xf32>\n"
    zero = "  %noneh = constant <f16: 0.0> : tile<64x64xf16>\n"
    changed = text.replace(FIRST, rounded).replace("  %two =", zero + "  %two =")
    assert ALONE + "its accumulator is rounded to f16" in said(changed)


@pytest.mark.parametrize("beside", [16, 92, 116])
def test_registers_decide(beside: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of two iterations and what the loop carries, then the left operand of the product that goes on, in the
    232 registers of a thread."""
    monkeypatch.setattr(product_candidates, "_BESIDE", beside)
    module, remarks = K.lowered(LOOPS["wide"].text(), schedule(2)), Remarks()
    (func,) = (op for op in module.walk() if isinstance(op, FuncOp))
    before = print_text(module)
    pipeline_products(func, 4, remarks)
    message, *others = [remark.message for remark in remarks.found]
    if beside == 116:
        assert message.startswith(
            ALONE + "2 x 32 accumulator registers, 68 for loop-carried values"
        )
        assert message.endswith("116 others exceed the 232 of a thread")
        assert print_text(module) == before
        return
    assert [message, *others] == [AHEAD, GOES_ON]
    names = [op.name.rpartition(".")[2] for op in module.walk()]
    wait = names.index("future_wait")
    # With fewer registers the second product is waited for at first, so that its operand goes.
    assert names[:wait].count("reduce") == (1 if beside == 16 else 0)


def ahead_of(loop: Loop) -> str:
    return print_text(K.lowered(loop.text(), schedule() + ",tileas-ahead"))


def _release_before_wait(text: str) -> str:
    """The stage of the product of the next iteration is given back before that has ended."""
    wait, release = (
        list(re.finditer(rf"^ *(%\S+ = )?nv_tileas\.async\.{name} .*\n", text, re.MULTILINE))
        for name in ("future_wait", "pipeline.consumer_release")
    )
    last = next(found for found in wait if "pending = 1" in found.group())
    behind = next(found for found in release if found.start() == last.end())
    return text[: last.start()] + behind.group() + last.group() + text[behind.end() :]


def _waits_for_too_little(text: str) -> str:
    return text.replace("{pending = 1 : i64}", "{pending = 2 : i64}", 1)


CHANGES: list[tuple[Callable[[str], str], str]] = [
    (_release_before_wait, r"\[product-operand-changed\]: storage was written while a product"),
    (
        _waits_for_too_little,
        r"\[group-not-awaited\]: .* allows 2 pending products, but 2 were started",
    ),
]


@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_the_reference_machine_finds_what_is_wrong(
    change: Callable[[str], str], message: str
) -> None:
    text = ahead_of(Loop())
    changed = change(text)
    assert changed != text
    with pytest.raises(TileIRError, match=message):
        Loop().launch(Program(parse(changed)), 4)


def test_the_verifier_finds_sums_that_are_used_in_flight() -> None:
    text = ahead_of(Loop())
    wait = re.search(r"(%\S+) = nv_tileas\.async\.future_wait (%\S+), .*pending = 1.*\n", text)
    assert wait is not None
    end = re.search(r" *scf\.yield .*\n", text[wait.end() :])
    assert end is not None and f"{wait[1]}," in end.group()
    changed = text.replace(end.group(), end.group().replace(f"{wait[1]},", f"{wait[2]},"))
    found = find_problems(parse(changed))
    assert {finding.code for finding in found} == {"as-in-flight"}


def test_one_product_alone() -> None:
    """A loop whose sums no second product takes has its product ahead as well."""
    loop = Loop(second="addf %shrunk, %shrunk : tile<64x64xf32>")
    passes = schedule()
    before, after = (K.lowered(loop.text(), text) for text in (passes, passes + ",tileas-ahead"))
    assert sum(isinstance(op, AsyncDotOp) for op in after.walk()) == 1
    for rounds in (0, 1, 4):
        one, _ = loop.launch(Program(before), rounds)
        two, _ = loop.launch(Program(after), rounds)
        assert one.tobytes() == two.tobytes()
