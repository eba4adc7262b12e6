"""Recurrences over chunks, as linear attention has them: a loop carries the sums of one product, which another one takes as an
operand, and adds up several products. Tiles stay where they are, and all that is loaded comes ahead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.passes.tileas import kernels as K
from xdsl.dialects import scf
from xdsl.ir import Operation

from tilewright import LaunchOptions
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.memory import TiledLoadOp
from tilewright.dialects.nv_tileas.asynchronous import AsyncTiledLoadOp
from tilewright.dialects.nv_tileas.ops import AllocTensorOp, ConvertLayoutOp, DotOp
from tilewright.dialects.nv_tileas.types import TiledViewType, layout_of
from tilewright.machine.launch import Program
from tilewright.passes import run_pipeline
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse

SQUARE, RATES, OUT = (64, 64, "f16"), (64, 16, "f32"), (64, 64, "f32")


def recurrence() -> str:
    """c, d = what the iterations add up: (a b) b + a' state, and the state, half of it and b' b each iteration; a' is a by sums
    of rows of r."""
    f16, f32, row = "tile<64x64xf16>", "tile<64x64xf32>", "tile<64xf32>"
    at = "%zero, %s"
    body = (
        f"  %nothing = constant <f32: 0.0> : {f32}\n"
        "  %sum, %last = for %s in (%zero to %steps, step %one) : tile<i32> "
        f"iter_values(%acc = %nothing, %state = %nothing) -> ({f32}, {f32}) {{\n"
        + K.load("q", "a", at, SQUARE)
        + K.load("k", "b", at, SQUARE)
        + K.load("rate", "r", at, RATES)
        + f"    %whole = reduce %rate dim=1 identities=[0.0 : f32] : tile<64x16xf32> -> {row}\n"
        "    (%x: tile<f32>, %y: tile<f32>) {\n      %z = addf %x, %y : tile<f32>\n      yield %z : tile<f32>\n    }\n"
        f"    %column = reshape %whole : {row} -> tile<64x1xf32>\n"
        f"    %spread = broadcast %column : tile<64x1xf32> -> {f32}\n"
        f"    %wide = ftof %q : {f16} -> {f32}\n    %scaled = mulf %wide, %spread : {f32}\n"
        f"    %slow = ftof %scaled : {f32} -> {f16}\n"
        f"    %seen = ftof %state : {f32} -> {f16}\n"
        f"    %scores = mmaf %q, %k, %nothing : {f16}, {f16}, {f32}\n"
        f"    %p = ftof %scores : {f32} -> {f16}\n"
        f"    %within = mmaf %p, %k, %acc : {f16}, {f16}, {f32}\n"
        f"    %total = mmaf %slow, %seen, %within : {f16}, {f16}, {f32}\n"
        f"    %kept = mulf %state, %half : {f32}\n"
        f"    %turned = permute %k [1, 0] : {f16} -> {f16}\n"
        f"    %next = mmaf %turned, %k, %kept : {f16}, {f16}, {f32}\n"
        f"    continue %total, %next : {f32}, {f32}\n  }}\n"
        + K.store("sum", "c", "%zero, %zero", OUT)
        + K.store("last", "d", "%zero, %zero", OUT)
    ).replace("  %sum,", f"  %half = constant <f32: 0.5> : {f32}\n  %sum,", 1)
    matrices = {"a": SQUARE, "b": SQUARE, "r": RATES, "c": OUT, "d": OUT}
    return K.entry(matrices, body)


def arguments(steps: int) -> list[Any]:
    rng = np.random.default_rng(steps)
    shape = (K.WIDTH, K.WIDTH)
    # Small whole numbers: every order of sums gives the same.
    halves = [rng.integers(-1, 2, shape).astype(np.float16) for _ in range(2)]
    rates = (rng.integers(0, 2, shape) * (np.arange(K.WIDTH) % 16 == 3)).astype(np.float32)
    sums = [np.zeros(shape, np.float32) for _ in range(2)]
    return [*halves, rates, *sums, K.WIDTH, K.WIDTH, steps]


def loop_of(passes: str) -> list[Operation]:
    module = K.lowered(recurrence(), passes)
    (loop,) = (op for op in module.walk() if isinstance(op, scf.ForOp))
    return list(loop.walk())


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_sums_stay_with_the_threads_that_have_them(target: str) -> None:
    """No tile of the size of the sums changes its layout, nor is the state carried in that of an access."""
    ops = loop_of(f"tileaa,tileas-assign-layouts{{target={target}}}")
    moved = [op.source.type for op in ops if isinstance(op, ConvertLayoutOp)]
    assert not [ty for ty in moved if T.dims_of(ty) == (64, 64)]
    products = [op for op in ops if isinstance(op, DotOp)]
    assert len(products) == 4
    assert layout_of(products[1].result.type) == layout_of(products[2].result.type)


def test_all_loads_come_ahead() -> None:
    """What a product takes by way of a sum over rows, too; storages that are needed one after the other leave room for it."""
    module = K.lowered(recurrence(), "tileaa,tileas-assign-layouts")
    # Two stages of 20 KiB, of which 24 KiB beside them are at most 16 at a time, and 16 for exchanges.
    run_pipeline(module, "tileas-pipeline{shared-bytes=76000},tileas-expand", verify_each=True)
    ops = list(module.walk())
    assert not [op for op in ops if isinstance(op, TiledLoadOp)]
    assert sum(isinstance(op, AsyncTiledLoadOp) for op in ops) == 3 * 2
    rings = [op.result.type for op in ops if isinstance(op, AllocTensorOp)]
    assert [ty.stages for ty in rings if isinstance(ty, TiledViewType)].count(2) == 3


@pytest.mark.parametrize("stages", [2, 3])
def test_copies_of_two_stages_start_when_a_round_begins(stages: int) -> None:
    """There is nothing else that they could run beside: the next iteration begins by waiting for them."""
    module = K.lowered(K.product(), "tileaa,tileas-assign-layouts")
    run_pipeline(module, f"tileas-pipeline{{stages={stages}}},tileas-expand", verify_each=True)
    (loop,) = (op for op in module.walk() if isinstance(op, scf.ForOp))
    order = [op for op in loop.walk() if isinstance(op, AsyncTiledLoadOp | DotOp)]
    assert isinstance(order[0], AsyncTiledLoadOp) == (stages == 2)


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_the_reference_machine_agrees(steps: int) -> None:
    module = K.lowered(recurrence(), "tileaa,tileas-assign-layouts")
    run_pipeline(
        module, "tileas-pipeline{stages=2 shared-bytes=180000},tileas-expand", verify_each=True
    )
    expected, found = (arguments(steps) for _ in range(2))
    Program(parse(recurrence())).launch("k", 1, expected)
    Program(module).launch("k", 1, found)
    for number in (3, 4):
        assert np.array_equal(found[number], expected[number])
        assert expected[number].any() == (steps > 0)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
def test_threads_agree(arch: str) -> None:
    """On the simulator, which finds races, under two orders of warps."""
    expected = arguments(3)
    Program(parse(recurrence())).launch("k", 1, expected)
    program = TileProgram(parse(recurrence()), arch)
    for seed in (0, 1):
        found = arguments(3)
        result = program.launch("k", 1, found, LaunchOptions(seed=seed))
        assert not result.errors and not program.fallbacks
        for number in (3, 4):
            assert np.array_equal(found[number], expected[number])
