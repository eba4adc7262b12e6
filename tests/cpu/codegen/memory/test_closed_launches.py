"""Updates of launches beside which no other one updates memory: copies are handed on by plain loads and stores, and
nothing is lost."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.memory.test_privatization import (
    BLOCKS,
    FLOATS,
    TILE,
    TOTAL,
    UPDATES,
    _data,
    _expected,
    _kernel,
)

import tilewright
from tilewright import LaunchOptions
from tilewright.builder import ModuleBuilder, ptr, tile
from tilewright.cpu import Program
from tilewright.cpu.abi import CLOSED
from tilewright.cpu.codegen.memory.privatization import _LARGEST_CLOSED, LOCKED
from tilewright.cpu.compile import compile_kernel
from tilewright.cpu.runtime.driver import LaunchState
from tilewright.cpu.runtime.pool import Choice, Pool
from tilewright.lowering import lower_to_tileaa

#: Tiles whose elements lie side by side, at %step numbers for each block, around after %rows of them; the last
#: ones are masked off where they would lie behind %size.
RUNS = """
cuda_tile.module @m {
  entry @k(%values: tile<ptr<f32>>, %bins: tile<ptr<f32>>, %rows: tile<i32>, %step: tile<i32>, %size: tile<i32>) {
    %block, %by, %bz = get_tile_block_id : tile<i32>
    %row = remi %block, %rows signed : tile<i32>
    %start = muli %row, %step : tile<i32>
    %start1 = reshape %start : tile<i32> -> tile<1xi32>
    %starts = broadcast %start1 : tile<1xi32> -> tile<128xi32>
    %lanes = iota : tile<128xi32>
    %place = addi %starts, %lanes : tile<128xi32>
    %size1 = reshape %size : tile<i32> -> tile<1xi32>
    %sizes = broadcast %size1 : tile<1xi32> -> tile<128xi32>
    %on = cmpi less_than %place, %sizes, signed : tile<128xi32> -> tile<128xi1>
    %wide_starts = exti %starts signed : tile<128xi32> -> tile<128xi64>
    %wide_lanes = exti %lanes unsigned : tile<128xi32> -> tile<128xi64>
    %wide = addi %wide_starts, %wide_lanes : tile<128xi64>
    %bins1 = reshape %bins : tile<ptr<f32>> -> tile<1xptr<f32>>
    %base = broadcast %bins1 : tile<1xptr<f32>> -> tile<128xptr<f32>>
    %p = offset %base, %wide : tile<128xptr<f32>>, tile<128xi64> -> tile<128xptr<f32>>
    %values1 = reshape %values : tile<ptr<f32>> -> tile<1xptr<f32>>
    %first = broadcast %values1 : tile<1xptr<f32>> -> tile<128xptr<f32>>
    %q = offset %first, %lanes : tile<128xptr<f32>>, tile<128xi32> -> tile<128xptr<f32>>
    %v, %t = load_ptr_tko weak %q : tile<128xptr<f32>> -> tile<128xf32>, token
    %o, %u = atomic_rmw_tko relaxed device %p, addf, %v, %on
      : tile<128xptr<f32>>, tile<128xf32>, tile<128xi1> -> tile<128xf32>, token
    return
  }
}
"""


@pytest.fixture(autouse=True)
def closed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Launches are never those of one thread; what they were is noted."""
    kinds: list[int] = []
    run = Pool.run

    def noted(self: Pool, state: LaunchState, *args: Any, **options: Any) -> None:
        kinds.append(state.alone)
        run(self, state, *args, **options)

    monkeypatch.setattr(Choice, "alone_is_next", lambda choice: False)
    monkeypatch.setattr(Pool, "run", noted)
    return kinds


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("element", ["i32", "i64"])
@pytest.mark.parametrize("mode", UPDATES)
def test_all_kinds_of_updates(mode: str, element: str, threads: int, closed: list[int]) -> None:
    program = Program(_kernel(mode, element, masked=True), LaunchOptions(threads=threads))
    for bins in (1, 3, 100, 1000):
        x, values, found = _data(element, bins)
        expected = found.copy()
        for _ in range(3):
            expected = _expected(mode, x, values, expected, True)
            program.launch("k", BLOCKS, (x, values, found, np.zeros_like(values)))
            assert (found == expected).all()
    assert closed[0] != CLOSED, "the pace is not known"
    assert set(closed[1:]) == {CLOSED}


@pytest.mark.parametrize("element", FLOATS)
def test_sums_of_floats(element: str) -> None:
    generator, bins = np.random.default_rng(0), 300
    x = generator.integers(0, bins, TOTAL, np.int32)
    values = np.where(np.arange(TOTAL) % 2, 1, -1)
    values[np.arange(TOTAL) >= 200] = 0  # all sums are exact, in bf16 too
    found = np.zeros(bins, FLOATS[element])
    program = Program(_kernel("addf", element), LaunchOptions(threads=2))
    for launches in (1, 2, 3):
        given = values.astype(FLOATS[element])
        program.launch("k", BLOCKS, (x, given, found, np.zeros_like(given)))
        expected = np.zeros(bins)
        np.add.at(expected, x, launches * values)
        assert (found == expected).all()


@pytest.mark.parametrize("step", [128, 100, 3])
@pytest.mark.parametrize("rows", [1, 2, 40])
def test_runs(rows: int, step: int) -> None:
    """Neighbours may share elements and lines; the end of the array lies within a tile."""
    size, blocks = (rows - 1) * step + TILE - 5, 5000
    values = np.arange(1, TILE + 1, dtype=np.float32)
    room = np.zeros(size + 64, np.float32)
    program = Program(tilewright.parse(RUNS, "runs.tileir"), LaunchOptions(threads=2))
    expected = np.zeros(size + 64)
    for _ in range(3):
        program.launch("k", blocks, (values, room[:size], rows, step, size))
        for row in range(rows):
            part = expected[row * step : row * step + TILE][: size - row * step]
            part += values[: len(part)] * len(range(row, blocks, rows))
        np.testing.assert_array_equal(room, expected)


def test_updates_outside_of_the_array_go_where_they_point() -> None:
    """Some lanes of a vector lie in the array, which has copies, and some behind it."""
    x, _, _ = _data("i32", 300)
    ones, room = np.ones(TOTAL, np.int32), np.zeros(300, np.int32)
    program = Program(_kernel(), LaunchOptions(threads=2))
    for launches in (1, 2, 3):
        program.launch("k", BLOCKS, (x, ones, room[:100], np.zeros_like(ones)))
        assert (room == launches * np.bincount(x, minlength=300)).all()


@pytest.mark.parametrize("beyond", [-1, 0, 1, 1000])
def test_arrays_about_as_large_as_copies_may_be(beyond: int) -> None:
    size = _LARGEST_CLOSED // 4 + beyond
    rows, step = size // TILE, TILE
    values, bins = np.ones(TILE, np.float32), np.zeros(size, np.float32)
    blocks = 10 * rows
    program = Program(tilewright.parse(RUNS, "runs.tileir"), LaunchOptions(threads=2))
    for launches in (1, 2):
        program.launch("k", blocks, (values, bins, rows, step, size))
        assert (bins[: rows * TILE] == 10 * launches).all()
        assert not bins[rows * TILE :].any()


def test_elements_that_are_not_updated_keep_their_bits() -> None:
    """What another launch stores beside them meanwhile must not be lost, and NaNs keep theirs."""
    x = np.resize(np.array([1, 5], np.int32), TOTAL)
    bins = np.full(70, -0.0, np.float32)
    bins.view(np.uint32)[[2, 40]] = 0x7F800001
    before = bins.view(np.uint32).copy()
    program = Program(_kernel("addf", "f32"), LaunchOptions(threads=2))
    for _ in range(3):
        ones = np.ones(TOTAL, np.float32)
        program.launch("k", BLOCKS, (x, ones, bins, np.zeros_like(ones)))
    others = np.delete(np.arange(70), [1, 5])
    assert (bins.view(np.uint32)[others] == before[others]).all()
    assert (bins[[1, 5]] == 3 * TOTAL // 2).all()


def test_launches_at_once_lose_nothing() -> None:
    x, _, _ = _data("i32", 500)
    ones, bins = np.ones(TOTAL, np.int32), np.zeros(500, np.int32)
    program = Program(_kernel(), LaunchOptions(threads=2))

    def work() -> None:
        for _ in range(20):
            program.launch("k", BLOCKS, (x, ones, bins, np.zeros_like(ones)))

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert (bins == 60 * np.bincount(x, minlength=500)).all()


def _rows_kernel(mode: str, element: str, *, masked: bool, scattered: bool) -> Any:
    """``bins[x[b] + i] = mode(bins[x[b] + i], values[i])`` in block b; ``masked``: every third element stays out; ``scattered``:
    then ``bins[x[i]]`` likewise."""
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("i32"), "values": ptr(element), "bins": ptr(element)}) as k:
        block, _, _ = k.get_tile_block_id()

        def spread(value: Any) -> Any:
            return k.broadcast(k.reshape(value, shape=(1,)), shape=(TILE,))

        def update(places: Any, values: Any, *on: Any) -> None:
            k.atomic_rmw_tko(
                k.offset(spread(k.args.bins), places),
                values,
                *on,
                mode=mode,
                memory_ordering_semantics="relaxed",
                memory_scope="device",
            )

        lanes = k.iota(type=tile((TILE,), "i32"))
        start, _ = k.load_ptr_tko(k.offset(k.args.x, block), memory_ordering_semantics="weak")
        values, _ = k.load_ptr_tko(
            k.offset(spread(k.args.values), lanes), memory_ordering_semantics="weak"
        )
        three, two = (k.constant(n, tile((TILE,), "i32")) for n in (3, 2))
        third = k.remi(lanes, three, signedness="signed")
        on = [k.cmpi(third, two, comparison_predicate="not_equal", signedness="signed")]
        update(k.addi(spread(start), lanes), values, *(on if masked else []))
        if scattered:
            places, _ = k.load_ptr_tko(
                k.offset(spread(k.args.x), lanes), memory_ordering_semantics="weak"
            )
            update(places, values)
    return module.build()


@pytest.mark.parametrize("scattered", [False, True], ids=["rows", "rows and elements"])
@pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])
@pytest.mark.parametrize(
    ("mode", "element"),
    [("add", "i32"), ("xor", "i64"), ("umax", "i32"), ("min", "i64")]
    + [("addf", element) for element in (*FLOATS, "f32", "f64")],
)
def test_rows_of_large_arrays_go_under_locks(
    mode: str, element: str, masked: bool, scattered: bool, closed: list[int]
) -> None:
    """Rows begin anywhere, so that some lie on two pages; most threads want the same ones."""
    kind = np.dtype(FLOATS.get(element) or {"f": "float", "i": "int"}[element[0]] + element[1:])
    generator, blocks, size = np.random.default_rng(1), 600, 1 << 18
    x = generator.integers(0, 2000, blocks, np.int32)
    values = generator.integers(-1, 2, TILE).astype(kind)  # sums are exact, in bf16 too
    bins = generator.integers(-9, 9, size).astype(kind)
    module = _rows_kernel(mode, element, masked=masked, scattered=scattered)
    program = Program(module, LaunchOptions(threads=2))
    on = np.arange(TILE) % 3 != 2 if masked else np.ones(TILE, bool)
    places = (x[:, None] + np.arange(TILE))[:, on]
    expected, combine = bins.copy(), UPDATES.get(mode, np.add)
    view = np.dtype(f"u{kind}") if mode.startswith("u") else kind
    for _ in range(2):
        combine.at(
            expected.view(view), places, np.broadcast_to(values[on], places.shape).view(view)
        )
        if scattered:
            for _ in range(blocks):
                combine.at(expected.view(view), x[:TILE], values.view(view))
        program.launch("k", blocks, (x, values, bins))
        assert (bins == expected).all()
    assert closed[1] == CLOSED


def test_a_remark_tells_of_locks() -> None:
    """What goes by rows takes locks, what goes by elements does not."""
    for module, locked in (
        (_rows_kernel("addf", "f32", masked=False, scattered=False), True),
        (_kernel(), False),
    ):
        compiled = compile_kernel(lower_to_tileaa(module).module)
        texts = [remark.message for remark in compiled.remarks if remark.kind == "atomic"]
        assert [LOCKED in text for text in texts] == [True] * locked
