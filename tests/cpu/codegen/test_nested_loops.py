"""Loops in loops that go on with one tile: the same results as on the reference machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.builder import Builder, ModuleBuilder, Value, ptr, tile

ROWS, WIDTH = 8, 32
_TILE = tile((ROWS, WIDTH), "f32")
Rows = list[Value]
Body = Callable[[Builder, Value, "_Given", Rows], Rows]


class _Given:
    """The tile of ``x``, rounds for each depth, and a store to ``y`` by the number of the block."""

    def __init__(self, k: Builder) -> None:
        self.k = k
        self.zero, self.one = k.constant(0, "i32"), k.constant(1, "i32")
        self.rounds = [k.args.n, k.args.m]
        self.out = self._tiles(k.args.y, ROWS * 4)
        self.x, _ = k.load_view_tko(self._tiles(k.args.x, ROWS), [self.zero, self.zero])
        self.block, _, _ = k.get_tile_block_id()

    def _tiles(self, base: Value, rows: int) -> Value:
        view = self.k.make_tensor_view(base, shape=[rows, WIDTH], strides=[WIDTH, 1])
        return self.k.partition(view, tile=(ROWS, WIDTH))

    def store(self, value: Value, at: int = 0) -> None:
        self.k.store_view_tko(value, self.out, [self.k.constant(at, "i32"), self.zero])

    def loop(self, depth: int, first: Rows, body: Callable[[Builder, Value, Rows], Rows]) -> Rows:
        def inner(k: Builder, i: Value, *rows: Value) -> Rows:
            return body(k, i, list(rows))

        return list(self.k.for_(self.zero, self.rounds[depth], self.one, first, inner))


def _step(k: Builder, i: Value, g: _Given, row: Value) -> Value:
    by = k.broadcast(
        k.reshape(k.itof(i, signedness="signed", to="f32"), shape=(1, 1)), shape=(ROWS, WIDTH)
    )
    return k.addf(k.mulf(row, 0.5), k.mulf(g.x, by))


def _plain(g: _Given) -> None:
    def outer(k: Builder, i: Value, rows: Rows) -> Rows:
        return g.loop(1, rows, lambda k, j, rows: [_step(k, j, g, rows[0])])

    g.store(g.loop(0, [g.x], outer)[0])


def _read_before(g: _Given) -> None:
    """What the outer loop was handed is stored first, and its end is changed behind the inner loop."""

    def outer(k: Builder, i: Value, rows: Rows) -> Rows:
        g.store(rows[0], 1)
        (row,) = g.loop(1, rows, lambda k, j, rows: [_step(k, j, g, rows[0])])
        g.store(row, 2)
        return [row]

    g.store(g.loop(0, [g.x], outer)[0])


def _read_behind(g: _Given) -> None:
    def outer(k: Builder, i: Value, rows: Rows) -> Rows:
        (row,) = g.loop(1, rows, lambda k, j, inner: [k.addf(_step(k, j, g, inner[0]), rows[0])])
        g.store(k.subf(row, rows[0]), 1)
        return [row]

    g.store(g.loop(0, [g.x], outer)[0])


def _places_change(g: _Given) -> None:
    def outer(k: Builder, i: Value, rows: Rows) -> Rows:
        one, other = g.loop(1, rows, lambda k, j, rows: [rows[1], _step(k, j, g, rows[0])])
        return [other, one]

    for at, row in enumerate(g.loop(0, [g.x, g.k.negf(g.x)], outer)):
        g.store(row, at)


def _one_begins_twice(g: _Given) -> None:
    def outer(k: Builder, i: Value, rows: Rows) -> Rows:
        begin = [rows[0], rows[0]]
        return g.loop(1, begin, lambda k, j, rows: [k.negf(rows[0]), _step(k, j, g, rows[1])])

    for at, row in enumerate(g.loop(0, [g.x, g.x], outer)):
        g.store(row, at)


def _one_goes_to_two(g: _Given) -> None:
    def outer(k: Builder, i: Value, rows: Rows) -> Rows:
        (row,) = g.loop(1, rows[:1], lambda k, j, rows: [_step(k, j, g, rows[0])])
        return [row, row]

    for at, row in enumerate(g.loop(0, [g.x, g.x], outer)):
        g.store(row, at)


def _products(g: _Given) -> None:
    def inner(k: Builder, j: Value, rows: Rows) -> Rows:
        square = k.permute(g.x, permutation=(1, 0))
        small = k.mmaf(g.x, square, k.constant(0.0, tile((ROWS, ROWS), "f32")))
        return [k.mmaf(small, g.x, rows[0])]

    g.store(g.loop(0, [g.x], lambda k, i, rows: g.loop(1, rows, inner))[0])


KERNELS = {
    function.__name__.removeprefix("_"): function
    for function in (
        _plain,
        _read_before,
        _read_behind,
        _places_change,
        _one_begins_twice,
        _one_goes_to_two,
        _products,
    )
}


@pytest.mark.parametrize("rounds", [(0, 3), (1, 0), (3, 1), (4, 5)], ids=str)
@pytest.mark.parametrize("make", KERNELS.values(), ids=KERNELS)
def test_results(make: Any, rounds: tuple[int, int]):
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("f32"), "y": ptr("f32"), "n": "i32", "m": "i32"}) as k:
        make(_Given(k))
    built = module.build()
    # Whole numbers and halves of them, which no order of sums rounds.
    x = np.random.default_rng(1).integers(-1, 2, (ROWS, WIDTH)).astype(np.float32)
    found: list[Any] = []
    for machine in ("reference", "cpu"):
        y = np.full((4 * ROWS, WIDTH), np.nan, np.float32)
        tilewright.run(built, "k", (1,), (x, y, *rounds), machine=machine)
        found.append(y)
    np.testing.assert_array_equal(*found)
