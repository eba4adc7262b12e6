"""Operands that stay packed for later tile blocks: those on the left, and which ones are worth it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.products.test_products import product

from tilewright import LaunchOptions
from tilewright.builder import ModuleBuilder, Value, ptr, tile
from tilewright.cpu import Program
from tilewright.cpu.codegen.analysis.plan import make_plan
from tilewright.cpu.codegen.products import packed_operands
from tilewright.cpu.codegen.products.state import Side
from tilewright.cpu.compile import kernels_of
from tilewright.lowering import lower_to_tileaa
from tilewright.numerics.arrays import dtype_of

Array = np.ndarray[Any, Any]


def numbers(seed: int, shape: tuple[int, int], element: str) -> Array:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype_of(element))


@pytest.mark.rotates(4)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("element", ["f32", "f16", "bf16", "i8"])
def test_each_launch_reads_its_left_operand_anew(
    element: str, turned: bool, by_columns: bool, threads: int
) -> None:
    dims, (m, n, k) = (32, 32, 32), (150, 130, 100)
    result = "i32" if element == "i8" else "f32"
    module = product(element, result, dims, transposed=(turned, False), by_columns=by_columns)
    program = Program(module, options=LaunchOptions(threads=threads))
    a, b = numbers(1, (k, m) if turned else (m, k), element), numbers(2, (k, n), element)
    c = np.zeros((m, n), dtype_of(result))
    for change in range(3):
        a += a.dtype.type(change)
        program.launch(None, (5, 5), (a, b, c, m, n, k))
        wide = a.astype(np.float64)
        np.testing.assert_array_equal(c, (wide.T if turned else wide) @ b.astype(np.float64))


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_more_rounds_than_left_operands_that_stay(element: str) -> None:
    dims, k = (32, 16, 16), 16 * (packed_operands.MOST_SLOTS + 3)
    a, b = numbers(3, (k, 96), element), numbers(4, (k, 40), element)
    c = np.zeros((96, 40), np.float32)
    program = Program(product(element, "f32", dims, transposed=(True, False)))
    program.launch(None, (3, 3), (a, b, c, 96, 40, k))
    np.testing.assert_array_equal(c, a.astype(np.float64).T @ b.astype(np.float64))


def test_tiles_with_the_same_address_that_end_elsewhere_are_not_the_same() -> None:
    """One program, arrays of other extents at one address."""
    program = Program(
        product("f16", "f32", (32, 32, 32), transposed=(True, False)),
        options=LaunchOptions(threads=1),
    )
    room, b = numbers(5, (100, 100), "f16"), numbers(6, (100, 70), "f16")
    for m, k in ((100, 100), (90, 70), (33, 100), (64, 64)):
        a = room.reshape(-1)[: m * k].reshape(k, m)
        c = np.zeros((m, 70), np.float32)
        program.launch(None, (4, 3), (a, b[:k], c, m, 70, k))
        np.testing.assert_array_equal(c, a.astype(np.float64).T @ b[:k].astype(np.float64))


def _kept(module: Any) -> set[Side]:
    """Which operands of the only product of a kernel stay packed."""
    lowered = lower_to_tileaa(module).module
    (function,) = kernels_of(lowered).values()
    plan = make_plan(function.body.blocks[0], distinct_arguments=True)
    found = packed_operands.find_packed(function.walk(), plan, distinct_arguments=True)
    return {side for _, side in found}


def batch(*, tiles: bool) -> Any:
    """Products of a batch, by one tile block each or by several."""
    module = ModuleBuilder()
    with module.entry("batch", dict.fromkeys("abc", ptr("f32"))) as k:
        number, i, j = k.get_tile_block_id()
        zero = k.constant(0, "i32")
        row, column = (i, j) if tiles else (zero, zero)

        def view(base: Value) -> Value:
            whole = k.make_tensor_view(base, shape=[8, 64, 64], strides=[4096, 64, 1])
            return k.partition(whole, tile=(1, 32, 32))

        left, _ = k.load_view_tko(view(k.args.a), [number, row, zero])
        right, _ = k.load_view_tko(view(k.args.b), [number, zero, column])
        a, b = (k.reshape(part, shape=(32, 32)) for part in (left, right))
        found = k.mmaf(a, b, k.constant(0.0, tile((32, 32), "f32")))
        k.store_view_tko(k.reshape(found, shape=(1, 32, 32)), view(k.args.c), [number, row, column])
    return module.build()


def test_operands_that_several_blocks_read_stay() -> None:
    assert _kept(product("f32", "f32", (32, 32, 32))) == {Side.LEFT, Side.RIGHT}
    assert _kept(batch(tiles=True)) == {Side.LEFT, Side.RIGHT}
    assert _kept(batch(tiles=False)) == set()
