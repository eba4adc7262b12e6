"""Reductions of rows of two to four elements, several of which lie in one vector: windows of an image, channels
of a pixel, at the edges of views too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.builder import Builder, ModuleBuilder, Value, ptr
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.lowering import lower_to_tileaa
from tilewright.numerics.arrays import dtype_of

ELEMENTS = ("f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64")
ROWS, COLUMNS = 4, 16


def _largest(k: Builder, value: Value, axis: int, element: str) -> Value:
    if element.startswith("i"):
        lowest = -(1 << (int(element[1:]) - 1))
        return k.reduce(
            value, axis, [lowest], lambda b, e, top: b.maxi(e, top, signedness="signed")
        )
    return k.reduce(value, axis, [float("-inf")], lambda b, e, top: b.maxf(e, top))


def _sum(k: Builder, value: Value, axis: int, element: str) -> Value:
    add = (
        (lambda b, e, t: b.addi(e, t))
        if element.startswith("i")
        else (lambda b, e, t: b.addf(e, t))
    )
    return k.reduce(value, axis, [0 if element.startswith("i") else 0.0], add)


def _difference(k: Builder, value: Value, axis: int, element: str) -> Value:
    """The order of the elements matters."""
    if element.startswith("i"):
        return k.reduce(value, axis, [0], lambda b, e, t: b.subi(e, b.addi(t, t)))
    return k.reduce(value, axis, [0.0], lambda b, e, t: b.subf(e, b.addf(t, t)))


def _module(combine: Any, element: str, by: int, stride: int) -> Any:
    """``out[i, j]``: windows of ``by`` times ``by`` elements of ``x``, whose elements lie ``stride`` apart."""
    module = ModuleBuilder()
    parameters = {"x": ptr(element), "out": ptr(element)} | dict.fromkeys("nm", "i32")
    with module.entry("windows", parameters) as k:
        args = k.args
        row, column, _ = k.get_tile_block_id()
        width = k.muli(args.m, k.constant(stride, "i32"))
        view = k.make_tensor_view(args.x, shape=[args.n, args.m], strides=[width, stride])
        tiles = k.partition(view, tile=(ROWS * by, COLUMNS * by), padding="zero")
        held, _ = k.load_view_tko(tiles, [row, column])
        held = k.reshape(held, shape=(ROWS, by, COLUMNS, by))
        found = combine(k, combine(k, held, 3, element), 1, element)
        size = k.constant(by, "i32")
        rows, columns = (
            k.divi(extent, size, rounding="positive_inf", signedness="signed")
            for extent in (args.n, args.m)
        )
        out = k.make_tensor_view(args.out, shape=[rows, columns], strides=[columns, 1])
        k.store_view_tko(found, k.partition(out, tile=(ROWS, COLUMNS)), [row, column])
    return module.build()


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("by", [2, 4])
@pytest.mark.parametrize("combine", [_largest, _sum, _difference])
@pytest.mark.parametrize("element", ELEMENTS)
def test_windows(element: str, combine: Any, by: int, stride: int):
    """Whole tiles, and tiles that reach over the edges."""
    module = _module(combine, element, by, stride)
    for n, m in ((2 * ROWS * by, 3 * COLUMNS * by), (ROWS * by + 3, 2 * COLUMNS * by - 5)):
        rng = np.random.default_rng(n)
        x = rng.integers(-9, 10, (n, m * stride)).astype(dtype_of(element))
        if combine is _largest and element.startswith("f"):
            x[rng.random(x.shape) < 0.2] = np.nan
        shape = -(-n // by), -(-m // by)
        found: list[Any] = []
        for machine in ("reference", "cpu"):
            out = np.zeros(shape, dtype_of(element))
            grid = -(-shape[0] // ROWS), -(-shape[1] // COLUMNS)
            tilewright.run(module, "windows", grid, (x, out, n, m), machine=machine)
            found.append(out.astype(np.float64))
        np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("element", ["f32", "i8"])
def test_rows_are_taken_apart_in_registers(element: str):
    """Not one after the other: then the inner reduction would store single elements."""
    module = lower_to_tileaa(_module(_largest, element, 2, 1)).module
    text = compile_kernel(module, None, CompileOptions(cpu="x86-64-v4")).llvm_ir
    register = {"f32": "float", "i8": "i8"}[element]
    assert f"store <16 x {register}>" in text
    assert f"store {register} " not in text
