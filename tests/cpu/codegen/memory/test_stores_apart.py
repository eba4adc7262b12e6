"""Stores to one array through pointers: made together where elements alternate, in turn where they may meet."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from tilewright import LaunchOptions
from tilewright.builder import ModuleBuilder, Value, ptr
from tilewright.cpu import Program
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.lowering import lower_to_tileaa
from tilewright.numerics.arrays import dtype_of

TILE, LENGTH, CHANNELS = 64, 150, 3
MIDDLE = 6 * LENGTH


@functools.cache
def _kernel(element: str) -> Any:
    """``out[first + i * stride + c * apart] = (c + 1) x[i]`` for three channels."""
    module = ModuleBuilder()
    numbers = dict.fromkeys(("first", "stride", "apart", "n"), "i32")
    with module.entry("k", {"x": ptr(element), "out": ptr(element)} | numbers) as k:
        block, _, _ = k.get_tile_block_id()
        at = block * TILE + k.arange(TILE)
        inside = at < k.args.n

        def spread(base: Value) -> Value:
            return k.broadcast(k.reshape(base, shape=(1,)), shape=(TILE,))

        held, _ = k.load_ptr_tko(k.offset(spread(k.args.x), at), inside)
        total = held
        for channel in range(CHANNELS):
            place = at * k.args.stride + (k.args.first + k.args.apart * channel)
            k.store_ptr_tko(k.offset(spread(k.args.out), place), total, inside)
            total = total + held
    return module.build()


@pytest.mark.parametrize("stride", [0, 1, 2, 3, 4, 5, -3])
@pytest.mark.parametrize("element", ["i8", "f16", "f32", "f64"])
def test_the_last_store_stays_where_they_meet(element: str, stride: int) -> None:
    kernel, dtype = _kernel(element), dtype_of(element)
    program = Program(kernel, options=LaunchOptions(threads=1, allow_overlap=True))
    x = np.random.default_rng(abs(stride)).integers(1, 30, LENGTH).astype(dtype)
    for apart in (1, 2, 3, -1, 7):
        # One after the other, as the program has it: of blocks, too.
        expected = np.zeros(12 * LENGTH, dtype)
        for begin in range(0, LENGTH, TILE):
            lanes = np.arange(begin, min(begin + TILE, LENGTH))
            for channel in range(CHANNELS):
                for lane in lanes:
                    expected[MIDDLE + lane * stride + channel * apart] = (channel + 1) * x[lane]
        out = np.zeros_like(expected)
        program.launch("k", -(-LENGTH // TILE), (x, out, MIDDLE, stride, apart, LENGTH))
        if stride:
            np.testing.assert_array_equal(out, expected)
        else:
            # Which lane of one store stays is not said; of the stores it is the last one.
            assert out[MIDDLE + 2 * apart] in 3 * x


def test_what_decides_is_asked_when_the_code_runs() -> None:
    lowered = lower_to_tileaa(_kernel("f32")).module
    assert "srem i64" in compile_kernel(lowered, None, CompileOptions()).llvm_ir
