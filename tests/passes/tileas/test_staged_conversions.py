"""What a loop loads into a ring is read there in the layout that is wanted: it does not go through shared memory twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.passes.tileas import kernels as K
from tests.passes.tileas.test_avoid_conflicts import waves
from xdsl.dialects import scf

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileas.asynchronous import AsyncTiledLoadOp
from tilewright.dialects.nv_tileas.ops import ConvertLayoutOp, CopyOp, LocalLoadOp
from tilewright.dialects.nv_tileas.types import TiledViewType, layout_of
from tilewright.layouts.conversions import WIDEST, ordered_for
from tilewright.machine.launch import Program
from tilewright.passes.tileas.access_layouts import element_bytes
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse


def doubles(n: int, k: int) -> str:
    """A product of f64, whose right operand the instruction takes in registers of all warps along the rows."""
    a, b, c = (32, k, "f64"), (k, n, "f64"), (32, n, "f64")
    ty = f"tile<32x{n}xf64>"
    body = (
        f"  %nothing = constant <f64: 0.0> : {ty}\n"
        "  %sum = for %s in (%zero to %steps, step %one) : tile<i32> "
        f"iter_values(%acc = %nothing) -> ({ty}) {{\n"
        + K.load("l", "a", "%zero, %s", a)
        + K.load("r", "b", "%s, %zero", b)
        + f"    %next = mmaf %l, %r, %acc : tile<32x{k}xf64>, tile<{k}x{n}xf64>, {ty}\n"
        f"    continue %next : {ty}\n  }}\n" + K.store("sum", "c", "%zero, %zero", c)
    )
    return K.entry({"a": a, "b": b, "c": c}, body)


def group_scaled() -> str:
    """c = the sum over rounds of a times the transpose of b, whose rows have a scale in each iteration."""
    a, b, d, c = (64, 64, "f16"), (64, 64, "i8"), (64, 1, "f32"), (64, 64, "f32")
    ty = "tile<64x64xf32>"
    body = (
        f"  %nothing = constant <f32: 0.0> : {ty}\n"
        "  %sum = for %s in (%zero to %steps, step %one) : tile<i32> "
        f"iter_values(%acc = %nothing) -> ({ty}) {{\n"
        + K.load("l", "a", "%zero, %s", a)
        + K.load("r", "b", "%zero, %s", b)
        + K.load("few", "d", "%zero, %s", d)
        + f"    %wide = itof %r signed : tile<64x64xi8> -> {ty}\n"
        f"    %scale = broadcast %few : tile<64x1xf32> -> {ty}\n"
        f"    %scaled = mulf %wide, %scale : {ty}\n"
        f"    %half = ftof %scaled : {ty} -> tile<64x64xf16>\n"
        "    %turned = permute %half [1, 0] : tile<64x64xf16> -> tile<64x64xf16>\n"
        f"    %next = mmaf %l, %turned, %acc : tile<64x64xf16>, tile<64x64xf16>, {ty}\n"
        f"    continue %next : {ty}\n  }}\n" + K.store("sum", "c", "%zero, %zero", c)
    )
    return K.entry({"a": a, "b": b, "d": d, "c": c}, body)


def arguments(text: str, steps: int) -> list[Any]:
    rng = np.random.default_rng(steps)
    names = text.partition("(")[2].partition(" %rows")[0]
    types = [
        part.partition("ptr<")[2].partition(">")[0] for part in names.split(",") if "ptr" in part
    ]
    made: list[Any] = []
    for name in types:
        values = rng.integers(-9, 9, (K.WIDTH, K.WIDTH))
        kinds = {"i8": np.int8, "f16": np.float16, "f32": np.float32, "f64": np.float64}
        made.append(values.astype(kinds[name]))
    made[-1][:] = 0
    return [*made, K.WIDTH, K.WIDTH, steps]


def _one_wave(ty: TiledViewType, layout: Any) -> bool:
    size = element_bytes(T.TileType(ty.dims, ty.element_type))
    ordered, _ = ordered_for(layout, ty.shared, size)
    return ty.shared.waves(ordered, ty.shared.vector(ordered, WIDEST // size), size) == 1


@pytest.mark.parametrize("n,k", [(32, 32), (64, 16), (16, 32), (64, 64)])
def test_a_ring_is_read_as_products_want_it(n: int, k: int) -> None:
    text = doubles(n, k)
    module = K.lowered(
        text,
        "tileaa,tileas-assign-layouts,tileas-remove-conversions,tileas-pipeline{shared-bytes=160000}",
    )
    (loop,) = (op for op in module.walk() if isinstance(op, scf.ForOp))
    assert not [op for op in loop.walk() if isinstance(op, ConvertLayoutOp)]
    reads = [op for op in loop.walk() if isinstance(op, LocalLoadOp)]
    assert len(reads) == 2
    for op in reads:
        ty = op.source.type
        assert isinstance(ty, TiledViewType) and _one_wave(ty, layout_of(op.result.type))
    for op in loop.walk():
        assert not isinstance(op, AsyncTiledLoadOp) or op.properties["vector"].value.data == 2  # pyright: ignore[reportAttributeAccessIssue]
    for steps in (0, 1, 3):
        expected, found = arguments(text, steps), arguments(text, steps)
        Program(parse(text)).launch("k", 1, expected)
        Program(module).launch("k", 1, found)
        assert found[2].tobytes() == expected[2].tobytes()


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
@pytest.mark.parametrize("text", [doubles(32, 32), group_scaled()], ids=["f64", "i8"])
def test_no_conflicts_on_the_simulator(text: str, arch: str) -> None:
    program = TileProgram(parse(text), arch)
    expected, found = arguments(text, 3), arguments(text, 3)
    Program(parse(text)).launch("k", 1, expected)
    launch = program.launch("k", 1, found)
    assert launch.counters.bank_conflicts == 0 and not program.fallbacks
    np.testing.assert_array_equal(found[-4], expected[-4])


@pytest.mark.parametrize("warps", [4, 8])
def test_scales_of_rows_do_not_stand_in_the_way(warps: int) -> None:
    """They are handed out by shuffles, in one layout as in the other, so that what is made of them is written in one wave."""
    assign = f"tileaa,tileas-assign-layouts{{target=sm_90a num-warps={warps}}}"
    before = K.lowered(group_scaled(), assign)
    assert max(waves(op) for op in before.walk() if isinstance(op, CopyOp)) == 2
    module = K.lowered(group_scaled(), assign + ",tileas-avoid-conflicts")
    assert max(waves(op) for op in module.walk() if isinstance(op, CopyOp)) == 1
    expected, found = arguments(group_scaled(), 2), arguments(group_scaled(), 2)
    Program(parse(group_scaled())).launch("k", 1, expected)
    Program(module).launch("k", 1, found)
    np.testing.assert_array_equal(found[3], expected[3])
