"""Rows that numbers from memory choose: the part of each that reaches no end and no limit goes without checks."""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.loops.test_row_parts import FORMULAS
from tests.cpu.codegen.support import Guarded

import tilewright
from tilewright import LaunchOptions
from tilewright.builder import ModuleBuilder, Value, ptr
from tilewright.cpu import Program
from tilewright.cpu.codegen.loops.single_rows import REMARK
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.cpu.target import cpu_target
from tilewright.lowering import lower_to_tileaa
from tilewright.numerics.arrays import dtype_of


@functools.cache
def _rows(element: str, shape: tuple[int, int], names: tuple[str, ...], *, scatters: bool) -> Any:
    """``out = x[ids] at the first formula + 2 x[ids - 1] at the second + ...`` for tiles of rows; with ``scatters``
    ``out[ids]``."""
    module = ModuleBuilder()
    height, width = shape
    arrays = dict.fromkeys(("x", "out"), ptr(element)) | {"ids": ptr("i32")}
    with module.entry("rows", arrays | dict.fromkeys(("m", "n", "count"), "i32")) as k:
        m, n = k.args.m, k.args.n
        i, j, _ = k.get_tile_block_id()
        place = i * height + k.arange(height)
        there = k.broadcast_to(k.args.ids.reshape(1), (height,)) + place
        ids, _ = k.load_ptr_tko(there, place < k.args.count, k.full((height,), -1, "i32"))
        row, chosen = place.reshape(height, 1), ids.reshape(height, 1)
        column = (j * width + k.arange(width)).reshape(1, width)

        def places(base: Value, row: Value, column: Value, columns: Value) -> Value:
            return k.broadcast_to(base.reshape(1, 1), shape) + (row * columns + column)

        total = k.zeros(shape, element)
        for number, name in enumerate(names, 1):
            at, of = FORMULAS[name](k, column, n), chosen - (number - 1)
            on = (of >= 0) & (of < m) & (at >= 0) & (at < n * 2)
            found, _ = k.load_ptr_tko(
                places(k.args.x, of, at, n * 2), on, k.full(shape, 3, element)
            )
            for _ in range(number):
                total = total - found
        to = chosen if scatters else row
        inside = (column < n) & ((to >= 0) & (to < m) if scatters else row < k.args.count)
        k.store_ptr_tko(places(k.args.out, to, column, n), total, inside)
    return module.build()


ALONE = [(name,) for name in FORMULAS]
TOGETHER = [
    ("the one before, limited", "the same", "the next one, around"),
    ("descending", "twenty behind, limited", "two apart"),
]


@pytest.mark.rotates(12)
@pytest.mark.skipif(sys.platform == "win32", reason="pages are protected by mprotect")
@pytest.mark.parametrize("scatters", [False, True])
@pytest.mark.parametrize("names", [*ALONE, *TOGETHER], ids=" and ".join)
@pytest.mark.parametrize("shape, count", [((1, 64), 3), ((4, 128), 7)], ids=str)
@pytest.mark.parametrize("element", ["f32", "bf16", "i8"])
def test_the_reference_machine_agrees_and_nothing_behind_an_end_is_touched(
    element: str, shape: tuple[int, int], count: int, names: tuple[str, ...], *, scatters: bool
) -> None:
    kernel, dtype = _rows(element, shape, names, scatters=scatters), dtype_of(element)
    programs = [
        Program(kernel, options=LaunchOptions(threads=1, checked=checked))
        for checked in (False, True)
    ]
    height = 9
    for columns in (1, 28, 64, 65, 130):
        rng = np.random.default_rng(columns)
        ids = rng.permutation(np.arange(-1, height + 1))[:count].astype(np.int32)
        x = rng.integers(-9, 9, (height, 2 * columns)).astype(dtype)
        wanted = np.full((height if scatters else count, columns), 7, dtype)
        grid = (-(-count // shape[0]), -(-columns // shape[1]), 1)
        numbers = height, columns, count
        tilewright.run(kernel, "rows", grid, (x, wanted, ids, *numbers))
        for at_end, program in ((True, programs[0]), (False, programs[0]), (True, programs[1])):
            given = (x, np.full_like(wanted, 7), ids)
            arrays = [Guarded(each, at_end=at_end) for each in given]
            program.launch(None, grid, (*(each.array for each in arrays), *numbers))
            np.testing.assert_array_equal(arrays[1].array, wanted, err_msg=f"{columns} columns")


def test_accesses_through_the_same_pointers_have_masks_of_their_own() -> None:
    module, shape = ModuleBuilder(), (2, 64)
    arrays = dict.fromkeys(("x", "out", "ids", "lengths"), ptr("i32"))
    with module.entry("k", arrays | {"n": "i32"}) as k:
        row = k.arange(2)

        def numbers(base: Value) -> Value:
            return k.load_ptr_tko(k.broadcast_to(base.reshape(1), (2,)) + row)[0].reshape(2, 1)

        ids, lengths = numbers(k.args.ids), numbers(k.args.lengths)
        column = k.arange(64).reshape(1, 64)

        def places(base: Value) -> Value:
            return k.broadcast_to(base.reshape(1, 1), shape) + (ids * k.args.n + column)

        at, other = places(k.args.x), k.full(shape, 5, "i32")
        found, _ = k.load_ptr_tko(at, k.broadcast_to(column < lengths, shape), other)
        again, _ = k.load_ptr_tko(at, k.broadcast_to(column < k.args.n, shape), other)
        to = k.broadcast_to(column < k.args.n, shape)
        k.store_ptr_tko(places(k.args.out), found * 10 + again, to)
    kernel, x = module.build(), np.arange(1, 64 * 9 + 1, dtype=np.int32).reshape(9, 64)
    program = Program(kernel, options=LaunchOptions(threads=1))
    for lengths in ((0, 64), (13, 40), (80, -3), (32, 33)):
        rows = np.array([7, 2], np.int32), np.array(lengths, np.int32)
        found, wanted = np.zeros_like(x), np.zeros_like(x)
        tilewright.run(kernel, "k", (1, 1, 1), (x, wanted, *rows, 64))
        program.launch(None, 1, (x, found, *rows, 64))
        np.testing.assert_array_equal(found, wanted, err_msg=str(lengths))


def _remarks(names: tuple[str, ...], shape: tuple[int, int], cpu: str) -> list[str]:
    module = lower_to_tileaa(_rows("f32", shape, names, scatters=False)).module
    return [each.message for each in compile_kernel(module, None, CompileOptions(cpu=cpu)).remarks]


@pytest.mark.skipif(
    not cpu_target().is_x86, reason="it asks of levels of x86, for which no code is made here"
)
def test_it_is_told_where_rows_are_long() -> None:
    for cpu in ("x86-64-v3", "x86-64-v4"):
        assert REMARK in _remarks(("the same",), (1, 128), cpu)
    assert REMARK not in _remarks(("the same",), (8, 16), "x86-64-v3")
