"""Vectors of short numbers at the edges of pictures: without checks but for the elements that reach a limit, which shorter vectors see to."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.support import Guarded
from tests.cpu.levels import levels

from tilewright import LaunchOptions
from tilewright.builder import Builder, ModuleBuilder, Value, ptr
from tilewright.cpu import Program
from tilewright.machine import Program as Reference
from tilewright.numerics.arrays import dtype_of

HIGH = 4


def _clamped(k: Builder, at: Value, n: Value) -> Value:
    return k.mini(k.maxi(at, 0, signedness="signed"), n - 1, signedness="signed")


def _mirrored(k: Builder, at: Value, n: Value) -> Value:
    at = k.select(at < 0, 0 - at, at)
    return k.select(at >= n, n * 2 - 2 - at, at)


def _around(k: Builder, at: Value, n: Value) -> Value:
    at = k.select(at < 0, at + n, at)
    return k.select(at >= n, at - n, at)


EDGES: dict[str, Callable[[Builder, Value, Value], Value]] = {
    "clamped": _clamped,
    "mirrored": _mirrored,
    "around": _around,
}
TAPS = ((-1, -2), (-1, 0), (0, -1), (0, 3), (1, 1))


@functools.cache
def _kernel(element: str, wide: int, edge: str, own: bool) -> Any:
    """A weighted sum of neighbours. ``own``: added to the element that is already there."""
    module, dims = ModuleBuilder(), (HIGH, wide)
    arguments = {"x": ptr(element), "y": ptr(element), "rows": "i32", "columns": "i32"}
    with module.entry("k", arguments) as k:
        block, beside, _ = k.get_tile_block_id()
        rows, columns = (
            k.broadcast(k.reshape(n, shape=(1, 1)), shape=dims)
            for n in (k.args.rows, k.args.columns)
        )
        i = k.broadcast(k.reshape(block * HIGH + k.arange(HIGH), shape=(HIGH, 1)), shape=dims)
        j = k.broadcast(k.reshape(beside * wide + k.arange(wide), shape=(1, wide)), shape=dims)
        on = (i < rows) & (j < columns)

        def behind(base: Value, row: Value, column: Value) -> Value:
            spread = k.broadcast(k.reshape(base, shape=(1, 1)), shape=dims)
            return k.offset(spread, row * columns + column)

        total = None
        if own:
            total, _ = k.load_ptr_tko(behind(k.args.y, i, j), on, 0)
        for number, (down, right) in enumerate(TAPS):
            row, column = (
                EDGES[edge](k, at, n) for at, n in ((i + down, rows), (j + right, columns))
            )
            held, _ = k.load_ptr_tko(behind(k.args.x, row, column), on, 0)
            held = held * (number + 1)
            total = held if total is None else total + held
        k.store_ptr_tko(behind(k.args.y, i, j), total, on)
    return module.build()


@pytest.mark.rotates(4)
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("wide", [32, 64, 128, 256])
@pytest.mark.parametrize("element", ["i8", "i16", "f16", "f32"])
@pytest.mark.parametrize("cpu", levels("x86-64-v3", "x86-64-v4"))
def test_edges_of_pictures(cpu: str, element: str, wide: int, edge: str, own: bool) -> None:
    kernel, dtype = _kernel(element, wide, edge, own), dtype_of(element)
    program = Program(kernel, options=LaunchOptions(threads=1, cpu=cpu))
    reference = Reference(kernel)
    for shape in ((3, 4), (9, 37), (5, 64), (8, 65), (6, 129), (4, 300)):
        rng = np.random.default_rng(shape[1])
        x, y = (rng.integers(-4, 4, shape).astype(dtype) for _ in range(2))
        grid = (-(-shape[0] // HIGH), -(-shape[1] // wide))
        expected = y.copy()
        reference.launch("k", grid, (x, expected, *shape))
        for at_end in (False, True):
            given, own_y = Guarded(x, at_end=at_end), Guarded(y.copy(), at_end=at_end)
            program.launch("k", grid, (given.array, own_y.array, *shape))
            np.testing.assert_array_equal(own_y.array, expected)
