"""``unroll-loops``: which loops are written out, and that results stay the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.scf import ForOp

import tilewright
from tilewright.builder import Builder, ModuleBuilder, Value, ptr, tile
from tilewright.passes import run_pipeline

ROWS, WIDTH = 16, 32
_ROW = tile((1, WIDTH), "f32")


class _Given:
    """What a kernel works with: rows of ``x``, and a row of ``y``."""

    def __init__(self, k: Builder) -> None:
        self.k = k
        view = k.make_tensor_view(k.args.x, shape=[ROWS, WIDTH], strides=[WIDTH, 1])
        self.rows = k.partition(view, tile=(1, WIDTH))
        out = k.make_tensor_view(k.args.y, shape=[ROWS, WIDTH], strides=[WIDTH, 1])
        self.out = k.partition(out, tile=(1, WIDTH))
        self.zero = self.number(0)

    def number(self, value: int) -> Value:
        return self.k.constant(value, "i32")

    def row(self, number: Value) -> Value:
        found, _ = self.k.load_view_tko(self.rows, [number, self.zero])
        return found

    def store(self, value: Value, row: Value) -> None:
        self.k.store_view_tko(value, self.out, [row, self.zero])

    def loop(
        self,
        bounds: tuple[int | Value, int | Value, int],
        body: Callable[[Value, Value], Value],
        first: Value | None = None,
    ) -> Value:
        """A loop that hands a row on; ``body(i, row)`` gives the next one."""
        lower, upper, step = (b if isinstance(b, Value) else self.number(b) for b in bounds)
        begin = self.k.constant(0.5, _ROW) if first is None else first
        (total,) = self.k.for_(lower, upper, step, [begin], lambda k, i, row: [body(i, row)])
        return total


def _taps(g: _Given) -> None:
    total = g.loop((0, 8, 1), lambda i, row: g.k.fma(g.row(i), g.row(i), row))
    g.store(total, g.zero)


def _steps(g: _Given) -> None:
    g.store(g.loop((-1, 11, 3), lambda i, row: g.k.subf(row, g.row(g.k.absi(i)))), g.zero)


def _window(g: _Given) -> None:
    def columns(i: Value, row: Value) -> Value:
        return g.loop((0, 3, 1), lambda j, best: g.k.maxf(best, g.row(g.k.addi(i, j))), row)

    g.store(g.loop((0, 3, 1), columns), g.zero)


def _inside_of_a_long_one(g: _Given) -> None:
    def taps(i: Value, row: Value) -> Value:
        return g.loop((0, 6, 1), lambda j, total: g.k.addf(total, g.row(g.k.addi(i, j))), row)

    g.store(g.loop((0, 10, 1), taps), g.zero)


def _used_in_turn(g: _Given) -> None:
    """Two tiles that change places in each iteration."""
    k = g.k
    begin = [k.constant(0.0, _ROW), k.constant(1.0, _ROW)]

    def body(k: Builder, i: Value, one: Value, other: Value) -> list[Value]:
        return [other, k.addf(one, g.row(i))]

    one, other = k.for_(g.zero, g.number(3), g.number(1), begin, body)
    g.store(one, g.zero)
    g.store(other, g.number(1))


def _rounds(count: int, deep: int = 1) -> Callable[[_Given], None]:
    """So many iterations, with so many operations in each that wait for one another."""

    def make(g: _Given) -> None:
        def body(i: Value, row: Value) -> Value:
            for _ in range(deep):
                row = g.k.addf(row, g.row(g.zero))
            return row

        g.store(g.loop((0, count, 1), body), g.zero)

    return make


def _no_round(g: _Given) -> None:
    g.store(g.loop((3, 3, 1), lambda i, row: g.k.addf(row, g.row(i))), g.zero)


def _unknown_rounds(g: _Given) -> None:
    block, _, _ = g.k.get_tile_block_id()
    g.store(g.loop((0, block, 1), lambda i, row: g.k.addf(row, g.row(i))), block)


def _stores(g: _Given) -> None:
    def body(i: Value, row: Value) -> Value:
        g.store(row, i)
        return g.k.addf(row, g.row(i))

    g.loop((0, 3, 1), body)


def _sums(g: _Given) -> None:
    def body(i: Value, row: Value) -> Value:
        total = g.k.reduce(g.row(i), 1, [0.0], lambda b, element, sum_: b.addf(element, sum_))
        column = g.k.reshape(total, shape=(1, 1))
        return g.k.addf(row, g.k.broadcast(column, shape=(1, WIDTH)))

    g.store(g.loop((0, 3, 1), body), g.zero)


def _numbers_only(g: _Given) -> None:
    k = g.k
    body = lambda k, i, total: [k.addi(total, i)]  # noqa: E731
    (total,) = k.for_(g.zero, g.number(4), g.number(1), [g.zero], body)
    g.store(g.row(total), g.zero)


def _one_element(g: _Given) -> None:
    k = g.k
    begin = [k.constant(0.5, tile((1, 1), "f32"))]
    body = lambda k, i, total: [k.addf(total, total)]  # noqa: E731
    (total,) = k.for_(g.zero, g.number(4), g.number(1), begin, body)
    g.store(k.broadcast(total, shape=(1, WIDTH)), g.zero)


#: How many loops are left of each kernel, of how many.
KERNELS = {
    "taps": (_taps, 1, 0),
    "a start below zero, and a step": (_steps, 1, 0),
    "a window": (_window, 2, 0),
    "inside of a long one": (_inside_of_a_long_one, 2, 1),
    "tiles that change places": (_used_in_turn, 1, 0),
    "many rounds": (_rounds(48), 1, 0),
    "too many rounds": (_rounds(49), 1, 1),
    "few rounds with a long chain": (_rounds(8, 7), 1, 0),
    "more rounds with one that is not too long": (_rounds(9, 5), 1, 0),
    "more rounds with a long chain": (_rounds(9, 6), 1, 1),
    "no round": (_no_round, 1, 1),
    "rounds that only show when the code runs": (_unknown_rounds, 1, 1),
    "stores": (_stores, 1, 1),
    "sums of rows": (_sums, 1, 1),
    "numbers only": (_numbers_only, 1, 1),
    "tiles of one element": (_one_element, 1, 1),
}


def _kernel(make: Any) -> Any:
    module = ModuleBuilder()
    with module.entry("k", dict.fromkeys("xy", ptr("f32"))) as k:
        make(_Given(k))
    return module.build()


def _lowered(make: Any, passes: str) -> Any:
    return run_pipeline(_kernel(make), f"lower-cuda-tile-to-tileaa{passes}", verify_each=True)


@pytest.mark.parametrize("make, before, after", KERNELS.values(), ids=KERNELS)
def test_which_loops(make: Any, before: int, after: int):
    counts = [
        sum(isinstance(op, ForOp) for op in _lowered(make, passes).walk())
        for passes in ("", ",unroll-loops")
    ]
    assert counts == [before, after]


@pytest.mark.parametrize("make", [make for make, _, _ in KERNELS.values()], ids=KERNELS)
def test_results_stay_the_same(make: Any):
    # Whole numbers: a sum of a row may be added up in any order.
    x = np.random.default_rng(0).integers(-8, 9, (ROWS, WIDTH)).astype(np.float32)
    results: list[bytes] = []
    for machine, passes in (("reference", ""), ("reference", ",unroll-loops"), ("cpu", "")):
        y = np.zeros((ROWS, WIDTH), np.float32)
        tilewright.run(_lowered(make, passes), "k", (3,), (x, y), machine=machine)
        results.append(y.tobytes())
    assert results[0] == results[1] == results[2]


def test_long_bodies_stay():
    def long(g: _Given) -> None:
        def body(i: Value, row: Value) -> Value:
            for _ in range(60):
                row = g.k.addf(row, g.row(i))
            return row

        g.store(g.loop((0, 8, 1), body), g.zero)

    assert sum(isinstance(op, ForOp) for op in _lowered(long, ",unroll-loops").walk()) == 1
