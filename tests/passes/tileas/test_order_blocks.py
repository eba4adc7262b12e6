"""Blocks that go through bands: where each goes, for which kernels, and what the model says of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright
from tilewright.diagnostics import TileIRError
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.lowering import lower_to_tileaa
from tilewright.model.choices import BUSY, WORTH_OF_ORDER, Order, Sharing, order_of_blocks
from tilewright.model.l2 import in_bands
from tilewright.model.tables import GPUS
from tilewright.passes.pipelines import run_pipeline
from tilewright.passes.tileas.band_order import LONGEST, WIDEST, order_blocks, order_matters
from tilewright.passes.tileas.decisions import FREE, Decisions
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse

MATMUL = Path(__file__).parents[3] / "examples" / "matmul.tileir"
PLACES = """
entry @k() {
  %x, %y, %z = get_tile_block_id : tile<i32>
  %t0 = make_token : token
  %t = print_tko "%d,%d,%d;", %x, %y, %z token=%t0 : tile<i32>, tile<i32>, tile<i32> -> token
  return
}
"""


def function(module: object) -> FuncOp:
    return next(op for op in module.walk() if isinstance(op, FuncOp))  # pyright: ignore


def places(grid: tuple[int, int, int], band: int, limit: int = 0) -> list[tuple[int, ...]]:
    """Where blocks go, in the order of the grid."""
    module = lower_to_tileaa(parse(PLACES)).module
    assert order_blocks(function(module), band, limit)
    told = tilewright.run(module, None, grid, []).text
    return [tuple(map(int, each.split(","))) for each in told.split(";") if each]


@pytest.mark.parametrize("band", [2, 3, 4, 8])
@pytest.mark.parametrize(
    "grid",
    [(9, 5, 1), (8, 4, 2), (4, 7, 1), (1, 6, 1), (11, 1, 1), (5, 3, 3), (10, 10, 1), (3, 1, 2)],
)
def test_each_block_goes_to_the_place_that_the_model_reckons_with(
    grid: tuple[int, int, int], band: int
) -> None:
    x, y, z = grid
    found = places(grid, band)
    assert sorted(found) == sorted(np.ndindex(x, y, z))
    order = [in_bands(number, grid, band) if x > band else number for number in range(x * y * z)]
    assert [x * y * c + x * b + a for a, b, c in found] == order


def test_narrow_grids_stay_as_they_are() -> None:
    rows = [(x, y, 0) for y in range(3) for x in range(6)]
    assert places((6, 3, 1), 2, limit=6) == rows
    assert places((6, 3, 1), 2, limit=5) != rows
    # Where numbers of blocks would not fit, too.
    assert WIDEST * LONGEST < 2**31


ACCESS = """
entry @k(%p: tile<ptr<i32>>) {{
  %x, %y, %z = get_tile_block_id : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %t0 = make_token : token
  {0}
  return
}}
"""
USED = "%u = store_ptr_tko weak %p, %old token=%t0 : tile<ptr<i32>>, tile<i32> -> token"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("%t = store_ptr_tko weak %p, %x token=%t0 : tile<ptr<i32>>, tile<i32> -> token", ""),
        (
            "%old, %t = atomic_rmw_tko relaxed device %p, add, %x : tile<ptr<i32>>, tile<i32> -> tile<i32>, token",
            "",
        ),
        (
            "%old, %t = atomic_rmw_tko relaxed device %p, add, %x : tile<ptr<i32>>, tile<i32> -> tile<i32>, token "
            + USED,
            "depends on the block order",
        ),
        (
            "%old, %t = atomic_rmw_tko relaxed device %p, xchg, %x : tile<ptr<i32>>, tile<i32> -> tile<i32>, token",
            "depends on the block order",
        ),
        (
            "%old, %t = atomic_cas_tko relaxed device %p, %x, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token",
            "depends on the block order",
        ),
        (
            "%old, %t = load_ptr_tko acquire device %p : tile<ptr<i32>> -> tile<i32>, token",
            "wait for each other",
        ),
        (
            "%old, %t = load_ptr_tko relaxed device %p : tile<ptr<i32>> -> tile<i32>, token",
            "wait for each other",
        ),
        ('%t = print_tko "%d", %x token=%t0 : tile<i32> -> token', "observe the block order"),
        (
            "%a, %b, %c = get_num_tile_blocks : tile<i32> " + USED.replace("%old", "%a"),
            "may order blocks itself",
        ),
    ],
)
def test_where_the_order_may_matter_nothing_changes(body: str, why: str) -> None:
    module = lower_to_tileaa(parse(ACCESS.format(body))).module
    found = order_matters(function(module))
    assert why in found and bool(why) == bool(found)
    before = list(map(str, function(module).body.block.ops))
    run_pipeline(module, "tileas-order-blocks{band=4}")
    after = list(map(str, function(module).body.block.ops))
    assert (after == before) == bool(why)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(("grid", "band"), [((5, 3), 2), ((5, 3), 4), ((3, 4), 2), ((7, 1), 4)])
def test_products_on_the_simulator(arch: str, grid: tuple[int, int], band: int) -> None:
    rng = np.random.default_rng(1)
    m, n, k = 64 * grid[0] - 13, 64 * grid[1] - 29, 72
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n)))
    module = parse(MATMUL.read_text())
    found: list[np.ndarray] = []
    for decisions in (Decisions(band=0), Decisions(band=band)):
        program = TileProgram(module, arch, decisions=decisions)
        c = np.zeros((m, n), np.float32)
        program.launch(None, (*grid, 1), [a, b, c, m, n, k])
        assert not program.fallbacks
        found.append(c)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_allclose(found[0], a.astype(np.float64) @ b, rtol=1e-3, atol=1e-3)


def test_the_compiler_asks_the_model_and_says_so() -> None:
    from tilewright.gpu.tiles import TileProgram as GpuProgram

    def told(decisions: Decisions = FREE) -> str:
        program = GpuProgram(parse(MATMUL.read_text()), "sm_80", decisions=decisions)
        (remark,) = [each.message for each in program.remarks() if each.kind == "block-order"]
        asks = "get_num_programs" in str(program.scheduled())
        assert asks == ("in bands" in remark)
        return remark

    assert "modelled on A100" in told() and "on grids wider than" in told()
    assert told(Decisions(band=0)) == "blocks run in grid order: as requested"
    assert told(Decisions(band=16)) == "blocks run in bands of 16, as requested"


def test_a_program_that_has_an_order_of_its_own_keeps_it() -> None:
    """Both operands move along the first axis of the grid: nothing is said, and nothing changed."""
    from tilewright.gpu.tiles import TileProgram as GpuProgram

    text = MATMUL.read_text()
    where = "%row, %column, %bz = get_tile_block_id : tile<i32>"
    assert where in text
    own = text.replace(
        where,
        "%place, %by, %bz = get_tile_block_id : tile<i32>\n  %eight = constant <i32: 8> : tile<i32>\n"
        "  %row = remi %place, %eight unsigned : tile<i32>\n"
        "  %column = divi %place, %eight unsigned : tile<i32>",
    )
    program = GpuProgram(parse(own), "sm_80")
    assert not [each for each in program.remarks() if each.kind == "block-order"]
    assert "get_num_programs" not in str(program.scheduled())


# The closed form.


def test_orders_by_hand() -> None:
    """An A100 holds 108 blocks; 10 of x and 14 of y are the least sides for 108, so 8 and 14 of the bands there are."""
    a100 = GPUS["a100"]
    rate = a100["hbm_rate"] * a100["hbm_share"] / a100["clock"]
    sharing = Sharing(1000, 1000)
    assert sharing.loaded(108, 8) == 22_000 and sharing.loaded(108, 108) == 109_000
    assert sharing.loaded(108, 1000) == 109_000
    # Memory is busy for half of an iteration when 54 of x and 2 of y come.
    found = order_of_blocks(a100, sharing, 56_000 / rate / BUSY, 1)
    assert isinstance(found, Order)
    assert (found.band, found.limit, found.bands, found.rows) == (8, 54, 22_000, 57_000)
    assert found.busy == pytest.approx(57 / 56 * BUSY)
    # Rounds that take long leave memory idle, whatever the order.
    idle = order_of_blocks(a100, sharing, 109_000 / rate / BUSY + 1, 1)
    assert isinstance(idle, float) and idle < BUSY


@pytest.mark.parametrize("gpu", GPUS.values(), ids=GPUS)
@pytest.mark.parametrize("sharing", [Sharing(4096, 4096), Sharing(8192, 1024), Sharing(1, 9, 5)])
def test_an_order_is_worth_it(gpu: object, sharing: Sharing) -> None:
    for clocks in (1, 10, 100, 1000, 10_000):
        found = order_of_blocks(gpu, sharing, clocks, 2)  # pyright: ignore
        if isinstance(found, Order):
            assert found.busy > BUSY and found.bands < WORTH_OF_ORDER * found.rows
            assert found.limit >= found.band


def test_what_no_other_block_loads_has_no_order() -> None:
    assert isinstance(order_of_blocks(GPUS["h100"], Sharing(0, 0, 4096), 1, 1), float)
    assert isinstance(order_of_blocks(GPUS["h100"], Sharing(0, 4096), 1, 1), float)


# Decisions.


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["warps=3"], "expected 1, 2, 4"),
        (["stages=5"], "expected 1, 2, 3, 4, 6, 8"),
        (["agents=maybe"], "expected on or off"),
        (["grid=2"], "expected ROWSxCOLUMNS"),
        (["grid=8x8"], "at most 32 warps"),
        (["width=32"], "expected 1, 2"),
        (["band=1"], "expected 0, or 2"),
        (["band"], "expected NAME=VALUE"),
        (["bands=2"], "called 'bands'"),
        (["band=2", "band=4"], "twice"),
    ],
)
def test_bad_decisions(words: list[str], why: str) -> None:
    with pytest.raises(TileIRError, match="bad-decision") as error:
        Decisions.parse(words)
    assert why in error.value.diagnostics[0].message


@pytest.mark.parametrize(
    "given", [{"resident": -1}, {"resident": 33}, {"band": -2}, {"warps": True}, {"width": 2.0}]
)
def test_bad_decisions_of_data(given: dict[str, object]) -> None:
    """Numbers of a JSON file may be negative, which words of the command line cannot."""
    with pytest.raises(TileIRError, match="bad-decision"):
        Decisions.of(given)


def test_decisions_come_back_from_data() -> None:
    made = Decisions.parse(["warps=8", "stages=3", "agents=off", "grid=2x4", "width=8", "band=0"])
    assert made == Decisions(8, 3, False, (2, 4), 8, 0)
    assert Decisions.of(made.as_data()) == made
    assert Decisions.of({}).as_data() == {}


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    "words",
    [
        ["warps=8"],
        ["warps=2"],
        ["stages=2"],
        ["stages=6"],
        ["agents=off"],
        ["agents=on"],
        ["grid=4x1"],
        ["grid=1x4"],
        ["width=4"],
        ["warps=8", "grid=2x4", "stages=3", "width=8", "band=2"],
    ],
    ids=" ".join,
)
def test_decided_products_on_the_simulator(arch: str, words: list[str]) -> None:
    rng = np.random.default_rng(1)
    m, n, k = 150, 90, 100
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n)))
    program = TileProgram(parse(MATMUL.read_text()), arch, decisions=Decisions.parse(words))
    c = np.zeros((m, n), np.float32)
    program.launch(None, (3, 2, 1), [a, b, c, m, n, k])
    assert not program.fallbacks
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=1e-3, atol=1e-3)
