"""``longer-rows``: which reductions take the axes behind theirs as one, and that results stay the same bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.builder import Builder, ModuleBuilder, Value, ptr, tile
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import ReduceOp
from tilewright.numerics.arrays import dtype_of
from tilewright.passes import run_pipeline

LOWER = "lower-cuda-tile-to-tileaa"
PASSES = f"{LOWER},longer-rows"
_SIZE = 512
SHAPES: tuple[tuple[int, ...], ...] = (
    (2, 4, 2, 16, 2),
    (4, 16, 8),
    (16, 2, 16),
    (8, 1, 16, 4),
    (2, 2, 2, 2, 2, 16),
)


def _largest(b: Builder, a: Value, other: Value, i: Value, j: Value) -> tuple[Value, Value]:
    """The larger number, of equal ones that with the smaller index."""
    wins = (a > other) | ((a >= other) & (a <= other) & (i <= j))
    return b.select(wins, a, other), b.select(wins, i, j)


def _kernel(element: str, shape: tuple[int, ...], axes: tuple[int, ...], body: str) -> Any:
    """What a tile comes to along one axis after the other, which goes to the first elements of ``y``; of ``arg``, the indices."""
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr(element), "y": ptr(element)}) as k:

        def pointers(base: Value, count: int) -> Value:
            places = k.iota(type=tile((count,), "i32"))
            return k.offset(k.broadcast(k.reshape(base, shape=(1,)), shape=(count,)), places)

        found = k.reshape(k.load_ptr_tko(pointers(k.args.x, _SIZE))[0], shape=shape)
        index = k.reshape(k.iota(type=tile((_SIZE,), "i32")), shape=shape)
        for done, axis in enumerate(axes):
            if body == "arg":
                found, index = k.reduce([found, index], axis - done, [-1000, 1 << 30], _largest)
            else:
                found = {"sum": found.sum, "max": found.max}[body](axis=axis - done)
        result = index if body == "arg" else found
        count = _SIZE // int(np.prod([shape[axis] for axis in axes]))
        k.store_ptr_tko(pointers(k.args.y, count), k.reshape(result, shape=(count,)))
    return module.build()


def _rows(module: Any) -> list[tuple[int, ...]]:
    """The axes behind those of reductions."""
    return [
        T.dims_of(op.operands[0].type)[int_property(op, "axis") + 1 :]
        for op in module.walk()
        if isinstance(op, ReduceOp)
    ]


@pytest.mark.rotates(4)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    ("body", "element"),
    [("sum", "i32"), ("sum", "f32"), ("max", "f16"), ("max", "f32"), ("max", "i8"), ("arg", "i32")],
)
def test_results_stay_the_same(body: str, element: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).integers(-9, 9, _SIZE).astype(dtype_of(element))
    ways = [(axis,) for axis in range(len(shape))] + [tuple(range(0, len(shape), 2))]
    for axes in ways:
        kernel, results = _kernel(element, shape, axes, body), list[bytes]()
        for module in (kernel, run_pipeline(kernel, PASSES, verify_each=True)):
            for machine in ("reference", "cpu"):
                y = np.zeros(_SIZE, dtype_of(element))
                tilewright.run(module, "k", (1,), (x, y), machine=machine)
                results.append(y.tobytes())
        assert len({*results}) == 1, axes


@pytest.mark.parametrize(
    ("shape", "axis", "rows"),
    [
        ((2, 4, 2, 16, 2), 0, (4, 64)),
        ((2, 4, 2, 16, 2), 2, (32,)),
        ((2, 4, 2, 16, 2), 3, (2,)),
        ((2, 4, 2, 16, 2), 4, ()),
        ((16, 2, 16), 0, (2, 16)),
        ((4, 16, 8), 0, (128,)),
        ((8, 1, 16, 4), 0, (1, 64)),
        ((128, 1, 4), 0, (1, 4)),
        ((2, 2, 2, 2, 2, 16), 0, (2, 2, 2, 2, 16)),
    ],
    ids=str,
)
def test_rows_become_longer(shape: tuple[int, ...], axis: int, rows: tuple[int, ...]) -> None:
    kernel = _kernel("f32", shape, (axis,), "sum")
    assert _rows(run_pipeline(kernel, PASSES, verify_each=True)) == [rows]


def test_reductions_one_after_the_other_need_one_view() -> None:
    kernel = _kernel("f32", (2, 4, 2, 16, 2), (0, 2, 4), "max")
    module = run_pipeline(kernel, PASSES, verify_each=True)
    assert _rows(module) == [(4, 64), (32,), ()]
    shapes = [T.dims_of(op.operands[0].type) for op in module.walk() if op.name.endswith(".view")]
    assert (4, 2, 16, 2) not in shapes and (4, 16, 2) not in shapes
