"""Bands of tile blocks: every block once, in bands, and sums that stay what they are."""

from __future__ import annotations

import ctypes
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from llvmlite import ir
from tests.cpu.codegen.products.test_products import launch, product

from tilewright.cpu import Program
from tilewright.cpu.codegen.emitter.grid import block_coordinates
from tilewright.cpu.codegen.ir.elements import I32, I64, PTR, VOID
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.cpu.runtime.engine import compile_ir, load_object
from tilewright.cpu.target import cpu_target
from tilewright.lowering import lower_to_tileaa
from tilewright.numerics.arrays import dtype_of

_AMX = cpu_target().has("amx-bf16") and cpu_target().has("amx-tile")


def _coordinates(order: Any) -> Any:
    """A function that writes the coordinates of a block: its number, the height of bands, the grid, where to."""
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(VOID, [I64, I64, I32, I32, I32, PTR]), "f")
    number, height, x, y, z, out = function.args
    b = ir.IRBuilder(function.append_basic_block())
    for axis, found in enumerate(block_coordinates(b, (x, y, z), number, order, height)):
        b.store(found, b.gep(out, [ir.Constant(I64, axis)], source_etype=I32), align=4)
    b.ret_void()
    target = cpu_target()
    library = load_object(compile_ir(str(module), target), target, ["f"])
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 2, *[ctypes.c_int32] * 3, ctypes.c_void_p)
    return library, kind(library.address("f"))


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_bands_hold_every_block_once(order: tuple[int, int, int]) -> None:
    """Along the first axis up to the height of the band, then along the second one, then the next band."""
    _library, function = _coordinates(order)
    out = (ctypes.c_int32 * 3)()
    for grid in ((5, 3, 2), (1, 4, 1), (4, 1, 3)):
        for height in (1, 2, 3, 100):
            found: list[tuple[int, ...]] = []
            for number in range(grid[0] * grid[1] * grid[2]):
                function(number, height, *grid, ctypes.addressof(out))
                found.append(tuple(out))
            first, second, third = (range(grid[axis]) for axis in order)
            wanted = [
                tuple({order[0]: i, order[1]: j, order[2]: k}[axis] for axis in range(3))
                for k in third
                for begin in first[::height]
                for j in second
                for i in first[begin : begin + height]
            ]
            assert found == wanted, (grid, height)


@pytest.mark.parametrize("element", ["bf16", "f32"])
@pytest.mark.parametrize("by_columns", [False, True])
def test_products_in_several_bands(element: str, by_columns: bool) -> None:
    """So deep that few of the left operands fit into the cache; blocks at all edges."""
    dims, k = (32, 32, 32), 9000
    rng = np.random.default_rng(11)
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((200, k), (k, 100)))
    arrays = a.astype(dtype_of(element)), b.astype(dtype_of(element)), np.zeros((200, 100), "f4")
    module = product(element, "f32", dims, by_columns=by_columns)
    launch(
        module, dims, arrays, k, program=Program(module), **({"grid": (4, 7)} if by_columns else {})
    )
    assert (arrays[2] == a @ b).all()


def _orders(module: Any) -> list[str]:
    compiled = compile_kernel(lower_to_tileaa(module).module, None, CompileOptions())
    return [remark.message for remark in compiled.remarks if remark.kind == "order"]


@pytest.mark.skipif(not _AMX, reason="this processor has no AMX, for which alone there are bands")
def test_which_products_run_in_bands() -> None:
    (told,) = _orders(product("bf16", "f32", (32, 32, 32)))
    assert told.startswith("blocks run in bands along y, of as many along x")
    assert not _orders(product("f32", "f32", (32, 32, 32)))  # vectors
    assert not _orders(product("bf16", "f32", (16, 8, 32)))  # too few columns
