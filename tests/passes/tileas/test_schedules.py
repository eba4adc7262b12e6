"""Layouts and rings of small kernels, and the same results, bit by bit, on the reference machine."""

from __future__ import annotations

import numpy as np
import pytest
from tests.passes.tileas import kernels as K
from tests.sampling import some
from xdsl.dialects import scf

from tilewright import LaunchOptions
from tilewright.analysis.tileaa import Facts
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.contraction import ReduceOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.memory import TiledLoadOp
from tilewright.dialects.nv_tileas.asynchronous import (
    AsyncGroupOp,
    AsyncTiledLoadOp,
    AsyncWaitOp,
    BarrierOp,
)
from tilewright.dialects.nv_tileas.ops import AllocTensorOp, ConvertLayoutOp, CopyOp, DotOp
from tilewright.dialects.nv_tileas.types import TiledViewType, layout_of
from tilewright.layouts import plan_conversion
from tilewright.layouts.layout import axis_bits
from tilewright.model.tables import GPUS
from tilewright.passes import run_pipeline
from tilewright.passes.tileas.access_layouts import access_shape, element_bytes, fills_sectors
from tilewright.passes.tileas.pipeline import pipeline
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse

LAYOUTS = "tileaa,tileas-assign-layouts"
KERNELS = {
    "product": K.product(),
    "nested": K.product(nested=True),
    "attention": K.attention(),
    "transposed": K.transposed(),
    "row_maxima": K.row_maxima(),
}


def of(module: object, kind: type) -> list:  # pyright: ignore[reportMissingTypeArgument]
    return [op for op in module.walk() if isinstance(op, kind)]  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("name", KERNELS)
def test_every_tile_has_a_layout_and_results_stay(name: str) -> None:
    text = KERNELS[name]
    module = K.lowered(text, LAYOUTS)
    tiles = [v.type for op in module.walk() for v in op.results if isinstance(v.type, T.TileType)]
    assert tiles and all(layout_of(ty) is not None for ty in tiles)
    expected = K.outcome(parse(text), text, 2)
    assert K.outcome(module, text, 2) == expected
    assert (
        K.outcome(K.lowered(text, LAYOUTS + ",tileas-pipeline,tileas-expand"), text, 2) == expected
    )
    assert any(expected)


@pytest.mark.parametrize("name", KERNELS)
def test_accesses_are_coalesced(name: str) -> None:
    """What a warp accesses by one instruction fills sectors of 32 bytes."""
    module = K.lowered(KERNELS[name], LAYOUTS)
    for func in of(module, FuncOp):
        facts = Facts(func)
        for op in of(func, Access):
            layout, dims = layout_of(op.moved.type), T.dims_of(op.moved.type)
            assert layout is not None
            assert fills_sectors(
                layout, dims, access_shape(facts, op), element_bytes(op.moved.type)
            )


def test_a_row_reduction_stays_in_a_warp() -> None:
    module = K.lowered(K.row_maxima(), LAYOUTS)
    (op,) = of(module, ReduceOp)
    layout = layout_of(op.operands[0].type)
    assert layout is not None
    along = sum(1 << bit for bit in axis_bits((32, 128))[1])
    assert not any(basis & along for basis in layout.warp)
    assert of(module, ConvertLayoutOp) == []


def test_chained_products_need_no_conversion() -> None:
    """The first product's sums are the second one's left operand as they are, in registers."""
    module = K.lowered(K.attention(), LAYOUTS)
    first, second = of(module, DotOp)
    assert isinstance(second.a.type, T.TileType)
    assert [isinstance(v.type, TiledViewType) for v in (first.a, first.b, second.b)] == [True] * 3
    for op in of(module, ConvertLayoutOp):
        given, wanted = layout_of(op.source.type), layout_of(op.result.type)
        assert given is not None and wanted is not None
        assert plan_conversion(given, wanted, 2).registers is not None


def test_a_transposed_store_converts_once_without_conflicts() -> None:
    module = K.lowered(K.transposed(), LAYOUTS)
    (op,) = of(module, ConvertLayoutOp)
    given, wanted = layout_of(op.source.type), layout_of(op.result.type)
    assert given is not None and wanted is not None
    exchange = plan_conversion(given, wanted, 4).shared_conversion
    assert exchange is not None
    assert exchange.shared.waves(exchange.source, exchange.write, 4) == 1
    assert exchange.shared.waves(exchange.target, exchange.read, 4) == 1


@pytest.mark.parametrize(
    ("shared", "stages"),
    [(160 << 10, 4), (99 << 10, 4), (95 << 10, 3), (20 << 10, 2), (16 << 10, 0)],
)
def test_small_stages_are_as_many_as_hide_the_memory(shared: int, stages: int) -> None:
    """8 KiB are 205 clocks from the L2 of an A100: three of them hide 466 clocks, where three blocks have room."""
    module = K.lowered(K.product(), LAYOUTS)
    (func,) = of(module, FuncOp)
    pipeline(func, 3, shared, None, GPUS["a100"])
    rings = {op.result.type.stages for op in of(module, AllocTensorOp)}
    assert rings == ({stages} if stages else {1})


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("nested", [False, True])
def test_rings(stages: int, nested: bool) -> None:
    """Loops of any number of iterations; whole tiles, and tiles that the matrix ends in."""
    text = K.product(nested=nested)
    module = K.lowered(text, f"{LAYOUTS},tileas-pipeline{{stages={stages}}},tileas-expand")
    rings = [op.result.type for op in of(module, AllocTensorOp)]
    assert sorted(ty.dims for ty in rings) == [(stages, 32, 64), (stages, 64, 32)]
    # Two loads for each iteration before the loop, and for the loop itself.
    assert len(of(module, AsyncTiledLoadOp)) == 2 * stages
    (wait,) = of(module, AsyncWaitOp)
    assert wait.properties["pending"].value.data == stages - 2
    loop = wait.parent_op()
    assert isinstance(loop, scf.ForOp)
    assert not of(module, BarrierOp)
    assert not of(loop, TiledLoadOp) and not of(loop, CopyOp)
    run_pipeline(module, "tileas-allocate,tileas-insert-barriers", verify_each=True)
    (inner,) = (op for op in loop.body.block.ops if isinstance(op, BarrierOp))
    assert wait.is_before_in_block(inner)
    assert len(of(module, BarrierOp)) == 1 + nested
    for steps in (0, 1, 2, 3, 7):
        for extent in (K.WIDTH, max(32 * steps, 32) - 8):
            expected = K.outcome(parse(text), text, steps, extent)
            assert K.outcome(module, text, steps, extent) == expected, (steps, extent)
            assert any(expected) == (steps > 0)


def test_copies_start_behind_the_products() -> None:
    """But in front of them where threads wait for another tile that the loop loads."""
    more = K.load("m", "c", "%zero, %s", K.C) + "    %sum2 = addf %next, %m : tile<64x64xf32>\n"
    for text, behind in (
        (K.product(), True),
        (K.product().replace("    continue %next", f"{more}    continue %sum2"), False),
    ):
        module = K.lowered(text, LAYOUTS + ",tileas-pipeline,tileas-expand")
        (loop,) = of(module, scf.ForOp)
        order = [type(op) for op in loop.body.block.ops]
        (starts,) = (op for op in of(loop, scf.IfOp) if of(op, AsyncTiledLoadOp))
        assert starts.parent is loop.body.block
        assert (order.index(scf.IfOp) > order.index(DotOp)) == behind
        for steps in (0, 1, 2, 4):
            assert K.outcome(module, text, steps) == K.outcome(parse(text), text, steps)


def test_a_ring_of_loads_before_which_a_round_does_nothing() -> None:
    """The first operation of the loop is a load that goes."""
    text = (
        K.product().replace("[%zero, %s]", "[%one, %zero]").replace("[%s, %zero]", "[%zero, %one]")
    )
    module = K.lowered(text, LAYOUTS + ",tileas-pipeline,tileas-expand")
    assert len(of(module, AsyncTiledLoadOp)) == 6
    for steps in (0, 1, 4):
        assert K.outcome(module, text, steps) == K.outcome(parse(text), text, steps)


def remarks(text: str, shared_bytes: int = 99 << 10) -> tuple[list[str], list[int]]:
    """What the pass says, and how many iterations ahead groups of copies shall start."""
    module = K.lowered(text, LAYOUTS)
    (func,) = of(module, FuncOp)
    said = pipeline(func, 3, shared_bytes)
    return said, [op.properties["ahead"].value.data for op in of(func, AsyncGroupOp)]


def test_a_ring_says_nothing() -> None:
    assert remarks(K.product()) == ([], [2])


def test_ordered_loads_stay_where_they_are() -> None:
    said, made = remarks(K.product(how="relaxed device"))
    assert made == []
    # What is ordered is read element by element, through a layout of its own.
    assert all("ordered, volatile or masked" in line for line in said)


def test_a_ring_that_does_not_fit_is_told() -> None:
    said, made = remarks(K.product(), 16 << 10)
    assert made == []
    assert said == [
        "loop not pipelined: two stages of 8192 bytes and 0 other bytes exceed 16384 bytes of "
        "shared memory"
    ]


def test_fewer_stages_where_three_do_not_fit() -> None:
    assert remarks(K.product(), 24 << 10) == ([], [1])


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("steps", [0, 1, 5])
def test_rings_as_threads(arch: str, steps: int) -> None:
    """On the simulator, which finds races, under several orders of warps."""
    text = K.product()
    given = K.arguments(text, steps, 200)
    a, b = (matrix.astype(np.float64)[:, :200] for matrix in given[:2])
    a, b = a[:64, : 32 * steps], b[: 32 * steps, :64]
    program = TileProgram(parse(text), arch)
    for seed in some(range(3)):
        found = given[2]
        found[:] = 7
        program.launch("k", 1, given, LaunchOptions(seed=seed))
        np.testing.assert_allclose(found[:64, :64], a @ b, rtol=1e-3, atol=1e-4)
        assert (found[64:] == 7).all()
    assert program.fallbacks == {}


@pytest.mark.parametrize("name", ["attention", "transposed", "row_maxima"])
def test_kernels_as_threads(name: str) -> None:
    text = KERNELS[name]
    expected = K.arguments(text)
    TileProgram(parse(text), "sm_90a", LaunchOptions(optimization=0)).launch("k", 1, expected)
    program = TileProgram(parse(text), "sm_90a")
    for seed in some(range(3)):
        given = K.arguments(text)
        program.launch("k", 1, given, LaunchOptions(seed=seed))
        np.testing.assert_allclose(given[-4], expected[-4], rtol=1e-3, atol=1e-4)
    assert program.fallbacks == {}
