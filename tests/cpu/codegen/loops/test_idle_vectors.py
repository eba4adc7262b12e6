"""Vectors behind the end of a ragged row, where what is read is known to be masked off."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.support import Guarded

import tilewright
from tilewright import LaunchOptions
from tilewright.builder import ModuleBuilder, Value, ptr
from tilewright.cpu import Program
from tilewright.numerics.arrays import dtype_of

PADDING, TABLE = 3, 11


@functools.cache
def _kernel(element: str, shape: tuple[int, int], way: str) -> Any:
    """``total[row, lane] += values[at] * table[numbers[at]]`` of a ragged row, a tile after the other; what is off is read as
    element 3 of the table. The elements of a row stand ``apart``, and it may begin within a tile."""
    module, (rows, width) = ModuleBuilder(), shape
    arrays: dict[str, Any] = {"starts": ptr("i32"), "numbers": ptr("i32")}
    arrays |= dict.fromkeys(("values", "table", "out"), ptr(element))
    with module.entry("k", arrays | {"n": "i32"}) as k:
        block, _, _ = k.get_tile_block_id()
        lane = k.iota(shape=(width,), to="i32").reshape(1, width)
        line = k.iota(shape=(rows,), to="i32").reshape(rows, 1)

        def behind(base: Value, places: Value) -> Value:
            return k.offset(k.broadcast_to(k.reshape(base, shape=(1, 1)), places.type.dims), places)

        first, _ = k.load_ptr_tko(k.offset(k.args.starts, block))
        last, _ = k.load_ptr_tko(k.offset(k.args.starts, block + 1))
        begin = first - first % width if way == "from within" else first
        zero = k.constant(0, element).broadcast_to(shape)

        def each(_: Any, step: Value, total: Value) -> Any:
            at = begin + step * width + lane
            on = at < last
            if way == "from within":
                on = on & (at >= first)
            at, on = k.broadcast_to(at, shape), k.broadcast_to(on, shape)
            if rows > 1:
                on = on & (k.broadcast_to(line, shape) < k.args.n)
            numbers, _ = k.load_ptr_tko(behind(k.args.numbers, at), on, PADDING)
            values, _ = k.load_ptr_tko(behind(k.args.values, at), on, 2)
            held, _ = k.load_ptr_tko(behind(k.args.table, numbers), numbers < TABLE, 0)
            return [total + values * (held + k.broadcast_to(line, shape).to(element))]

        steps = (last - begin + (width - 1)) // width
        total = k.for_(0, steps, 1, [zero], each)[0]
        to = (block * rows + line) * width + lane
        k.store_ptr_tko(behind(k.args.out, k.broadcast_to(to, shape)), total)
    return module.build()


@pytest.mark.rotates(3)
@pytest.mark.parametrize("way", ["from its start", "from within"])
@pytest.mark.parametrize("shape", [(1, 32), (1, 128), (4, 64)])
@pytest.mark.parametrize("element", ["f32", "i32", "f64", "i16"])
def test_the_reference_machine_agrees(element: str, shape: tuple[int, int], way: str) -> None:
    kernel = _kernel(element, shape, way)
    program = Program(kernel, options=LaunchOptions(threads=1))
    lengths = [0, 1, 7, 8, 9, 31, 32, 33, 64, 65, 100, 127, 128, 129, 200, 256, 300]
    starts = np.cumsum([5, *lengths]).astype(np.int32)
    rng = np.random.default_rng(1)
    values = rng.integers(-9, 9, starts[-1]).astype(dtype_of(element))
    numbers = rng.integers(0, TABLE, starts[-1]).astype(np.int32)
    table = rng.integers(-9, 9, TABLE).astype(dtype_of(element))
    if element[0] == "f":
        table[PADDING] = np.inf  # so that what is off shows
    for n in (shape[0], shape[0] - 1):
        found = []
        for launched in (tilewright.load(kernel, "reference"), program):
            out = np.full((len(lengths), *shape), 7, dtype_of(element))
            given = [Guarded(each, at_end=True) for each in (starts, numbers, values, table)]
            launched.launch("k", len(lengths), (*(each.array for each in given), out, n))
            found.append(out)
        np.testing.assert_array_equal(*found)
