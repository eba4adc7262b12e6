"""Short rows that follow one another in memory, pairs and pixels, are loaded and stored as long ones."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.builder import ModuleBuilder, Value, ptr
from tilewright.cpu.codegen.loops.long_rows import REMARK
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.lowering import lower_to_tileaa
from tilewright.numerics.arrays import dtype_of

ROWS, COLUMNS = 4, 32


@functools.cache
def _kernel(element: str, width: int, known: int | None) -> Any:
    """Halves of short rows change places, and the first ones are added to the second ones.

    ``known``: how far rows lie apart, None where that is an argument.
    """
    module = ModuleBuilder()
    shape = (ROWS, COLUMNS, width)
    pointers: dict[str, Any] = dict.fromkeys(("x", "out"), ptr(element))
    with module.entry("k", pointers | dict.fromkeys(("m", "n", "apart"), "i32")) as k:
        m, n, apart = k.args.m, k.args.n, k.args.apart
        i, j, _ = k.get_tile_block_id()

        def tiles(base: Value) -> Value:
            between = apart if known is None else known
            view = k.make_tensor_view(base, [m, n, width], [n * apart, between, 1])
            return k.partition(view, tile=shape, padding="zero")

        x, _ = k.load_view_tko(tiles(k.args.x), [i, j, 0])
        half = (ROWS, COLUMNS, width // 2)
        first, second = (k.extract(x, [0, 0, part], shape=half) for part in (0, 1))
        k.store_view_tko(k.cat(second, first + second, dim=2), tiles(k.args.out), [i, j, 0])
    return module.build()


@functools.cache
def _sums(element: str, width: int) -> Any:
    """``out = 3 x + y``, both read where they are computed; rows of x lie ``apart``, those of y and out never."""
    module = ModuleBuilder()
    pointers: dict[str, Any] = dict.fromkeys(("x", "y", "out"), ptr(element))
    with module.entry("k", pointers | dict.fromkeys(("m", "n", "apart"), "i32")) as k:
        m, n, apart = k.args.m, k.args.n, k.args.apart
        i, j, _ = k.get_tile_block_id()

        def tiles(base: Value, between: Value) -> Value:
            view = k.make_tensor_view(base, [m, n, width], [n * between, between, 1])
            return k.partition(view, tile=(ROWS, COLUMNS, width), padding="zero")

        dense = k.args.apart * 0 + width
        x, _ = k.load_view_tko(tiles(k.args.x, apart), [i, j, 0])
        y, _ = k.load_view_tko(tiles(k.args.y, dense), [i, j, 0])
        k.store_view_tko(x + x + x + y, tiles(k.args.out, dense), [i, j, 0])
    return module.build()


@pytest.mark.parametrize("apart", [0, 3])
@pytest.mark.parametrize("width", [2, 8])
@pytest.mark.parametrize("element", ["f32", "bf16", "i16"])
def test_loads_that_are_computed_with(element: str, width: int, apart: int) -> None:
    kernel, rng, dtype = _sums(element, width), np.random.default_rng(0), dtype_of(element)
    for m, n in ((4, 32), (5, 31), (1, 70)):
        x = rng.integers(-9, 9, m * n * (width + apart)).astype(dtype)
        y = rng.integers(-9, 9, m * n * width).astype(dtype)
        results = []
        for machine in ("cpu", "reference"):
            out = np.full_like(y, 7)
            grid = (-(-m // ROWS), -(-n // COLUMNS), 1)
            tilewright.run(kernel, "k", grid, (x, y, out, m, n, width + apart), machine=machine)
            results.append(out)
        np.testing.assert_array_equal(*results, err_msg=str((m, n)))


def _run(machine: str, kernel: Any, element: str, width: int, sizes: tuple[int, int, int]) -> Any:
    m, n, apart = sizes
    rng = np.random.default_rng(m * n)
    x = rng.integers(-9, 9, m * n * apart + width).astype(dtype_of(element))
    out = np.full_like(x, 7)
    grid = (-(-m // ROWS), -(-n // COLUMNS), 1)
    tilewright.run(kernel, "k", grid, (x, out, *sizes), machine=machine)
    return out


@pytest.mark.rotates(4)
@pytest.mark.parametrize("apart", [0, 1, 5])
@pytest.mark.parametrize("width", [2, 4, 8])
@pytest.mark.parametrize("element", ["f32", "f16", "i8", "f64"])
def test_the_reference_machine_agrees(element: str, width: int, apart: int) -> None:
    for known in (None, width + apart):
        kernel = _kernel(element, width, known)
        for m, n in ((4, 32), (5, 31), (1, 33), (9, 64), (3, 1)):
            sizes = m, n, width + apart
            found, wanted = (
                _run(each, kernel, element, width, sizes) for each in ("cpu", "reference")
            )
            np.testing.assert_array_equal(found, wanted, err_msg=str(sizes))


def test_two_lanes_do_not_take_a_vector_each() -> None:
    """Rows that are known to follow one another take as many vectors as one long row."""

    def compiled(known: int) -> tuple[int, bool]:
        module = lower_to_tileaa(_kernel("f32", 2, known)).module
        found = compile_kernel(module, None, CompileOptions(cpu="x86-64-v4"))
        told = REMARK in [each.message for each in found.remarks]
        return found.llvm_ir.count("<2 x float>"), told

    assert compiled(2) == (0, True)
    pairs, told = compiled(3)
    assert pairs > 0 and not told
