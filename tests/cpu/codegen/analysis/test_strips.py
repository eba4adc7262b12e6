"""Blocks that go down strips of columns run together, with the results that they have alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.support import blocks_one_by_one
from tests.wide_kernels import CASES, COLUMNS, REFUSED, ROWS, Strip, kernel, sums, sums_of_tiles

import tilewright
from tilewright import LaunchOptions
from tilewright.builder import ModuleBuilder, ptr
from tilewright.cpu import Program
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.cpu.target import cpu_target, missing_features
from tilewright.lowering import lower_to_tileaa
from tilewright.numerics.arrays import dtype_of
from tilewright.numerics.element_types import FORMATS


def _remark(module: Any) -> str:
    found = compile_kernel(lower_to_tileaa(module).module).remarks
    return "".join(remark.message for remark in found if remark.kind == "strip")


def _launched(module: Any, blocks: int, x: Any, options: dict[str, Any], axis: int = 0) -> bytes:
    y = np.zeros_like(x)
    grid = [1, 1, 1]
    grid[axis] = blocks
    program = Program(module, LaunchOptions(**options))
    # Checked code is what runs blocks one by one here.
    with blocks_one_by_one() if options.get("checked") else nullcontext():
        for _ in range(2):
            program.launch("k", tuple(grid), (x, y, *x.shape))
    return y.tobytes()


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_same_bits_as_alone(case: Callable[[Strip], None], threads: int) -> None:
    module = kernel(case)
    assert "adjacent tile blocks run as one" in _remark(module)
    # Grids with and without complete groups, and a rest.
    for blocks in (1, 16, 37):
        shape = ROWS - 3 if case is not sums else 5 * ROWS - 3, COLUMNS * blocks - 5
        x = np.random.default_rng(blocks).standard_normal(shape).astype(np.float32)
        alone = _launched(module, blocks, x, {"checked": True})
        assert _launched(module, blocks, x, {"threads": threads}) == alone


@pytest.mark.parametrize("cpu", ["x86-64-v3", "generic"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_other_processors(case: Callable[[Strip], None], cpu: str) -> None:
    module = kernel(case)
    x = np.random.default_rng(2).standard_normal((ROWS, COLUMNS * 33)).astype(np.float32)
    alone = _launched(module, 33, x, {"checked": True, "cpu": cpu})
    assert _launched(module, 33, x, {"threads": 1, "cpu": cpu}) == alone


@pytest.mark.parametrize("axis", [1, 2])
def test_other_axes_of_the_grid(axis: int) -> None:
    module = kernel(sums, axis=axis)
    x = np.random.default_rng(0).standard_normal((40, COLUMNS * 33)).astype(np.float32)
    alone = _launched(module, 33, x, {"checked": True}, axis)
    assert _launched(module, 33, x, {"threads": 2}, axis) == alone


@pytest.mark.rotates(6)
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64", "i8", "i16", "i32", "i64"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_element_types(case: Callable[[Strip], None], dtype: str) -> None:
    module = kernel(case, dtype)
    x = np.random.default_rng(1).integers(-1, 2, (ROWS, COLUMNS * 35 - 3))
    x = x.astype(dtype_of(dtype))
    alone = _launched(module, 35, x, {"checked": True})
    assert _launched(module, 35, x, {"threads": 1}) == alone
    y = np.zeros_like(x)
    tilewright.run(module, "k", (35,), (x, y, *x.shape), machine="reference")
    assert y.tobytes() == alone


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_left_as_it_is(case: Callable[[Strip], None]) -> None:
    assert not _remark(kernel(case, "i32"))


@pytest.mark.parametrize(
    ("dtype", "columns", "bytes_"), [("f32", 8, 512), ("f64", 64, 4096), ("i8", 2048, 4096)]
)
def test_how_wide_they_get(dtype: str, columns: int, bytes_: int) -> None:
    row = columns * FORMATS[dtype].bits // 8
    assert f"have {bytes_} bytes, not {row}" in _remark(kernel(sums, dtype, columns=columns))


@pytest.mark.parametrize(("dtype", "columns"), [("f32", 1024), ("f64", 512), ("f16", 2048)])
def test_rows_that_are_long_enough(dtype: str, columns: int) -> None:
    assert not _remark(kernel(sums, dtype, columns=columns))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", ["f16", "f32", "f64", "i32"])
def test_sums_of_large_tiles_go_row_by_row(dtype: str, threads: int) -> None:
    columns = 128
    module = kernel(sums_of_tiles, dtype, columns=columns)
    assert f"are computed row by row, {ROWS} in sequence" in _remark(module)
    assert "loops make 4 iterations at once" in _remark(module)
    # Whole numbers, whose sums are exact; tiles at both edges are not whole.
    x = np.random.default_rng(0).integers(-3, 4, (5 * ROWS - 3, 37 * columns - 5))
    x = x.astype(dtype_of(dtype))
    alone = _launched(module, 37, x, {"checked": True})
    assert _launched(module, 37, x, {"threads": threads}) == alone
    (found,) = np.frombuffer(alone, x.dtype).reshape(x.shape)[:1]
    assert (found == x.sum(0, dtype=x.dtype)).all()


def _sum_in_place(s: Strip) -> None:
    x = s.load(0)
    s.tile(x * x + s.one(), 0)


def _turned(s: Strip) -> None:
    """Columns become rows: the pieces that are written would stay as short as they are."""
    k = s.k
    view = k.make_tensor_view(k.args.y, [k.args.n, k.args.m], [k.args.m, 1])
    turned = k.permute(s.load(0), permutation=[1, 0])
    k.store_view_tko(turned, k.partition(view, tile=(s.columns, ROWS)), [s.here, 0])


def test_moves_by_rows_get_wide_too() -> None:
    module = kernel(_sum_in_place)
    assert "have 512 bytes, not 32" in _remark(module)
    x = np.random.default_rng(0).standard_normal((ROWS - 3, 37 * COLUMNS - 5)).astype(np.float32)
    alone = _launched(module, 37, x, {"checked": True})
    assert alone == (x * x + 1).tobytes()
    assert _launched(module, 37, x, {"threads": 2}) == alone


def test_what_is_turned_stays() -> None:
    assert not _remark(kernel(_turned))


def _strided(
    dtype: str, columns: int, strides: Callable[[Any], list[Any]], *, lines: bool = True
) -> Any:
    """Twice the tiles of ``x``, whose elements lie at strides of ``s`` where they are not known; only those of the first
    rows without ``lines``."""
    module = ModuleBuilder()
    args = {"x": ptr(dtype), "y": ptr(dtype), "m": "i32", "n": "i32", "r": "i32", "s": "i32"}
    with module.entry("k", args) as k:
        x = k.make_tensor_view(k.args.x, [k.args.m, k.args.n], strides(k.args))
        y = k.make_tensor_view(k.args.y, [k.args.m, k.args.n], [k.args.n, 1])
        here = [k.get_tile_block_id()[1] if lines else 0, k.get_tile_block_id()[0]]
        tile = k.load_view_tko(k.partition(x, tile=(8, columns), padding="zero"), here)[0]
        k.store_view_tko(tile + tile, k.partition(y, tile=(8, columns)), here)
    return module.build()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["f16", "f32", "f64", "i8"])
def test_rows_of_elements_at_a_stride(dtype: str, threads: int) -> None:
    """A row is where the stride is smallest, also if it only shows when the code runs."""
    columns, rows, blocks = 64, 21, 37
    width = columns * blocks - 5
    module = _strided(dtype, columns, lambda a: [a.r, a.s])
    assert "adjacent tile blocks run as one" in _remark(module)
    for stride in (1, 2, 3, 4, 5, 9):
        for turned in (False, True):
            # Turned, the innermost axis is not the one of rows.
            near, pitch = stride, width * stride + 3
            shape = (rows, width)
            r, s = (near, rows * stride + 3) if turned else (pitch, near)
            size = (rows - 1) * r + (width - 1) * s + 1
            x = np.random.default_rng(stride).integers(-9, 10, size).astype(dtype_of(dtype))
            y = np.zeros(shape, x.dtype)
            program = Program(module, LaunchOptions(threads=threads))
            program.launch("k", (blocks, 3, 1), (x, y, *shape, r, s))
            at = np.arange(rows)[:, None] * r + np.arange(width) * s
            assert (y == x[at] + x[at]).all(), (stride, turned)


def test_known_strides_say_where_rows_are() -> None:
    assert "adjacent tile blocks" in _remark(_strided("f32", 64, lambda a: [a.r, 3]))
    assert "adjacent tile blocks" in _remark(_strided("f32", 64, lambda _: [8, 2]))
    for strides in ([1, 4096], [2, 3], [4096, 9]):
        assert not _remark(_strided("f32", 64, lambda _, known=strides: known))
    assert not _remark(_strided("f32", 64, lambda a: [4, a.s]))


@pytest.mark.parametrize(
    ("dtype", "columns", "bytes_"), [("f32", 512, 8192), ("f64", 512, 16384), ("i8", 512, 4096)]
)
def test_rows_with_gaps_get_wider(dtype: str, columns: int, bytes_: int) -> None:
    found = _remark(_strided(dtype, columns, lambda a: [a.r, a.s], lines=False))
    assert f"have {bytes_} bytes" in found
    found = _remark(_strided(dtype, 256, lambda a: [a.r, 1], lines=False))
    assert "have 4096 bytes" in found
    assert "computed row by row" in _remark(_strided(dtype, columns, lambda a: [a.r, a.s]))


def _sums_of_rows(element: str, columns: int, tile: int, *, two: bool) -> Any:
    """A block goes along a row: the sum of its elements, and of their squares as well."""
    module = ModuleBuilder()
    parameters = dict.fromkeys("xyz", ptr(element)) | {"rows": "i32"}
    with module.entry("k", parameters) as k:
        row, _, _ = k.get_tile_block_id()
        view = k.make_tensor_view(k.args.x, shape=[k.args.rows, columns], strides=[columns, 1])
        tiles = k.partition(view, tile=(1, tile), padding="zero")
        zero = k.full((1,), 0, element)

        def reduced(value: Any) -> Any:
            return k.reduce(value, 1, 0, lambda b, element, total: element + total)

        with k.for_(-(-columns // tile), one=zero, two=zero) as loop:
            x, _ = k.load_view_tko(tiles, [row, loop.index])
            loop.one = loop.one + reduced(x)
            loop.two = loop.two + reduced(x * x) if two else loop.two
        for base, total in ((k.args.y, loop.one), (k.args.z, loop.two)):
            out = k.make_tensor_view(base, shape=[k.args.rows], strides=[1])
            k.store_view_tko(total, k.partition(out, tile=(1,)), [row])
    return module.build()


@pytest.mark.parametrize("cpu", ["host", "x86-64-v3", "generic"])
@pytest.mark.parametrize("two", [False, True], ids=["one", "two"])
@pytest.mark.parametrize("element", ["f16", "f32", "f64", "i32"])
def test_rows_side_by_side(element: str, two: bool, cpu: str) -> None:
    """The same bits as of each row alone, whether it is one of a group, or one that is left over."""
    target = cpu_target(cpu)
    if missing_features(target):
        pytest.skip("the processor lacks features of this level")
    columns, tile = 1500, 512
    module = _sums_of_rows(element, columns, tile, two=two)
    options = CompileOptions(cpu=cpu)
    remarks = compile_kernel(lower_to_tileaa(module).module, None, options).remarks
    told = any("whose rows are read side by side" in each.message for each in remarks)
    assert told == (not target.has("avx512f"))
    programs = [
        Program(module, LaunchOptions(cpu=cpu, **how))
        for how in ({"checked": True}, {"threads": 1}, {"threads": 3})
    ]
    for rows in (3, 64, 66):
        x = np.random.default_rng(rows).standard_normal((rows, columns)) * 4
        x = x.astype(dtype_of(element))
        found = []
        for program in programs:
            y, z = np.zeros((2, rows), x.dtype)
            for _ in range(2):
                program.launch("k", (rows,), (x, y, z, rows))
            found.append(y.tobytes() + z.tobytes())
        assert found[0] == found[1] == found[2]
        if element == "i32":
            assert (np.frombuffer(found[0], x.dtype)[:rows] == x.sum(1)).all()


def _moments(element: str, tile: tuple[int, int], *, in_place: bool = False) -> Any:
    """Of each row of planes the sum of its elements, and that of their squares, which a loop adds up in tiles of several rows."""
    module = ModuleBuilder()
    parameters = dict.fromkeys("xyz", ptr(element)) | dict.fromkeys(("rows", "columns"), "i32")
    with module.entry("k", parameters) as k:
        block, plane, _ = k.get_tile_block_id()
        rows, columns = k.args.rows, k.args.columns
        view = k.make_tensor_view(
            k.args.x, shape=[3, rows, columns], strides=[rows * columns, columns, 1]
        )
        tiles = k.partition(view, tile=(1, *tile), padding="zero")
        zero = k.full((1, *tile), 0, element)
        whole = (columns + (tile[1] - 1)) // tile[1]
        with k.for_(whole, one=zero, two=zero) as loop:
            x, _ = k.load_view_tko(tiles, [plane, block, loop.index])
            loop.one, loop.two = loop.one + x, loop.two + x * x
            if in_place:
                k.store_view_tko(x + x, tiles, [plane, block, loop.index])
        for base, total in ((k.args.y, loop.one), (k.args.z, loop.two)):
            out = k.make_tensor_view(base, shape=[3, rows], strides=[rows, 1])
            total = k.reduce(total, 2, 0, lambda b, element, total: element + total)
            k.store_view_tko(total, k.partition(out, tile=(1, tile[0])), [plane, block])
    return module.build()


@pytest.mark.parametrize("cpu", ["host", "x86-64-v3", "generic"])
@pytest.mark.parametrize("in_place", [False, True], ids=["", "in place"])
@pytest.mark.parametrize("element", ["f32", "f16", "f64", "i32", "bf16"])
def test_a_block_goes_along_one_row_after_the_other(element: str, in_place: bool, cpu: str) -> None:
    """The same bits as where it goes along all of them at once, as checked code does."""
    if missing_features(cpu_target(cpu)):
        pytest.skip("the processor lacks features of this level")
    module = _moments(element, (8, 128), in_place=in_place)
    assert "the rows of a tile block are computed row by row" in _remark(module)
    programs = [
        Program(module, LaunchOptions(cpu=cpu, **how))
        for how in ({"checked": True}, {"threads": 1}, {"threads": 3})
    ]
    for rows, columns in ((3, 7), (8, 128), (21, 700)):
        x = np.random.default_rng(rows).integers(-9, 10, (3, rows, columns)) / 3
        x = x.astype(dtype_of(element))
        found: list[bytes] = []
        for program in programs:
            held, (y, z) = x.copy(), np.zeros((2, 3, rows), x.dtype)
            program.launch("k", (-(-rows // 8), 3), (held, y, z, rows, columns))
            found.append(held.tobytes() + y.tobytes() + z.tobytes())
        assert found[0] == found[1] == found[2]
        if element == "i32":
            assert found[0].endswith((x * x).sum(2, dtype=np.int32).tobytes())


@pytest.mark.parametrize(
    ("element", "tile"),
    [("f32", (1, 2048)), ("f32", (8, 32)), ("f16", (2, 128))],
    ids=["one row", "short pieces", "held in registers"],
)
def test_rows_that_stay_together(element: str, tile: tuple[int, int]) -> None:
    assert not _remark(_moments(element, tile))
