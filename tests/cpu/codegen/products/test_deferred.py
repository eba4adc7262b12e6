"""Products of a loop that are made for several rounds at once: which, and that sums stay what they are."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.products.test_products import exact, integers, launch, product
from tests.cpu.levels import levels

from tilewright import run
from tilewright.builder import Builder, ModuleBuilder, Value, ptr, tile
from tilewright.cpu.codegen.products import packed_operands
from tilewright.cpu.codegen.products.deferred import _MOST_ROUNDS_OF_TWO_AXES
from tilewright.cpu.codegen.products.factors import MOST_ROUNDS
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.lowering import lower_to_tileaa
from tilewright.numerics.arrays import dtype_of

DIMS = (32, 64, 16)
LEVELS = levels("host", "x86-64-v4", "x86-64-v3", "generic")


def _is_deferred(module: Any) -> bool:
    """Whether the code of a kernel has a product of several rounds."""
    compiled = compile_kernel(lower_to_tileaa(module).module, None, CompileOptions())
    return ".rounds" in compiled.llvm_ir


@pytest.mark.rotates(4)
@pytest.mark.parametrize("cpu", LEVELS)
@pytest.mark.parametrize("begin", [0, 3])
@pytest.mark.parametrize("element", ["f32", "f16", "bf16", "f64"])
def test_sums_of_all_numbers_of_rounds(element: str, begin: int, cpu: str):
    """Fewer rounds than are made at once, as many, more, and tiles that reach over all edges."""
    result = "f64" if element == "f64" else "f32"
    rng = np.random.default_rng(5)
    most = (MOST_ROUNDS, _MOST_ROUNDS_OF_TWO_AXES)
    behind = [16 * rounds + more for rounds in most for more in (0, 1, 16 * rounds + 90)]
    for k in (1, 16, 40, *behind):
        a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((70, k), (k, 100)))
        c = np.full((70, 100), np.nan, dtype_of(result))
        arrays = a.astype(dtype_of(element)), b.astype(dtype_of(element)), c
        launch(product(element, result, DIMS, begin=begin), DIMS, arrays, k, cpu=cpu)
        assert (c == a @ b + begin).all(), k


@pytest.mark.parametrize(
    "signs", list(itertools.product(("signed", "unsigned"), repeat=2)), ids=str
)
def test_sums_of_rows_of_all_rounds(signs: tuple[str, str]) -> None:
    """Where both factors have signs, or neither, sums of rows correct what the instruction makes of them."""
    rng = np.random.default_rng(8)
    for k in (16 * MOST_ROUNDS, 16 * MOST_ROUNDS + 5, 16 * 3 * MOST_ROUNDS + 90):
        a, b = (integers(rng, shape, k % 16 == 0) for shape in ((70, k), (k, 100)))
        c = np.full((70, 100), -7, np.int32)
        launch(product("i8", "i32", DIMS, begin=3, signs=signs), DIMS, (a, b, c), k)
        assert (c == exact(a, b, signs) + 3).all(), k


@pytest.mark.parametrize("by_columns", [False, True])
def test_more_rounds_than_there_are_slots(by_columns: bool):
    k = 16 * (packed_operands.MOST_SLOTS + 3)
    rng = np.random.default_rng(6)
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((64, k), (k, 96)))
    c = np.zeros((64, 96), np.float32)
    module = product("f32", "f32", DIMS, by_columns=by_columns)
    launch(module, DIMS, (a, b, c), k)
    assert (c == a @ b).all()


def test_order_of_sums():
    """They are added up as by products of single rounds: with fused multiply-adds from the first k on."""
    k = 16 * (MOST_ROUNDS + 5)
    rng = np.random.default_rng(7)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((32, k), (k, 64)))
    found = np.zeros((2, 32, 64), np.float32)
    for depth, c in zip((16, 512), found, strict=True):
        dims = (32, 64, depth)
        launch(product("f32", "f32", dims), dims, (a, b, c), k)
    assert (found[0] == found[1]).all()


def test_which_products_are_deferred():
    assert _is_deferred(product("f32", "f32", DIMS))
    assert _is_deferred(product("f16", "f32", DIMS, transposed=(False, True)))
    assert _is_deferred(product("f32", "f32", DIMS, finish=lambda k, total: k.mulf(total, 2.0)))
    assert not _is_deferred(product("f32", "f32", (16, 64, 16)))  # few rows
    assert not _is_deferred(product("f32", "f32", (32, 64, 512)))  # deep already
    assert _is_deferred(product("i8", "i32", DIMS))
    assert not _is_deferred(product("f16", "f16", DIMS))  # each round rounds its sum


def _running(read_sum: bool, write: bool) -> Any:
    """A sum of products whose rounds store it, or write to the left operand behind the product."""
    module = ModuleBuilder()
    with module.entry("running", dict.fromkeys("abc", ptr("f32"))) as k:
        zero, one = k.constant(0, "i32"), k.constant(1, "i32")

        def tiles(base: Value, dims: tuple[int, int], shape: tuple[int, int]) -> Value:
            view = k.make_tensor_view(base, shape=list(dims), strides=[dims[1], 1])
            return k.partition(view, tile=shape)

        left = tiles(k.args.a, (32, 64), (32, 16))
        right = tiles(k.args.b, (64, 32), (16, 32))
        sums = tiles(k.args.c, (32, 128), (32, 32))

        def body(inner: Builder, step: Value, total: Value, token: Value) -> tuple[Value, Value]:
            x, read = inner.load_view_tko(left, [zero, step], token=token)
            y, _ = inner.load_view_tko(right, [step, zero])
            total = inner.mmaf(x, y, total)
            if read_sum:
                read = inner.store_view_tko(total, sums, [zero, step], token=read)
            if write:
                nothing = inner.constant(0.0, tile((32, 16), "f32"))
                read = inner.store_view_tko(nothing, left, [zero, step], token=read)
            return total, read

        start = k.constant(0, tile((32, 32), "f32"))
        four = k.constant(4, "i32")
        total, token = k.for_(zero, four, one, [start, k.make_token()], body)
        if not read_sum:
            k.store_view_tko(total, sums, [zero, zero], token=token)
    return module.build()


@pytest.mark.parametrize("read_sum, write", [(True, False), (False, True), (False, False)])
def test_loops_that_need_each_sum_or_overwrite_a_factor(read_sum: bool, write: bool):
    module = _running(read_sum, write)
    assert _is_deferred(module) == (not read_sum and not write)
    rng = np.random.default_rng(8)
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((32, 64), (64, 32)))
    c, before = np.zeros((32, 128), np.float32), a.copy()
    run(module, "running", (1,), (a, b, c), machine="cpu")
    parts = [before[:, at : at + 16] @ b[at : at + 16] for at in range(0, 64, 16)]
    if read_sum:
        assert (c == np.concatenate(np.cumsum(parts, axis=0), axis=1)).all()
    else:
        assert (c[:, :32] == sum(parts)).all()
    assert (a == (0 if write else before)).all()
