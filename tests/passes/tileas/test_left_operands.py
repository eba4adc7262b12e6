"""Products whose left operand threads compute from what they load: each thread computes what it multiplies, and the tile comes
ahead as it was loaded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.passes.tileas import kernels as K
from xdsl.dialects import scf

from tilewright import LaunchOptions
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.memory import TiledLoadOp
from tilewright.dialects.nv_tileas.asynchronous import AsyncTiledLoadOp
from tilewright.dialects.nv_tileas.ops import CopyOp, DotOp, LocalLoadOp
from tilewright.dialects.nv_tileas.pipelines import AsyncTiledTmaLoadOp
from tilewright.gpu.tiles import TileProgram as GpuProgram
from tilewright.machine.launch import Program
from tilewright.passes import run_pipeline
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse


def normed(rows: int = 64, columns: int = 64, depth: int = 64, *, direct: bool = False) -> str:
    """c = the rows of a, times w, times b, divided by the squares of a's rows; ``direct``: times a itself, too."""
    a, b, c, w = (
        (rows, depth, "f16"),
        (depth, columns, "f16"),
        (rows, columns, "f32"),
        (1, depth, "f16"),
    )
    f16, f32, sums = (f"tile<{rows}x{depth}x{e}>" for e in ("f16", "f32", "f32"))
    sums, row, column = f"tile<{rows}x{columns}xf32>", f"tile<{rows}xf32>", f"tile<{rows}x1xf32>"
    again = (
        f"    %more = mmaf %x, %y, %acc : {f16}, tile<{depth}x{columns}xf16>, {sums}\n"
        if direct
        else ""
    )
    body = (
        f"  %nothing = constant <f32: 0.0> : {sums}\n  %none = constant <f32: 1.0> : {row}\n"
        "  %sum, %all = for %s in (%zero to %steps, step %one) : tile<i32> "
        f"iter_values(%acc = %nothing, %squares = %none) -> ({sums}, {row}) {{\n"
        + K.load("x", "a", "%zero, %s", a)
        + K.load("y", "b", "%s, %zero", b)
        + K.load("z", "w", "%zero, %s", w)
        + f"    %wide = ftof %x : {f16} -> {f32}\n    %square = mulf %wide, %wide : {f32}\n"
        f"    %part = reduce %square dim=1 identities=[0.0 : f32] : {f32} -> {row}\n"
        "    (%i: tile<f32>, %j: tile<f32>) {\n      %k = addf %i, %j : tile<f32>\n      yield %k : tile<f32>\n    }\n"
        f"    %found = addf %squares, %part : {row}\n"
        f"    %factor = ftof %z : tile<1x{depth}xf16> -> tile<1x{depth}xf32>\n"
        f"    %spread = broadcast %factor : tile<1x{depth}xf32> -> {f32}\n"
        f"    %scaled = mulf %wide, %spread : {f32}\n    %left = ftof %scaled : {f32} -> {f16}\n"
        + again
        + f"    %next = mmaf %left, %y, {'%more' if direct else '%acc'} : {f16}, tile<{depth}x{columns}xf16>, {sums}\n"
        f"    continue %next, %found : {sums}, {row}\n  }}\n"
        f"  %column = reshape %all : {row} -> {column}\n"
        f"  %whole = broadcast %column : {column} -> {sums}\n"
        f"  %ratio = divf %sum, %whole : {sums}\n" + K.store("ratio", "c", "%zero, %zero", c)
    )
    return K.entry({"a": a, "b": b, "w": w, "c": c}, body)


def arguments(steps: int) -> list[Any]:
    rng = np.random.default_rng(steps)
    shape = (K.WIDTH, K.WIDTH)
    # Small whole numbers: every order of sums gives the same.
    halves = [rng.integers(-2, 3, shape).astype(np.float16) for _ in range(3)]
    return [*halves, np.zeros(shape, np.float32), K.WIDTH, K.WIDTH, steps]


@pytest.mark.parametrize("direct", [False, True])
def test_threads_compute_what_they_multiply(direct: bool) -> None:
    """No round writes what threads have computed, also where another product takes the tile as it is."""
    module = K.lowered(normed(direct=direct), "tileaa,tileas-assign-layouts{target=sm_90a}")
    (loop,) = (op for op in module.walk() if isinstance(op, scf.ForOp))
    products = [op for op in loop.walk() if isinstance(op, DotOp)]
    assert len(products) == 1 + direct
    assert all(isinstance(op.a.type, T.TileType) for op in products)
    # Copies are of what was loaded.
    copies = [op for op in loop.walk() if isinstance(op, CopyOp)]
    assert len(copies) == 2 and all(isinstance(op.source.owner, TiledLoadOp) for op in copies)


def test_an_operand_that_several_warps_need_lies_in_shared_memory() -> None:
    """Each warp would compute what it needs of it again."""
    module = K.lowered(normed(columns=128), "tileaa,tileas-assign-layouts{target=sm_80}")
    (product,) = (op for op in module.walk() if isinstance(op, DotOp))
    assert product.warps.get_values()[1] > 1  # pyright: ignore[reportAttributeAccessIssue]
    assert not isinstance(product.a.type, T.TileType)


def test_all_tiles_come_ahead() -> None:
    """By tensor maps those of two axes; the factors, of which each thread would copy 2 bytes, by fewer threads."""
    passes = "tileaa,tileas-assign-layouts{target=sm_90a},tileas-tma{stages=2},tileas-expand"
    module = K.lowered(normed(), passes)
    assert sum(isinstance(op, AsyncTiledTmaLoadOp) for op in module.walk()) == 2 * 2
    run_pipeline(module, "tileas-pipeline{shared-bytes=180000},tileas-expand", verify_each=True)
    ops = list(module.walk())
    assert not [op for op in ops if isinstance(op, TiledLoadOp)]
    assert sum(isinstance(op, AsyncTiledLoadOp) for op in ops) == 3
    assert sum(isinstance(op, LocalLoadOp) for op in ops) == 2
    expected, found = (arguments(3) for _ in range(2))
    Program(parse(normed())).launch("k", 1, expected)
    Program(module).launch("k", 1, found)
    assert found[3].tobytes() == expected[3].tobytes() and expected[3].any()


def test_a_block_has_warps_for_sums_and_operand() -> None:
    """Sums of 128x128 leave a thread of 4 warps no registers to compute an operand in."""
    for text, warps in ((normed(128, 128), "8 warps"), (normed(128, 64), "")):
        remarks = GpuProgram(parse(text), "sm_90a").remarks()
        said = [found.message for found in remarks if found.kind == "warps"]
        assert bool(said) == bool(warps) and all(warps in line for line in said), said


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
@pytest.mark.parametrize("columns", [64, 128])
@pytest.mark.parametrize("direct", [False, True])
def test_threads_agree(arch: str, columns: int, direct: bool) -> None:
    """On the simulator, which finds races, under two orders of warps, without conflicts of banks."""
    text = normed(columns=columns, direct=direct)
    expected = arguments(3)
    Program(parse(text)).launch("k", 1, expected)
    program = TileProgram(parse(text), arch)
    for seed in (0, 1):
        found = arguments(3)
        result = program.launch("k", 1, found, LaunchOptions(seed=seed))
        assert not result.errors and not program.fallbacks
        assert result.counters.bank_conflicts == 0
        np.testing.assert_allclose(found[3], expected[3], rtol=1e-6)


def test_factors_that_are_rounded_only_leave_the_warps_as_they_are() -> None:
    """f32 that becomes tf32 behind ``ldmatrix`` is no operand that threads compute beside the sums."""
    a, b, c = (128, 32, "f32"), (32, 128, "f32"), (128, 128, "f32")
    sums = "tile<128x128xf32>"
    text = K.entry(
        {"a": a, "b": b, "c": c},
        f"  %nothing = constant <f32: 0.0> : {sums}\n"
        "  %sum = for %s in (%zero to %steps, step %one) : tile<i32> "
        f"iter_values(%acc = %nothing) -> ({sums}) {{\n"
        + K.load("l", "a", "%zero, %s", a)
        + K.load("r", "b", "%s, %zero", b)
        + "    %x = ftof %l : tile<128x32xf32> -> tile<128x32xtf32>\n"
        "    %y = ftof %r : tile<32x128xf32> -> tile<32x128xtf32>\n"
        f"    %next = mmaf %x, %y, %acc : tile<128x32xtf32>, tile<32x128xtf32>, {sums}\n"
        f"    continue %next : {sums}\n  }}\n" + K.store("sum", "c", "%zero, %zero", c),
    )
    for arch in ("sm_80", "sm_90a"):
        remarks = GpuProgram(parse(text), arch).remarks()
        assert not [found for found in remarks if "left operand" in found.message]
