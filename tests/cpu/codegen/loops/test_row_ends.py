"""Tiles whose rows end behind their array: what is read and written there, and nothing else."""

from __future__ import annotations

import functools
import itertools
import sys
from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.support import Guarded

from tilewright import LaunchOptions
from tilewright.builder import ModuleBuilder, Value, ptr
from tilewright.cpu import Program
from tilewright.cpu.codegen.loops.row_ends import REMARK
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.cpu.target import cpu_target
from tilewright.lowering import lower_to_tileaa
from tilewright.numerics.arrays import dtype_of

Array = np.ndarray[Any, Any]
MINUS_INFINITY = "neg_inf"
COLUMNS = (1, 15, 63, 64, 65, 129, 200, 255, 256)


@functools.cache
def rows(element: str, shape: tuple[int, int], padding: str) -> Any:
    """``out = 2 x - y``, less the largest of each row of x; ``sums`` of the rows of ``x + y``; both with the padding."""
    module = ModuleBuilder()
    height, _ = shape
    parameters = dict.fromkeys(("x", "y", "out", "sums"), ptr(element))
    with module.entry("rows", parameters | dict.fromkeys("mn", "i32")) as k:
        args = k.args
        i, j, _ = k.get_tile_block_id()

        def view(base: Value, columns: Value | int, size: tuple[int, int]) -> Value:
            whole = k.make_tensor_view(base, shape=[args.m, columns], strides=[columns, 1])
            return k.partition(whole, tile=size, padding=padding)

        x, _ = k.load_view_tko(view(args.x, args.n, shape), [i, j])
        y, _ = k.load_view_tko(view(args.y, args.n, shape), [i, j])
        largest = k.broadcast(k.fold("max", x, 1, True), shape=shape)
        k.store_view_tko(x + x - y - largest, view(args.out, args.n, shape), [i, j])
        k.store_view_tko(k.fold("sum", x + y, 1, True), view(args.sums, 1, (height, 1)), [i, j])
    return module.build()


def expected(x: Array, y: Array, width: int, padding: str) -> tuple[Array, Array]:
    n = x.shape[1]
    wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
    largest = wide_x.max(1, keepdims=True)
    if n < width and padding == "zero":
        largest = np.maximum(largest, 0)
    sums = (wide_x + wide_y).sum(1, keepdims=True)
    return 2 * wide_x - wide_y - largest, sums


@pytest.mark.skipif(sys.platform == "win32", reason="pages are protected by mprotect")
@pytest.mark.parametrize("padding", ["zero", MINUS_INFINITY])
@pytest.mark.parametrize("shape, height", [((1, 256), 3), ((4, 256), 7), ((2, 512), 4)], ids=str)
@pytest.mark.parametrize("element", ["f32", "f16", "bf16", "f64", "i32", "i8"])
def test_nothing_behind_the_end_of_a_row_is_touched(
    element: str, shape: tuple[int, int], height: int, padding: str
) -> None:
    if element.startswith("i") and padding == MINUS_INFINITY:
        padding = "zero"  # integers have no other
    program = Program(rows(element, shape, padding), options=LaunchOptions(threads=1))
    for columns, at_end in itertools.product(COLUMNS, (True, False)):
        rng, dtype = np.random.default_rng(columns), dtype_of(element)
        # Small enough for the sums of a row to be exact in each type, but for i8, where they wrap.
        x, y = (rng.integers(-1, 1, (height, columns)).astype(dtype) for _ in "xy")
        arrays = [
            Guarded(values, at_end=at_end)
            for values in (x, y, np.full_like(x, 7), np.full((height, 1), 7, dtype))
        ]
        grid = (-(-height // shape[0]), -(-columns // shape[1]))
        program.launch(None, grid, (*(each.array for each in arrays), height, columns))
        out, sums = expected(x, y, shape[1], padding)
        found = arrays[2].array.astype(np.float64)
        np.testing.assert_array_equal(found, out, err_msg=f"{columns} columns, {at_end}")
        found = arrays[3].array.astype(np.float64)
        if padding == "zero" or columns == shape[1]:
            wanted = sums.astype(np.int64).astype(np.int8) if element == "i8" else sums
            bound = 2**-8 if element == "bf16" else 0
            np.testing.assert_allclose(found, wanted, rtol=bound, err_msg=f"{columns} columns")
        else:
            assert (found == -np.inf).all(), columns


def test_it_is_told_and_only_where_rows_are_long() -> None:
    def remarks(shape: tuple[int, int]) -> list[str]:
        module = lower_to_tileaa(rows("f32", shape, "zero")).module
        return [each.message for each in compile_kernel(module, None, CompileOptions()).remarks]

    assert REMARK in remarks((1, 1024))
    lanes = cpu_target().vector_bits // 32
    assert REMARK not in remarks((2 * lanes, lanes))
