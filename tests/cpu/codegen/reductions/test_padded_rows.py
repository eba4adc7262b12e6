"""Rows rounded up to a power of two: reductions end in the padding that buffers hold, and buffers are filled all the same."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright import LaunchOptions
from tilewright.builder import ModuleBuilder, ptr
from tilewright.cpu import Program
from tilewright.cpu.codegen.loops.row_ends import PADDING_REMARK
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.lowering import lower_to_tileaa
from tilewright.numerics.arrays import dtype_of

WIDTH = 256


@functools.cache
def _kernel(element: str, rows: int, padding: str, kind: str) -> Any:
    """Of a tile that is read several times, and so held in a buffer: per row a reduction, what that makes of the tile, and further
    reductions of both, along rows and, padding included, along columns."""
    module = ModuleBuilder()
    shape = (rows, WIDTH)
    arrays: dict[str, Any] = dict.fromkeys(("x", "out", "of_rows", "of_columns"), ptr(element))
    with module.entry("k", arrays | dict.fromkeys(("m", "n"), "i32")) as k:
        i, _, _ = k.get_tile_block_id()
        is_float = element[0] != "i"
        least = float("-inf") if is_float else -1000

        def add(b: Any, e: Any, total: Any) -> Any:
            return b.addf(e, total) if is_float else b.addi(e, total)

        def top(b: Any, e: Any, most: Any) -> Any:
            return b.maxf(e, most) if is_float else b.maxi(e, most, signedness="signed")

        def tiles(base: Any) -> Any:
            view = k.make_tensor_view(base, [k.args.m, k.args.n], [k.args.n, 1])
            return k.partition(view, tile=shape, padding=padding)

        def reduced(value: Any, dim: int, body: Any = add, identity: float = 0) -> Any:
            found = k.reduce(value, dim, float(identity) if is_float else identity, body)
            kept = tuple(1 if axis == dim else extent for axis, extent in enumerate(shape))
            return k.broadcast_to(found.reshape(*kept), shape)

        x, _ = k.load_view_tko(tiles(k.args.x), [i, 0])
        first = reduced(x, 1) if kind == "sums" else reduced(x, 1, top, least)
        apart = x - first
        k.store_view_tko(apart + x, tiles(k.args.out), [i, 0])
        squares = apart * apart
        k.store_view_tko(reduced(squares, 1) + x, tiles(k.args.of_rows), [i, 0])
        k.store_view_tko(reduced(apart, 0) + reduced(squares, 0), tiles(k.args.of_columns), [i, 0])
    return module.build()


@pytest.mark.rotates(6)
@pytest.mark.parametrize("kind", ["sums", "largest"])
@pytest.mark.parametrize("padding", ["zero", "neg_zero", "neg_inf"])
@pytest.mark.parametrize("rows", [1, 2, 8])
@pytest.mark.parametrize("element", ["f32", "i32", "f64", "f16"])
def test_the_reference_machine_agrees(element: str, rows: int, padding: str, kind: str) -> None:
    if element == "i32" and padding != "zero":
        pytest.skip("integers have one zero, and no infinity")
    kernel = _kernel(element, rows, padding, kind)
    program = Program(kernel, options=LaunchOptions(threads=1))
    for columns in (1, 7, 8, 31, 32, 33, 64, 100, 128, 129, 200, 224, 225, 255, 256):
        m = rows + 1
        # Small numbers, of which all sums are exact in any order.
        x = np.random.default_rng(columns).integers(-1, 2, (m, columns)).astype(dtype_of(element))
        if element == "f16":
            x[:, 1:] = 0
        results = []
        for launched in (tilewright.load(kernel, "reference"), program):
            found = [np.full_like(x, 7) for _ in range(3)]
            launched.launch("k", -(-m // rows), (x, *found, m, columns))
            results.append(found)
        for one, other in zip(*results, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=str(columns))


def test_it_is_told() -> None:
    tileaa = lower_to_tileaa(_kernel("f32", 2, "zero", "sums")).module
    remarks = compile_kernel(tileaa, "k", CompileOptions()).remarks
    assert PADDING_REMARK in [remark.message for remark in remarks]
