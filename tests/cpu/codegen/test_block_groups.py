"""Groups of blocks that are taken row by row give what the blocks give one by one."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.support import blocks_one_by_one
from xdsl.ir import Operation

from tilewright import LaunchOptions
from tilewright.builder import Builder, ModuleBuilder, Value, ptr
from tilewright.cpu import Program
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.diagnostics import TileIRError
from tilewright.lowering import lower_to_tileaa
from tilewright.numerics.arrays import dtype_of
from tilewright.passes import run_pipeline

_TILE = (8, 16)
_Body = Callable[[Builder, "_Tiles"], None]


class _Tiles:
    """The tiles of block (i, j) of arrays of m by n."""

    def __init__(self, k: Builder, order: tuple[int, int], tile: tuple[int, ...]) -> None:
        self.k, self.tile = k, tile
        ids = k.get_tile_block_id()
        self.i, self.j = (ids[axis] for axis in order)
        self.m, self.n = k.args.m, k.args.n

    def view(self, base: Value, tile: tuple[int, ...] | None = None) -> Any:
        k, tile = self.k, tile or self.tile
        shape = {2: [self.m, self.n], 1: [self.m if tile[0] == self.tile[0] else self.n]}[len(tile)]
        strides = [self.n, 1] if len(tile) == 2 else [1]
        return k.partition(k.make_tensor_view(base, shape, strides), tile=tile, padding="zero")

    def load(self, base: Value) -> Value:
        return self.k.load_view_tko(self.view(base), [self.i, self.j])[0]

    def store(self, value: Value, base: Value) -> None:
        self.k.store_view_tko(value, self.view(base), [self.i, self.j])


def _sums(k: Builder, s: _Tiles) -> None:
    s.store(s.load(k.args.x) + s.load(k.args.z), k.args.y)


def _in_place(k: Builder, s: _Tiles) -> None:
    s.store(s.load(k.args.y) + s.load(k.args.x), k.args.y)


def _by_columns_and_rows(k: Builder, s: _Tiles) -> None:
    """A number for each row, and one for each column."""
    rows, columns = s.tile
    of_row = k.load_view_tko(s.view(k.args.x, (rows,)), [s.i])[0]
    of_column = k.load_view_tko(s.view(k.args.z, (columns,)), [s.j])[0]
    tall = k.broadcast(k.reshape(of_row, shape=(rows, 1)), shape=s.tile)
    long = k.broadcast(k.reshape(of_column, shape=(1, columns)), shape=s.tile)
    s.store(tall * s.load(k.args.z) + long, k.args.y)


_CASES = {each.__name__.strip("_"): each for each in (_sums, _in_place, _by_columns_and_rows)}


def _kernel(
    body: _Body,
    dtype: str = "f32",
    order: tuple[int, int] = (0, 1),
    tile: tuple[int, ...] = _TILE,
) -> Any:
    module = ModuleBuilder()
    args = {name: ptr(dtype) for name in "xzy"} | {"m": "i32", "n": "i32"}
    with module.entry("k", args) as k:
        body(k, _Tiles(k, order, tile))
    return module.build()


def _remark(module: Any) -> str:
    found = compile_kernel(lower_to_tileaa(module).module).remarks
    return "".join(remark.message for remark in found if remark.kind == "strip")


def _arrays(dtype: str, shape: tuple[int, ...]) -> list[Any]:
    random = np.random.default_rng(sum(shape))
    return [random.integers(-9, 10, shape).astype(dtype_of(dtype)) for _ in range(3)]


@pytest.mark.parametrize("case", _CASES.values(), ids=_CASES)
def test_instructions_belong_to_operations_of_the_kernel(case: _Body) -> None:
    """Not to those of the kernel of one row and many columns that is made of it."""
    module = run_pipeline(_kernel(case), "lower-cuda-tile-to-tileaa,cpu")
    own, asked = set(module.walk()), set[Operation]()
    compile_kernel(module, number_of=lambda op: asked.add(op))
    assert {op.name for op in asked} >= {"nv_tileaa.tiled_load", "nv_tileaa.tiled_store"}
    assert asked <= own


def _launched(
    module: Any,
    order: tuple[int, int],
    shape: tuple[int, ...],
    arrays: Any,
    *,
    tile: tuple[int, ...] = _TILE,
    **options: Any,
) -> bytes:
    copies = [each.copy() for each in arrays]
    grid = [1, 1, 1]
    for axis, extent, side in zip(order, shape, tile, strict=True):
        grid[axis] = -(-extent // side)
    # Checked code is what runs blocks one by one here.
    with blocks_one_by_one() if options.get("checked") else nullcontext():
        Program(module, LaunchOptions(**options)).launch("k", tuple(grid), (*copies, *shape))
    return b"".join(each.tobytes() for each in copies)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("order", [*itertools.permutations(range(3), 2)])
@pytest.mark.parametrize("case", _CASES.values(), ids=_CASES)
def test_the_same_bits_as_one_by_one(case: _Body, order: tuple[int, int], threads: int) -> None:
    module = _kernel(case, order=order)
    assert "computed row by row" in _remark(module)
    # Lines with and without whole groups, more threads than lines, tiles beyond both edges.
    for shape in ((8, 256), (5, 16 * 16 * 9), (37, 16 * 37 - 3), (8 * 9, 7), (16, 16 * 16 * 3 + 1)):
        arrays = _arrays("f32", shape)
        alone = _launched(module, order, shape, arrays, checked=True)
        assert _launched(module, order, shape, arrays, threads=threads) == alone, shape


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64", "i8", "i64"])
@pytest.mark.parametrize("case", _CASES.values(), ids=_CASES)
def test_element_types(case: _Body, dtype: str) -> None:
    module, shape = _kernel(case, dtype), (29, 16 * 35 - 3)
    arrays = _arrays(dtype, shape)
    alone = _launched(module, (0, 1), shape, arrays, checked=True)
    assert _launched(module, (0, 1), shape, arrays, threads=2) == alone


def test_a_grid_that_leaves_some_out() -> None:
    """Blocks that the grid does not have write nothing, though groups could reach them."""
    module, shape = _kernel(_sums), (64, 16 * 64)
    x, z, y = _arrays("f32", shape)
    grid = (5, 39, 1)
    before = y.copy()
    Program(module, LaunchOptions(threads=2)).launch("k", grid, (x, z, y, *shape))
    expected = before
    expected[: 5 * 8, : 39 * 16] = (x + z)[: 5 * 8, : 39 * 16]
    assert (y == expected).all()


def test_three_axes() -> None:
    """Planes, too, are rows of their rows."""
    module = ModuleBuilder()
    with module.entry(
        "k", {"x": ptr("f32"), "y": ptr("f32"), "p": "i32", "m": "i32", "n": "i32"}
    ) as k:
        p, m, n = k.args.p, k.args.m, k.args.n
        x, y = (
            k.partition(k.make_tensor_view(base, [p, m, n], [m * n, n, 1]), tile=(2, 4, 16))
            for base in (k.args.x, k.args.y)
        )
        here = list(reversed(k.get_tile_block_id()))
        tile = k.load_view_tko(x, here)[0]
        k.store_view_tko(tile * tile, y, here)
    built = module.build()
    assert "computed row by row" in _remark(built)
    for shape in ((2, 4, 256), (5, 7, 16 * 35 - 1), (3, 40, 16 * 16)):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        y = np.zeros_like(x)
        grid = (-(-shape[2] // 16), -(-shape[1] // 4), -(-shape[0] // 2))
        for threads in (1, 2):
            Program(built, LaunchOptions(threads=threads)).launch("k", grid, (x, y, *shape))
            assert (y == x * x).all()


def _one_row_down(k: Builder, s: _Tiles) -> None:
    """What row r holds goes to row r + 1 of the same array: all is read before."""
    moved = k.offset(k.args.y, s.n)
    tile, token = k.load_view_tko(s.view(k.args.y), [s.i, s.j])
    k.store_view_tko(tile, s.view(moved), [s.i, s.j], token=token)


def _written_twice(k: Builder, s: _Tiles) -> None:
    """The second write, one row down, is what stays."""
    moved = k.offset(k.args.y, s.n)
    token = k.store_view_tko(s.load(k.args.x), s.view(k.args.y), [s.i, s.j])
    k.store_view_tko(s.load(k.args.z), s.view(moved), [s.i, s.j], token=token)


@pytest.mark.parametrize("case", [_one_row_down, _written_twice])
def test_rows_that_meet_in_memory_stay_together(case: _Body) -> None:
    module = _kernel(case)
    assert "row by row" not in _remark(module)
    shape = (7, 16 * 16)
    arrays = [np.resize(each, (9, shape[1])) for each in _arrays("f32", shape)]
    alone = _launched(module, (0, 1), shape, arrays, checked=True)
    assert _launched(module, (0, 1), shape, arrays, threads=1) == alone


def test_arguments_that_share_memory() -> None:
    """An output one row below an input: a block reads all of its rows before it writes any."""
    module, (m, n) = _kernel(_sums), (8, 16 * 16)
    x = np.random.default_rng(0).standard_normal((m + 1, n)).astype(np.float32)
    z = np.zeros((m, n), np.float32)
    expected = x[:m].copy()
    program = Program(module, LaunchOptions(threads=1, allow_overlap=True))
    program.launch("k", (1, n // 16, 1), (x[:m], z, x[1:], m, n))
    assert (x[1:] == expected).all()


@pytest.mark.rotates(2)
@pytest.mark.parametrize("seed", range(24))
def test_random_kernels(seed: int) -> None:
    random = np.random.default_rng(seed)
    dtype = str(random.choice(["f32", "i32", "f16", "i8", "f64"]))
    tile = tuple(2 ** int(n) for n in random.integers(0, 6, 2))
    order = [*itertools.permutations(range(3), 2)][random.integers(6)]
    shape = tuple(int(n) for n in random.integers(1, [tile[0] * 9, tile[1] * 70]))

    def body(k: Builder, s: _Tiles) -> None:
        values = [s.load(base) for base in (k.args.x, k.args.z)]
        if random.random() < 0.5:
            values.append(s.load(k.args.y))
        for _ in range(random.integers(1, 6)):
            a, b = (values[n] for n in random.integers(len(values), size=2))
            match random.integers(5):
                case 0:
                    found = a + b
                case 1:
                    found = a * b
                case 2:
                    found = k.select(a < b, a, b)
                case 3:
                    row = k.load_view_tko(s.view(k.args.z, (tile[0], 1)), [s.i, 0])[0]
                    found = a - k.broadcast(row, shape=tile)
                case _:
                    line = k.load_view_tko(s.view(k.args.z, (1, tile[1])), [0, s.j])[0]
                    found = k.broadcast(line, shape=tile) + b
            values.append(found)
        for base, value in zip((k.args.y, k.args.x), values[::-1], strict=False):
            if base is k.args.y or random.random() < 0.3:
                s.store(value, base)

    module = _kernel(body, dtype, order, tile)
    arrays = _arrays(dtype, shape)
    alone = _launched(module, order, shape, arrays, tile=tile, checked=True)
    for threads in (1, 2, 5):
        assert _launched(module, order, shape, arrays, tile=tile, threads=threads) == alone


def _beyond(case: _Body, shape: tuple[int, ...], lacking: int = 0, more: int = 0) -> str:
    """What checked code says of arrays that lack elements at their end, and of a grid with more blocks along x."""
    arrays = _arrays("f32", shape)
    arrays[0] = arrays[0].reshape(-1)[: arrays[0].size - lacking]
    grid = (-(-shape[0] // _TILE[0]), -(-shape[1] // _TILE[1]) + more)
    program = Program(_kernel(case), LaunchOptions(checked=True, optimization=2))
    try:
        program.launch("k", grid, (*arrays, *shape))
    except TileIRError as error:
        return error.diagnostics[0].message
    return ""


@pytest.mark.parametrize("case", _CASES.values(), ids=_CASES)
def test_checks_for_all_blocks_at_once(case: _Body) -> None:
    shape = (37, 16 * 37 - 3)
    compiled = compile_kernel(
        lower_to_tileaa(_kernel(case)).module, None, CompileOptions(checked=True)
    )
    assert any(each.kind == "strip" for each in compiled.remarks)
    assert _beyond(case, shape) == ""
    # Where they do not hold, blocks go by themselves, and the first one that is outside is told of.
    assert "accesses a tile outside of its view along axis" in _beyond(case, shape, more=1)
    short = _beyond(case, shape, lacking=1)
    # Of the last one, only the first column is read.
    reads_all = case is not _by_columns_and_rows
    assert ("accesses memory outside of the memory of" in short) == reads_all


def test_the_same_bits_in_groups_with_checks() -> None:
    for case, shape in itertools.product(
        _CASES.values(), ((5, 16 * 16 * 9), (16, 16 * 16 * 3 + 1))
    ):
        module, arrays = _kernel(case), _arrays("f32", shape)
        found = _launched(module, (0, 1), shape, arrays)
        copies = [each.copy() for each in arrays]
        grid = tuple(-(-extent // side) for extent, side in zip(shape, _TILE, strict=True))
        program = Program(module, LaunchOptions(checked=True, optimization=2))
        program.launch("k", grid, (*copies, *shape))
        assert b"".join(each.tobytes() for each in copies) == found
