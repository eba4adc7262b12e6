"""Tiles for later that the nest of a reduction writes to their buffers on its way."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright import LaunchOptions
from tilewright.builder import ModuleBuilder, ptr
from tilewright.cpu import Program
from tilewright.cpu.codegen.loops.on_the_way import FILLED
from tilewright.cpu.compile import CompileOptions, compile_kernel, kernels_of
from tilewright.cpu.prepare import prepared
from tilewright.dialects.nv_tileaa.ops.contraction import ReduceOp
from tilewright.lowering import lower_to_tileaa
from tilewright.numerics.arrays import dtype_of
from tilewright.passes.tileas.remarks import Remarks

#: How a kernel reads two tiles that it keeps, and whether the nest that does so comes by all elements of both, each at its place.
WAYS = {
    "to numbers": True,
    "along rows": True,
    "down columns": True,
    "one alone": False,
    "turned": False,
    "in another shape": False,
    "repeated": False,
}


@functools.cache
def _kernel(element: str, rows: int, width: int, way: str) -> Any:
    """``a = x w + x`` and ``c = (x - w) x``, what is added up of them, and what that makes of both."""
    module, shape = ModuleBuilder(), (rows, width)
    arrays: dict[str, Any] = dict.fromkeys(("x", "w", "out"), ptr(element))
    with module.entry("k", arrays | dict.fromkeys(("m", "n"), "i32")) as k:
        i, _, _ = k.get_tile_block_id()
        is_float = element[0] != "i"

        def add(b: Any, e: Any, total: Any) -> Any:
            return b.addf(e, total) if is_float else b.addi(e, total)

        def tiles(base: Any) -> Any:
            view = k.make_tensor_view(base, [k.args.m, k.args.n], [k.args.n, 1])
            return k.partition(view, tile=shape, padding="zero")

        def total(value: Any, dim: int) -> Any:
            return k.reduce(value, dim, 0.0 if is_float else 0, add)

        def spread(value: Any, dim: int) -> Any:
            kept = tuple(1 if axis == dim else extent for axis, extent in enumerate(shape))
            return k.broadcast_to(value.reshape(*kept), shape)

        x, _ = k.load_view_tko(tiles(k.args.x), [i, 0])
        w, _ = k.load_view_tko(tiles(k.args.w), [i, 0])
        a, c = x * w + x, (x - w) * x
        if way == "to numbers":
            row = [total(each.reshape(rows * width), 0) for each in (a, a * c)]
            first, second = (k.broadcast_to(each.reshape(1, 1), shape) for each in row)
        elif way == "down columns":
            first, second = (spread(total(each, 0), 0) for each in (a + c, a * c))
        elif way == "one alone":
            first, second = spread(total(a, 1), 1), spread(total(c, 0), 0)
        elif way == "turned":
            first = spread(total(a + k.permute(c, permutation=[1, 0]), 1), 1)
            second = spread(total(c, 1), 1)
        elif way == "in another shape":
            halves = (a * c).reshape(2 * rows, width // 2)
            first = k.broadcast_to(total(total(halves, 1), 0).reshape(1, 1), shape)
            second = spread(total(c + a, 1), 1)
        elif way == "repeated":
            whole = k.broadcast_to(a.reshape(1, rows, width), (2, rows, width))
            first, second = total(whole, 0), spread(total(c, 1), 1)
        else:
            first, second = (spread(total(each, 1), 1) for each in (a, a * c))
        k.store_view_tko(a * first - c * second, tiles(k.args.out), [i, 0])
    return module.build()


@pytest.mark.rotates(6)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", [(1, 256), (16, 16), (4, 128), (64, 64)])
@pytest.mark.parametrize("element", ["f32", "i32", "f64", "i16"])
def test_the_reference_machine_agrees(element: str, shape: tuple[int, int], way: str) -> None:
    rows, width = shape
    if way == "turned" and rows != width:
        shape = rows, width = 16, 16
    kernel = _kernel(element, *shape, way)
    program = Program(kernel, options=LaunchOptions(threads=1))
    for columns in {1, 9, width - 1, width}:
        m = rows + 1
        # Small numbers, of which all sums are exact in any order.
        x, w = np.random.default_rng(columns).integers(-1, 2, (2, m, columns))
        x, w = (each.astype(dtype_of(element)) for each in (x, w))
        results = []
        for launched in (tilewright.load(kernel, "reference"), program):
            results.append(np.full_like(x, 7))
            launched.launch("k", 2, (x, w, results[-1], m, columns))
        np.testing.assert_array_equal(*results, err_msg=str(columns))


@pytest.mark.parametrize(("way", "both"), WAYS.items())
def test_a_nest_fills_what_it_comes_by(way: str, both: bool) -> None:
    shape = {"turned": (16, 16), "to numbers": (1, 256)}.get(way, (4, 128))
    tileaa = lower_to_tileaa(_kernel("f32", *shape, way)).module
    remarks = compile_kernel(tileaa, "k", CompileOptions()).remarks
    assert (FILLED.format(2) in [remark.message for remark in remarks]) is both


def test_sums_meet_once_others_are_views() -> None:
    """``merge-reductions`` finds two of them only when ``single-reductions`` has made views of those of one element."""
    module = ModuleBuilder()
    with module.entry("k", dict.fromkeys(("x", "out"), ptr("f32"))) as k:
        view = k.partition(k.make_tensor_view(k.args.x, [1, 256], [256, 1]), tile=(1, 256))
        to = k.partition(k.make_tensor_view(k.args.out, [1, 256], [256, 1]), tile=(1, 256))
        x, _ = k.load_view_tko(view, [0, 0])

        def total(value: Any) -> Any:
            row = k.reduce(value, 0, 0.0, lambda b, e, before: b.addf(e, before))
            return k.reduce(row, 0, 0.0, lambda b, e, before: b.addf(e, before))

        first, second = total(x), total(x * x)
        k.store_view_tko(x * first - second, to, [0, 0])
    (function,) = kernels_of(lower_to_tileaa(module.build()).module).values()
    found = [op for op in prepared(function, Remarks()).walk() if isinstance(op, ReduceOp)]
    assert len(found) == 1
