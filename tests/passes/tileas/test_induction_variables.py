"""Counters that a loop carries beside its own, and views that are made in branches, do not keep tiles from coming ahead."""

from __future__ import annotations

import numpy as np
import pytest
from tests.passes.tileas import kernels as K
from xdsl.dialects import scf

from tilewright import LaunchOptions
from tilewright.dialects.nv_tileaa.ops.shapes import BlockTileOp
from tilewright.dialects.nv_tileas.asynchronous import AsyncTiledLoadOp
from tilewright.gpu.tiles import TileProgram as GpuProgram
from tilewright.launching.modules import kernel_of
from tilewright.machine.launch import Program
from tilewright.passes.tileas.hoist_views import hoist_views
from tilewright.passes.tileas.induction_variables import close_inductions
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse

SUMS = "tile<64x64xf32>"


def counted(start: int, by: int, step: int, wanted: bool = False) -> str:
    """c = the sum of products of tiles whose number begins at ``start`` and changes ``by`` so much in each iteration of a loop whose
    own counter goes up by ``step``; with the last number added, if that is ``wanted``."""
    body = (
        f"  %nothing = constant <f32: 0.0> : {SUMS}\n"
        f"  %start = constant <i32: {start}> : tile<i32>\n"
        f"  %by = constant <i32: {by}> : tile<i32>\n"
        f"  %stride = constant <i32: {step}> : tile<i32>\n"
        "  %from = constant <i32: 7> : tile<i32>\n"
        "  %length = muli %steps, %stride : tile<i32>\n"
        "  %to = addi %length, %from : tile<i32>\n"
        "  %sum, %last = for %s in (%from to %to, step %stride) : tile<i32> "
        f"iter_values(%acc = %nothing, %tile_no = %start) -> ({SUMS}, tile<i32>) {{\n"
        + K.load("l", "a", "%zero, %tile_no", K.A)
        + K.load("r", "b", "%tile_no, %zero", K.B)
        + f"    %next = mmaf %l, %r, %acc : tile<64x32xf16>, tile<32x64xf16>, {SUMS}\n"
        "    %after = addi %tile_no, %by : tile<i32>\n"
        f"    continue %next, %after : {SUMS}, tile<i32>\n  }}\n"
    )
    value = "sum"
    if wanted:
        value = "more"
        body += (
            "  %number = itof %last signed : tile<i32> -> tile<f32>\n"
            "  %one_one = reshape %number : tile<f32> -> tile<1x1xf32>\n"
            f"  %all = broadcast %one_one : tile<1x1xf32> -> {SUMS}\n"
            f"  %more = addf %sum, %all rounding<nearest_even> : {SUMS}\n"
        )
    matrices = {"a": K.A, "b": K.B, "c": K.C}
    return K.entry(matrices, body + K.store(value, "c", "%zero, %zero", K.C))


CASES = {
    "up": counted(0, 1, 1),
    "beside a stride": counted(1, 1, 128),
    "by two": counted(1, 2, 3),
    "down": counted(4, -1, 5),
    "wanted": counted(0, 1, 2, wanted=True),
}


def _expected(text: str, steps: int) -> np.ndarray:
    given = K.arguments(text, steps)
    Program(parse(text)).launch("k", 1, given)
    return given[2]


@pytest.mark.parametrize("name", CASES)
def test_the_formula_is_the_counter(name: str) -> None:
    """On the reference machine, bit by bit, for loops of 0 to 4 rounds; and tiles come ahead."""
    text = CASES[name]
    module = K.lowered(text, "tileaa,tileas-assign-layouts")
    func = kernel_of(module, "k")
    close_inductions(func)  # pyright: ignore[reportArgumentType]
    (loop,) = [op for op in module.walk() if isinstance(op, scf.ForOp)]
    carried = loop.body.block.args[2]
    assert len(list(carried.uses)) == 1  # only what counts on, for who wants the last number
    ahead = K.lowered(text, "tileaa,tileas-assign-layouts,tileas-pipeline,tileas-expand")
    assert any(isinstance(op, AsyncTiledLoadOp) for op in ahead.walk())
    for steps in (0, 1, 2, 4):
        for made in (module, ahead):
            given = K.arguments(text, steps)
            Program(made).launch("k", 1, given)
            assert given[2].tobytes() == _expected(text, steps).tobytes(), steps


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
@pytest.mark.parametrize("name", CASES)
def test_as_threads(name: str, arch: str) -> None:
    text = CASES[name]
    program = TileProgram(parse(text), arch)
    given = K.arguments(text, 4)
    program.launch("k", 1, given, LaunchOptions(seed=1))
    np.testing.assert_allclose(given[2], _expected(text, 4), rtol=2e-3, atol=2e-3)
    assert program.fallbacks == {}
    assert "ring" in {remark.kind for remark in GpuProgram(parse(text), arch).remarks("k")}


def test_other_carried_numbers_stay() -> None:
    """One that doubles is no formula of this kind, and one that a branch changes neither."""
    doubled = CASES["up"].replace("%after = addi %tile_no, %by", "%after = addi %tile_no, %tile_no")
    module = K.lowered(doubled, "tileaa,tileas-assign-layouts")
    before = str(module)
    close_inductions(kernel_of(module, "k"))  # pyright: ignore[reportArgumentType]
    assert str(module) == before


def test_views_in_branches_are_made_at_the_top() -> None:
    """So that tensor maps bring the tiles of a kernel that returns early."""
    text = CASES["up"]
    # Matrices are made at the top; their views where they are used.
    views = [line for line in text.splitlines(keepends=True) if "make_partition_view" in line]
    begin = text.index("  %nothing")
    head = "".join(line for line in text[:begin].splitlines(keepends=True) if line not in views)
    ask = (
        "  %none = cmpi equal %steps, %zero, signed : tile<i32> -> tile<i1>\n"
        "  if %none {\n    return\n  }\n"
    )
    text = head + ask + "".join(views) + text[begin:]
    module = K.lowered(text, "tileaa,tileas-assign-layouts")
    func = kernel_of(module, "k")
    top = func.body.block  # pyright: ignore[reportAttributeAccessIssue]
    inside = [op for op in module.walk() if isinstance(op, BlockTileOp) and op.parent is not top]
    assert inside
    hoist_views(func)  # pyright: ignore[reportArgumentType]
    module.verify()
    assert all(op.parent is top for op in inside)
    program = TileProgram(parse(text), "sm_90a")
    for steps in (0, 3):
        given = K.arguments(text, steps)
        program.launch("k", 1, given, LaunchOptions(seed=1))
        np.testing.assert_allclose(given[2], _expected(text, steps), rtol=2e-3, atol=2e-3)
    assert program.fallbacks == {}
    found = GpuProgram(parse(text), "sm_90a").remarks("k")
    assert any("by TMA into" in remark.message for remark in found)


def test_an_occupancy_that_shared_memory_does_not_hold_leaves_no_registers_unused() -> None:
    """A ring of 128 KiB lets one block on a multiprocessor: that one has all registers."""
    text = K.product().replace(
        "%steps: tile<i32>) {", "%steps: tile<i32>) optimization_hints=<sm_90 = {occupancy = 32}> {"
    )
    program = GpuProgram(parse(text), "sm_90a")
    kernel = next(op for op in program.threads("k").walk() if "nvvm.minctasm" in op.attributes)
    blocks = kernel.attributes["nvvm.minctasm"].value.data  # pyright: ignore[reportAttributeAccessIssue]
    assert 0 < blocks < 32
    (said,) = [r.message for r in program.remarks("k") if r.message.startswith("occupancy")]
    assert f"is limited to {blocks} by shared memory" in said


@pytest.mark.parametrize(("arch", "blocks"), [("sm_80", 7), ("sm_120a", 4), ("sm_90a", 8)])
def test_rings_leave_shared_memory_to_as_many_blocks_as_an_occupancy_asks_for(
    arch: str, blocks: int
) -> None:
    hints = f"optimization_hints=<{arch.rstrip('a')} = {{occupancy = {blocks}}}>"
    text = K.product().replace("%steps: tile<i32>) {", f"%steps: tile<i32>) {hints} {{")
    (said,) = [r.message for r in GpuProgram(parse(text), arch).remarks("k") if r.kind == "hint"]
    assert said.startswith(f"occupancy = {blocks} is honoured")
