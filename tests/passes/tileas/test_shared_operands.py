"""What lies in shared memory once: operands that a loop does not change, tiles that products take in two
orders, and rows that are wanted in the layout of sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.passes.tileas import kernels as K
from xdsl.dialects import scf

from tilewright import LaunchOptions
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas import pipelines as P
from tilewright.dialects.nv_tileas.asynchronous import AsyncTiledLoadOp, BarrierOp
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse

SQUARE, ROW, SUMS = (64, 64, "f16"), (1, 64, "f32"), (64, 64, "f32")
TY = "tile<64x64xf32>"
PLACES = "tileas-allocate,tileas-insert-barriers"
PASSES = {
    "sm_80": f"tileaa,tileas-assign-layouts{{target=sm_80}},tileas-pipeline,tileas-expand,{PLACES}",
    "sm_90a": f"tileaa,tileas-assign-layouts{{target=sm_90a}},tileas-tma,tileas-pipeline,tileas-expand,{PLACES}",
}


def loop(body: str) -> str:
    return (
        f"  %nothing = constant <f32: 0.0> : {TY}\n"
        "  %sum = for %s in (%zero to %steps, step %one) : tile<i32> "
        f"iter_values(%acc = %nothing) -> ({TY}) {{\n{body}    continue %next : {TY}\n  }}\n"
    )


def multiply(result: str, left: str, right: str, start: str) -> str:
    return f"    %{result} = mmaf %{left}, %{right}, %{start} : tile<64x64xf16>, tile<64x64xf16>, {TY}\n"


def kept_operand() -> str:
    """c = the sum over steps of q x k(s)."""
    body = K.load("r", "k", "%s, %zero", SQUARE) + multiply("next", "l", "r", "acc")
    text = K.load("l", "q", "%zero, %zero", SQUARE) + loop(body)
    return K.entry(
        {"q": SQUARE, "k": SQUARE, "c": SUMS}, text + K.store("sum", "c", "%zero, %zero", SUMS)
    )


def two_orders() -> str:
    """c = the sum over steps of f16((q x k(s)^T) / 256 - row(s)) x k(s)."""
    body = (
        K.load("r", "k", "%s, %zero", SQUARE)
        + K.load("n", "row", "%s, %zero", ROW)
        + "    %turned = permute %r [1, 0] : tile<64x64xf16> -> tile<64x64xf16>\n"
        + multiply("score", "l", "turned", "nothing")
        + f"    %small = mulf %score, %factor : {TY}\n"
        f"    %wide = broadcast %n : tile<1x64xf32> -> {TY}\n"
        f"    %less = subf %small, %wide : {TY}\n"
        f"    %half = ftof %less : {TY} -> tile<64x64xf16>\n" + multiply("next", "half", "r", "acc")
    )
    text = (
        f"  %factor = constant <f32: 0.00390625> : {TY}\n"
        + K.load("l", "q", "%zero, %zero", SQUARE)
        + loop(body)
    )
    return K.entry(
        {"q": SQUARE, "k": SQUARE, "row": ROW, "c": SUMS},
        text + K.store("sum", "c", "%zero, %zero", SUMS),
    )


def loops_of(text: str, arch: str) -> tuple[Any, Any]:
    module = K.lowered(text, PASSES[arch])
    (found,) = (op for op in module.walk() if isinstance(op, scf.ForOp))
    return module, found


def wanted(text: str, given: list[Any], steps: int) -> Any:
    q, k = (matrix.astype(np.float64) for matrix in given[:2])
    total = np.zeros((64, 64))
    for step in range(steps):
        right = k[64 * step : 64 * step + 64, :64]
        left = q[:64, :64]
        if "turned" in text:
            left = left @ right.T / 256 - given[2][step, :64].astype(np.float64)
            left = left.astype(np.float16).astype(np.float64)
        total += left @ right
    return total


@pytest.mark.parametrize("arch", PASSES)
def test_an_operand_that_the_loop_keeps_is_stored_before_it(arch: str) -> None:
    module, found = loops_of(kept_operand(), arch)
    copies = [op for op in module.walk() if isinstance(op, S.CopyOp)]
    assert len(copies) == 1
    assert copies[0].parent is found.parent
    assert not any(isinstance(op, S.CopyOp) for op in found.walk())


@pytest.mark.parametrize("arch", PASSES)
def test_a_tile_in_two_orders_has_one_ring(arch: str) -> None:
    module, found = loops_of(two_orders(), arch)
    copies = [op for op in found.walk() if isinstance(op, S.CopyOp)]
    loads = [op for op in found.walk() if isinstance(op, AsyncTiledLoadOp | P.AsyncTiledTmaLoadOp)]
    views = [op for op in found.walk() if isinstance(op, S.PermuteViewOp)]
    assert copies == []
    assert len(loads) == 2  # The square and the row.
    assert len(views) == 1
    rings = [
        op
        for op in module.walk()
        if isinstance(op, S.AllocTensorOp) and op.result.type.stages > 1  # pyright: ignore[reportAttributeAccessIssue]
    ]
    assert len(rings) == 2


@pytest.mark.parametrize("arch", PASSES)
def test_a_row_is_read_in_the_layout_of_the_sums(arch: str) -> None:
    _, found = loops_of(two_orders(), arch)
    assert any(isinstance(op, S.LocalLoadOp) for op in found.walk())
    assert not any(isinstance(op, S.ConvertLayoutOp) for op in found.walk())
    assert sum(isinstance(op, BarrierOp) for op in found.walk()) == 1


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
@pytest.mark.parametrize("steps", [0, 1, 3])
@pytest.mark.parametrize("make", [kept_operand, two_orders])
def test_the_sums_are_right(make: Any, steps: int, arch: str) -> None:
    text = make()
    given = K.arguments(text, steps)
    program = TileProgram(parse(text), arch)
    program.launch("k", 1, given, LaunchOptions(seed=5))
    assert program.fallbacks == {}
    np.testing.assert_allclose(given[-4][:64, :64], wanted(text, given, steps), atol=2e-2)


@pytest.mark.parametrize("arch", PASSES)
def test_passes_keep_the_meaning(arch: str) -> None:
    text = two_orders()
    before = K.outcome(K.lowered(text, "tileaa"), text, 3)
    assert K.outcome(K.lowered(text, PASSES[arch]), text, 3) == before
