"""``tileas-specialize``: warps that fill pipelines beside those that compute, on both sides of the pass and on
the simulator in many orders."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.passes.tileas import kernels as K
from tests.passes.tileas.test_tma import LAYOUTS, how, launch, product
from tests.sampling import some
from xdsl.dialects import scf

from tilewright import LaunchOptions
from tilewright.diagnostics import TileIRError
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileas import pipelines as P
from tilewright.dialects.nv_tileas.agents import AgentSwitchOp
from tilewright.dialects.nv_tileas.asynchronous import AsyncDotOp
from tilewright.machine.launch import Program
from tilewright.passes import run_pipeline
from tilewright.passes.tileas.remarks import Remarks, to_json
from tilewright.passes.tileas.specialize import Agents, agents_for, specialize
from tilewright.passes.tileas.target import Target
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse, print_text

SCHEDULE = LAYOUTS + ",tileas-tma{stages=4},tileas-expand,tileas-schedule"
AGENTS = SCHEDULE + ",tileas-specialize"
TILE = (64, 64, 128)


def switch_of(module: Any) -> AgentSwitchOp:
    (found,) = (op for op in module.walk() if isinstance(op, AgentSwitchOp))
    return found


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("depth", [0, 1, 64, 100, 256, 320])
def test_both_sides_of_the_pass_compute_the_same(nested: bool, depth: int) -> None:
    text = product(*TILE, nested=nested)
    before, after = (K.lowered(text, passes) for passes in (SCHEDULE, AGENTS))
    extents = (100, 60, depth)
    one, right = launch(Program(before), extents, TILE, how(nested=nested))
    for options in ({}, *({"options": LaunchOptions(seed=seed)} for seed in some(range(3)))):
        two, _ = launch(Program(after), extents, TILE, how(nested=nested, options=options))
        assert one.tobytes() == two.tobytes()
    np.testing.assert_array_equal(one, right)
    assert print_text(parse(print_text(after))) == print_text(after)


@pytest.mark.parametrize("nested", [False, True])
def test_who_does_what(nested: bool) -> None:
    switch = switch_of(K.lowered(product(*TILE, nested=nested), AGENTS))
    consumer, producer = ([type(op) for op in region.walk()] for region in switch.agents)
    fills = {P.ProducerAcquireOp, P.ProducerWriteOp, P.ProducerCommitOp, P.AsyncTiledTmaLoadOp}
    assert not fills & set(consumer) and fills <= set(producer)
    reads = {P.ConsumerWaitOp, P.ConsumerReadOp, P.ConsumerReleaseOp, AsyncDotOp}
    assert not reads & set(producer) and reads <= set(consumer)
    # Two stages ahead, and one in each iteration. No tile of the nest is exchanged, for which its ring would leave room.
    assert producer.count(P.ProducerAcquireOp) == 3
    # Sums, the iterator, a token and a stage here; the iteration that is filled and its iterator there.
    carried = [
        [len(op.results) for op in region.walk() if isinstance(op, scf.ForOp)]
        for region in switch.agents
    ]
    # A loop around it hands the place where its consumers stand to the next iteration, from which both go on.
    assert carried == ([[2, 4], [1, 3]] if nested else [[4], [2]])


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    ("tile", "warps", "registers"),
    [
        ((64, 64, 64), (4, 4), (136, 24)),
        (TILE, (4, 4), (232, 24)),
        ((128, 128, 64), (4, 4), (232, 24)),
        ((128, 256, 64), (8, 4), (240, 24)),
    ],
)
def test_on_the_simulator_in_many_orders(
    tile: tuple[int, int, int], warps: Any, registers: Any, nested: bool
) -> None:
    program = TileProgram(parse(product(*tile, nested=nested)), "sm_90a")
    switch = switch_of(program._lowered.scheduled("k").module)  # pyright: ignore[reportPrivateUsage]
    assert (switch.warps, switch.registers) == (warps, registers)
    assert program.block("k") == 32 * sum(warps)
    for seed in some(range(20 if tile == TILE else 2)):
        for depth in (0, 64, 320) if tile == TILE else (320,):
            options = {"options": LaunchOptions(seed=seed)}
            found, right = launch(
                program, (64, 60, depth), tile, how(nested=nested, options=options)
            )
            np.testing.assert_array_equal(found, right)
    assert not program.fallbacks


KIB = 1 << 10


@pytest.mark.parametrize(
    ("warps", "sums", "shared", "wanted"),
    [
        # One block on a multiprocessor: one more warp takes nothing from the others.
        (4, 128, 160 * KIB, Agents((4, 1))),
        # Two blocks, of 128 registers for each of 256 threads.
        (4, 128, 96 * KIB, Agents((4, 4), (232, 24))),
        # 168 for each of 384.
        (8, 128, 192 * KIB, Agents((8, 4), (240, 24))),
        (8, 64, 96 * KIB, Agents((8, 4), (240, 24))),
        # Two blocks of 80 for each of 384, or four of 64 for each of 256.
        (8, 32, 96 * KIB, None),
        (4, 32, 48 * KIB, None),
    ],
)
def test_registers(warps: int, sums: int, shared: int, wanted: Agents | None) -> None:
    found = agents_for(warps, sums, shared, Target("sm_90a"))
    assert found == wanted
    if found is not None and found.registers is not None:
        assert sum(w * r for w, r in zip(found.warps, found.registers, strict=True)) <= 2048


def test_registers_of_one_instruction() -> None:
    """Before threads trade registers all have the same number, of which ptxas wants 154 for 64 x 256 sums."""
    target = Target("sm_90a")
    assert agents_for(4, 128, 96 * KIB, target, widest=128) is None
    assert agents_for(4, 128, 96 * KIB, target, widest=64) == Agents((4, 4), (232, 24))
    assert agents_for(8, 128, 192 * KIB, target, widest=128) == Agents((8, 4), (240, 24))
    text = product(64, 256, 64)
    module = K.lowered(
        text, "tileaa,tileas-assign-layouts{target=sm_90a},tileas-tma{stages=3},tileas-expand"
    )
    run_pipeline(module, "tileas-specialize{target=sm_90a}", verify_each=True)
    for switch in (op for op in module.walk() if isinstance(op, AgentSwitchOp)):
        assert "max_regs" not in switch.properties


@pytest.mark.parametrize(
    ("arch", "wanted"),
    [
        # Shared memory of 100 KiB holds one block of 64.
        ("sm_120a", Agents((4, 1))),
        ("sm_90a", Agents((4, 4), (136, 24))),
        # Registers are traded by what has an `a` in its name only.
        ("sm_90", None),
    ],
)
def test_architectures(arch: str, wanted: Agents | None) -> None:
    assert agents_for(4, 32, 64 * KIB, Target(arch)) == wanted


def doubling(tile: tuple[int, int, int]) -> str:
    """acc = 2 acc + a x b: each iteration waits for its product."""
    (m, n, k), sums = tile, "tile<{}x{}xf32>".format(*tile)
    made = f"%next = mmaf %l, %r, %acc : tile<{m}x{k}xf16>, tile<{k}x{n}xf16>, {sums}"
    text = product(*tile)
    assert made in text
    twice = f"%twice = addf %acc, %acc : {sums}\n    "
    return text.replace(made, twice + made.replace("%acc", "%twice"))


@pytest.mark.parametrize("arch", ["sm_90a", "sm_120a"])
@pytest.mark.parametrize("tile", [(64, 64, 64), (128, 128, 64)])
def test_products_that_are_waited_for(arch: str, tile: tuple[int, int, int]) -> None:
    text = doubling(tile)
    program = TileProgram(parse(text), arch)
    switch = switch_of(program._lowered.scheduled("k").module)  # pyright: ignore[reportPrivateUsage]
    assert not [op for op in switch.walk() if isinstance(op, AsyncDotOp)]
    right, _ = launch(Program(parse(text)), (64, 60, 320), tile, how())
    for seed in some(range(10 if tile[0] == 64 else 2)):
        options = {"options": LaunchOptions(seed=seed)}
        found, _ = launch(program, (64, 60, 320), tile, how(options=options))
        np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
def test_the_pipeline_by_name(target: str) -> None:
    """An option of a pipeline goes to the passes that have it."""
    passes = (
        f"tileas-order-blocks{{target={target}}},tileas-assign-layouts{{target={target}}},"
        "tileas-avoid-conflicts,tileas-remove-conversions,"
        f"tileas-tma{{target={target}}},tileas-pipeline,tileas-expand"
    )
    passes += f",tileas-schedule,tileas-tma-stores,tileas-specialize{{target={target}}},tileas-allocate,tileas-insert-barriers"
    text = product(*TILE)
    named = K.lowered(text, f"tileaa,tileas{{target={target}}}")
    assert print_text(named) == print_text(K.lowered(text, f"tileaa,{passes}"))
    assert ("agent_switch" in print_text(named)) == (target == "sm_90a")
    if target == "sm_80":
        assert print_text(named) == print_text(K.lowered(text, "tileaa,tileas"))


def test_an_agent_that_does_nothing() -> None:
    """As somebody may write it."""
    text = """
builtin.module attributes {nv_tileaa.compute_capability = 90 : i32} {
  nv_tileaa.func @k(%n: i32) attributes {kernel} {
    nv_tileas.async.pipeline.agent_switch {num_warps = array<i64: 4, 1>} {
      nv_tileas.async.pipeline.yield
    }, {
      nv_tileas.async.pipeline.yield
    }
    nv_tileaa.return
  }
}
"""
    lowered = run_pipeline(parse(text), "convert-tileas-to-nvgpu", verify_each=True)
    assert "gpu.known_block_size = array<i32: 160, 1, 1>" in print_text(lowered)


def said(text: str) -> list[str]:
    module, remarks = K.lowered(text, SCHEDULE), Remarks()
    (func,) = (op for op in module.walk() if isinstance(op, FuncOp))
    specialize(func, 4, Target("sm_90a"), remarks)
    return [remark.message for remark in remarks.found]


#: The column of tiles is read from memory in each iteration of the outer loop.
READ = (
    "    %cell = offset %c, %o : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>\n"
    "    %number, %t0 = load_ptr_tko weak %cell : tile<ptr<f32>> -> tile<f32>, token\n"
    "    %column = ftoi %number signed : tile<f32> -> tile<i32>\n"
)


def test_remarks() -> None:
    split = (
        "4 consumer warps and 4 producer warps, with 232 and 24 registers per thread; modelled on "
        "H100 SXM, with them: 819 clocks per iteration, 2 blocks; without: 819 clocks per iteration, 2 blocks"
    )
    assert said(product(*TILE)) == [split]
    text = product(*TILE, nested=True)
    head = "iter_values(%outer = %nothing) -> (tile<64x64xf32>) {\n"
    assert head in text and "%bt[%s, %y]" in text
    text = text.replace(head, head + READ).replace("%bt[%s, %y]", "%bt[%s, %column]")
    (found,) = said(text)
    assert found.startswith("4 consumer warps and 4 producer warps")
    refused = ["no producer warps: where its tiles lie comes from 'nv_tileaa.load'"]
    assert said(text.replace("tko weak %cell", "tko relaxed device %cell")) == refused
    # What the block has written before it only the threads that compute know to be there.
    written = "%w = store_ptr_tko weak %c, %n : tile<ptr<f32>>, tile<f32> -> token\n    %number, "
    ordered = text.replace("%number, ", f"%n = constant <f32: 1.0> : tile<f32>\n    {written}")
    assert said(ordered.replace("weak %cell :", "weak %cell token=%w :")) == refused
    # Of several elements each thread has one.
    many = text.replace(
        "tile<ptr<f32>> -> tile<f32>, token", "tile<2xptr<f32>> -> tile<2xf32>, token"
    )
    many = many.replace(
        "%number, %t0",
        "%one_cell = reshape %cell : tile<ptr<f32>> -> tile<1xptr<f32>>\n"
        "    %cells = broadcast %one_cell : tile<1xptr<f32>> -> tile<2xptr<f32>>\n"
        "    %numbers, %t0",
    ).replace("weak %cell :", "weak %cells :")
    many = many.replace(
        "    %column =",
        """    %number = reduce %numbers dim=0 identities=[0.0 : f32] : tile<2xf32> -> tile<f32>
    (%p: tile<f32>, %q: tile<f32>) {
      %m = maxf %p, %q : tile<f32>
      yield %m : tile<f32>
    }
    %column =""",
    )
    (found,) = said(many)
    assert found.startswith("no producer warps: ") and found.endswith("that threads share")


def test_what_the_model_compared_is_data() -> None:
    module, remarks = K.lowered(product(*TILE), SCHEDULE), Remarks()
    (func,) = (op for op in module.walk() if isinstance(op, FuncOp))
    specialize(func, 4, Target("sm_90a"), remarks)
    (found,) = json.loads(json.dumps(to_json(remarks.found)))
    assert found["figures"] == {"consumer_warps": 4, "producer_warps": 4}
    alternatives = found["compared"].pop("alternatives")
    assert found["compared"] == {"gpu": "H100 SXM"}
    assert [(each["choice"], round(each["clocks"]), each["blocks"]) for each in alternatives] == [
        ("with them", 819, 2),
        ("without", 819, 2),
    ]


#: Around the loop of a product: what runs it once, or ``%rounds`` times, as authors of kernels write it.
_IF = """
  %enough = cmpi greater_than %steps, %zero, signed : tile<i32> -> tile<i1>
  %sum = if %enough -> ({sums}) {{
{inner}
    yield %part : {sums}
  }} else {{
    yield %nothing : {sums}
  }}
"""
_EARLY_LOAD = """
  %number, %t0 = load_ptr_tko weak %b : tile<ptr<f16>> -> tile<f16>, token
  %whole = ftoi %number signed : tile<f16> -> tile<i32>
  %enough = cmpi equal %whole, %whole, signed : tile<i32> -> tile<i1>
"""
_WHILE = """
  %sum, %last = loop iter_values(%outer = %nothing, %o = %zero) : {sums}, tile<i32> -> {sums}, tile<i32> {{
    %ended = cmpi greater_than_or_equal %o, %two, signed : tile<i32> -> tile<i1>
    if %ended {{
      break %outer, %o : {sums}, tile<i32>
    }}
{inner}
    %o1 = addi %o, %one : tile<i32>
    continue %part, %o1 : {sums}, tile<i32>
  }}
"""


def around(kind: str) -> tuple[str, bool]:
    """The product within a branch or a loop without a counter; whether it is made twice."""
    text, sums = product(*TILE, nested=True), "tile<64x64xf32>"
    start, end = text.index("\n  %sum = for %o"), text.index("  %done = ")
    inner = text[text.index("\n  %part = ", start) : text.index("    continue %part", start)]
    if kind == "while":
        return text[:start] + _WHILE.format(inner=inner, sums=sums) + text[end:], True
    body = _IF.format(inner=inner.replace("%outer", "%nothing"), sums=sums)
    if kind == "loaded":
        body = _EARLY_LOAD + body[body.index("  %sum") :]
    return text[:start] + body + text[end:], False


@pytest.mark.parametrize("kind", ["if", "while", "loaded"])
def test_loops_inside_of_others(kind: str) -> None:
    """Both agents have the branch or loop, what decides about it, and of what it carries their own."""
    text, twice = around(kind)
    before, after = (K.lowered(text, passes) for passes in (SCHEDULE, AGENTS))
    switch = switch_of(after)
    around_type = scf.WhileOp if kind == "while" else scf.IfOp
    for region in switch.agents:
        assert any(
            isinstance(op, around_type) and op.parent is region.block for op in region.walk()
        )
    assert not any(isinstance(op, P.ConsumerWaitOp) for op in switch.agents[1].walk())
    for depth in (0, 64, 320):
        one, right = launch(Program(before), (100, 60, depth), TILE, how(nested=twice))
        two, _ = launch(Program(after), (100, 60, depth), TILE, how(nested=twice))
        assert one.tobytes() == two.tobytes()
        np.testing.assert_array_equal(one, right)
    assert print_text(parse(print_text(after))) == print_text(after)


@pytest.mark.parametrize("arch", ["sm_90a", "sm_120a"])
@pytest.mark.parametrize("kind", ["if", "while", "loaded"])
@pytest.mark.rotates(2)
def test_loops_inside_of_others_on_the_simulator(kind: str, arch: str) -> None:
    text, twice = around(kind)
    program = TileProgram(parse(text), arch)
    switch_of(program._lowered.scheduled("k").module)  # pyright: ignore[reportPrivateUsage]
    for seed in some(range(20)):
        options = {"options": LaunchOptions(seed=seed)}
        for depth in (0, 64, 320):
            how_ = how(nested=twice, options=options)
            found, right = launch(program, (64, 60, depth), TILE, how_)
            np.testing.assert_array_equal(found, right)
    assert not program.fallbacks


def test_the_reference_machine_finds_an_agent_that_waits_for_ever() -> None:
    """The second agent fills two stages ahead, and nothing in its loop."""
    text = print_text(K.lowered(product(*TILE), AGENTS))
    head, switch, tail = text.partition("}, {\n")
    changed = tail.replace("to %steps step", "to %zero step")
    assert switch and changed != tail
    with pytest.raises(TileIRError, match="agent") as raised:
        launch(Program(parse(head + switch + changed)), (64, 64, 320), TILE, how())
    assert "stage 2 of a pipeline to be full" in str(raised.value)
