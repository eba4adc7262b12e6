"""Rows read and written through pointers: the part of a row that reaches no end and no limit goes without checks."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.support import Guarded

import tilewright
from tilewright import LaunchOptions
from tilewright.builder import Builder, ModuleBuilder, Value, ptr
from tilewright.cpu import Program
from tilewright.cpu.codegen.loops.row_ends import PART_REMARK, PIECES_REMARK
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.cpu.target import cpu_target
from tilewright.lowering import lower_to_tileaa
from tilewright.numerics.arrays import dtype_of

Array = np.ndarray[Any, Any]
Formula = Callable[[Builder, Value, Value], Value]
"""From a column of the tile, and how many columns there are, the column that is read."""


def _limited(k: Builder, column: Value, n: Value) -> Value:
    return k.minimum(k.maximum(column, 0), n - 1)


#: What is read for a column, from rows of ``2 n``; None of them is behind the end where the column is one of ``n``.
FORMULAS: dict[str, Formula] = {
    "the same": lambda k, c, n: c,
    "the next one": lambda k, c, n: c + 1,
    "two apart": lambda k, c, n: c * 2,
    "three apart, less": lambda k, c, n: _limited(k, c * 3 - 5, n),
    "the one before, limited": lambda k, c, n: _limited(k, c - 1, n),
    "twenty behind, limited": lambda k, c, n: _limited(k, c + 20, n),
    "descending": lambda k, c, n: n - 1 - c,
    "descending, limited": lambda k, c, n: _limited(k, n - 3 - c, n),
    "the one before, around": lambda k, c, n: k.where(c == 0, n - 1, c - 1),
    "the next one, around": lambda k, c, n: k.where(c >= n - 1, 0, c + 1),
    "three behind, by the remainder": lambda k, c, n: (c + 3) % n,
    "in pairs": lambda k, c, n: c // 2,
}


@functools.cache
def _rows(element: str, shape: tuple[int, int], names: tuple[str, ...]) -> Any:
    """``out = - x at the first formula - 2 x at the second - ...`` for tiles of rows."""
    module = ModuleBuilder()
    height, width = shape
    with module.entry(
        "rows", dict.fromkeys(("x", "out"), ptr(element)) | dict.fromkeys("mn", "i32")
    ) as k:
        m, n = k.args.m, k.args.n
        i, j, _ = k.get_tile_block_id()
        row = (i * height + k.arange(height)).reshape(height, 1)
        column = (j * width + k.arange(width)).reshape(1, width)
        inside = (row < m) & (column < n)

        def places(base: Value, row: Value, column: Value, columns: Value) -> Value:
            return k.broadcast_to(base.reshape(1, 1), shape) + (row * columns + column)

        total = k.zeros(shape, element)
        for number, name in enumerate(names, 1):
            at = FORMULAS[name](k, column, n)
            on = inside & (at >= 0) & (at < n * 2)
            # Rows are limited, too.
            above = k.minimum(k.maximum(row - (number - 1), 0), m - 1)
            zero = k.zeros(shape, element)
            found, _ = k.load_ptr_tko(places(k.args.x, above, at, n * 2), on, zero)
            for _ in range(number):
                total = total - found
        k.store_ptr_tko(places(k.args.out, row, column, n), total, inside)
    return module.build()


ALONE = [(name,) for name in FORMULAS]
TOGETHER = [
    ("the one before, limited", "the same", "the next one, around"),
    ("two apart", "the next one", "three behind, by the remainder"),
    ("descending", "twenty behind, limited"),
]


@pytest.mark.rotates(6)
@pytest.mark.skipif(sys.platform == "win32", reason="pages are protected by mprotect")
@pytest.mark.parametrize("names", [*ALONE, *TOGETHER], ids=" and ".join)
@pytest.mark.parametrize("shape, height", [((1, 64), 3), ((4, 128), 7), ((16, 64), 21)], ids=str)
@pytest.mark.parametrize("element", ["f32", "f16", "f64", "i8"])
def test_the_reference_machine_agrees_and_nothing_behind_an_end_is_touched(
    element: str, shape: tuple[int, int], height: int, names: tuple[str, ...]
) -> None:
    kernel, dtype = _rows(element, shape, names), dtype_of(element)
    program = Program(kernel, options=LaunchOptions(threads=1))
    for columns in (1, 15, 28, 57, 63, 64, 65, 100, 130):
        x = np.random.default_rng(columns).integers(-9, 9, (height, 2 * columns)).astype(dtype)
        wanted = np.full((height, columns), 7, dtype)
        grid = (-(-height // shape[0]), -(-columns // shape[1]), 1)
        tilewright.run(kernel, "rows", grid, (x, wanted, height, columns))
        for at_end in (True, False):
            arrays = [Guarded(each, at_end=at_end) for each in (x, np.full_like(wanted, 7))]
            program.launch(None, grid, (*(each.array for each in arrays), height, columns))
            np.testing.assert_array_equal(arrays[1].array, wanted, err_msg=f"{columns} columns")


def test_numbers_that_wrap_in_a_row() -> None:
    """Columns beyond 2**31 - 1 wrap to negative numbers, which are below n: they are stored to, in front of the array."""
    module, width = ModuleBuilder(), 64
    with module.entry("k", {"out": ptr("f32"), "start": "i32", "n": "i32"}) as k:
        column = k.args.start + k.arange(width)
        place = k.broadcast_to(k.args.out.reshape(1), (width,)) + (column - k.args.start)
        on = column < k.args.n
        k.store_ptr_tko(place, k.full((width,), 1.0, "f32"), on)
    kernel = module.build()
    for start in ((1 << 31) - 20, (1 << 31) - 64, 0, -5):
        for n in (start + 3, start + 40, 0, -(1 << 31) + 9):
            arguments = start, max(min(n, (1 << 31) - 1), -(1 << 31))
            found, wanted = (np.zeros(width, np.float32) for _ in range(2))
            tilewright.run(kernel, "k", (1, 1, 1), (wanted, *arguments))
            tilewright.run(kernel, "k", (1, 1, 1), (found, *arguments), machine="cpu")
            np.testing.assert_array_equal(found, wanted, err_msg=str(arguments))


MASKS: dict[str, Callable[[Builder, Value], Value]] = {
    "half of each hundred": lambda k, i: i % 100 < 50,
    "all from a limit on": lambda k, i: k.minimum(i, 40) < 50,
    "none in front": lambda k, i: k.maximum(i - 70, 0) < 3,
    "one of two sides": lambda k, i: k.where(i < 80, i, 7) < 20,
    "by the quotient": lambda k, i: i // 100 < 1,
    "from behind": lambda k, i: 150 - i > 30,
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_masks_that_are_on_again_behind_a_place_where_they_are_off(mask: Any) -> None:
    module, width = ModuleBuilder(), 64
    with module.entry("k", {"x": ptr("f32"), "out": ptr("f32")}) as k:
        place = k.get_tile_block_id()[0] * width + k.arange(width)

        def at(base: Value) -> Value:
            return k.broadcast_to(base.reshape(1), (width,)) + place

        on = mask(k, place)
        x, _ = k.load_ptr_tko(at(k.args.x), on, k.zeros((width,), "f32"))
        k.store_ptr_tko(at(k.args.out), x * 2.0, on)
    kernel, x = module.build(), np.arange(1, 257, dtype=np.float32)
    found, wanted = (np.zeros(256, np.float32) for _ in range(2))
    tilewright.run(kernel, "k", (4, 1, 1), (x, wanted))
    tilewright.run(kernel, "k", (4, 1, 1), (x, found), machine="cpu")
    np.testing.assert_array_equal(found, wanted)
    assert 0 < np.count_nonzero(wanted) < 256 or mask is MASKS["all from a limit on"]


def _remarks(names: tuple[str, ...], shape: tuple[int, int]) -> list[str]:
    module = lower_to_tileaa(_rows("f32", shape, names)).module
    return [each.message for each in compile_kernel(module, None, CompileOptions()).remarks]


@pytest.mark.parametrize("names", [*ALONE, *TOGETHER], ids=" and ".join)
def test_it_is_told(names: tuple[str, ...]) -> None:
    quotients = {"in pairs", "three behind, by the remainder"} & set(names)
    told = PIECES_REMARK if quotients else PART_REMARK
    assert told in _remarks(names, (1, 128))


def test_not_where_rows_are_a_vector() -> None:
    assert PART_REMARK not in _remarks(("the same",), (8, cpu_target().vector_bits // 32))


@functools.cache
def _sums(element: str, shape: tuple[int, int], name: str) -> Any:
    """The sum and the largest of each row of a tile, of what is read for its columns, 3 where the mask is off."""
    module = ModuleBuilder()
    height, width = shape
    arrays = dict.fromkeys(("x", "sums", "largest"), ptr(element))
    with module.entry("rows", arrays | dict.fromkeys("mn", "i32")) as k:
        m, n = k.args.m, k.args.n
        row = k.get_tile_block_id()[0] * height + k.arange(height)
        column, rows = k.arange(width).reshape(1, width), row.reshape(height, 1)
        at = FORMULAS[name](k, column, n)
        on = (rows < m) & (column < n) & (at >= 0) & (at < n * 2)
        place = k.broadcast_to(k.args.x.reshape(1, 1), shape) + (rows * (n * 2) + at)
        x, _ = k.load_ptr_tko(place, on, k.full(shape, 3, element))
        for found, base in ((x.sum(1), k.args.sums), (x.max(1), k.args.largest)):
            to = k.broadcast_to(base.reshape(1), (height,)) + row
            k.store_ptr_tko(to, found.reshape(height), row < m)
    return module.build()


@pytest.mark.rotates(6)
@pytest.mark.skipif(sys.platform == "win32", reason="pages are protected by mprotect")
@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("shape, height", [((1, 128), 3), ((4, 128), 7)], ids=str)
@pytest.mark.parametrize("element", ["f32", "i8", "f16"])
def test_reductions_of_rows(element: str, shape: tuple[int, int], height: int, name: str) -> None:
    kernel, dtype = _sums(element, shape, name), dtype_of(element)
    program = Program(kernel, options=LaunchOptions(threads=1))
    for columns in (1, 28, 63, 65, 127, 128):
        x = np.random.default_rng(columns).integers(-2, 3, (height, 2 * columns)).astype(dtype)
        wanted = [np.zeros(height, dtype) for _ in range(2)]
        grid = (-(-height // shape[0]), 1, 1)
        tilewright.run(kernel, "rows", grid, (x, *wanted, height, columns))
        for at_end in (True, False):
            guarded, found = Guarded(x, at_end=at_end), [np.zeros(height, dtype) for _ in range(2)]
            program.launch(None, grid, (guarded.array, *found, height, columns))
            np.testing.assert_array_equal(found, wanted, err_msg=f"{columns} columns")
