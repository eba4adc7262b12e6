"""Tiles at an edge of which some rows need no checks: those go without, the others with them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.support import Guarded

import tilewright
from tilewright import LaunchOptions
from tilewright.builder import Builder, ModuleBuilder, Value, ptr
from tilewright.cpu import Program
from tilewright.cpu.codegen.loops.row_ends import PART_REMARK, RANGE_REMARK
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.lowering import lower_to_tileaa
from tilewright.numerics.arrays import dtype_of

#: Which rows each of some taps reads: so many behind its own, every other one, in pairs.
TAPS: dict[str, tuple[tuple[int, int, int], ...]] = {
    "around": ((1, 1, -2), (1, 1, -1), (1, 1, 0), (1, 1, 1), (1, 1, 2)),
    "before": ((1, 1, -20), (1, 1, -3)),
    "two apart": ((2, 1, -1), (2, 1, 1)),
    "in pairs": ((1, 2, 0), (1, 2, 1)),
}


@functools.cache
def _kernel(element: str, shape: tuple[int, int], taps: str) -> Any:
    """``out[row, channel]`` is the sum of ``k`` times the row of the k-th tap, where that is one of ``m``."""
    module = ModuleBuilder()
    arguments = dict.fromkeys(("x", "out"), ptr(element)) | dict.fromkeys(("m", "to", "n"), "i32")
    with module.entry("rows", arguments) as k:
        m, to, n = k.args.m, k.args.to, k.args.n
        i, j, _ = k.get_tile_block_id()
        row = (i * shape[0] + k.arange(shape[0])).reshape(shape[0], 1)
        channel = (j * shape[1] + k.arange(shape[1])).reshape(1, shape[1])

        def places(base: Value, row: Value) -> Value:
            return k.broadcast_to(base.reshape(1, 1), shape) + (row * n + channel)

        total = k.zeros(shape, element)
        for number, (times, over, more) in enumerate(TAPS[taps], 1):
            at = row * times // over + more
            on = (at >= 0) & (at < m) & (channel < n)
            found, _ = k.load_ptr_tko(places(k.args.x, at), on, k.zeros(shape, element))
            for _ in range(number):
                total = total + found
        k.store_ptr_tko(places(k.args.out, row), total, (row < to) & (channel < n))
    return module.build()


@pytest.mark.skipif(sys.platform == "win32", reason="pages are protected by mprotect")
@pytest.mark.parametrize("taps", TAPS)
@pytest.mark.parametrize("shape", [(16, 32), (8, 64), (32, 1)], ids=str)
@pytest.mark.parametrize("element", ["f32", "f64", "i8"])
def test_the_reference_machine_agrees_and_nothing_outside_is_touched(
    element: str, shape: tuple[int, int], taps: str
) -> None:
    kernel, dtype = _kernel(element, shape, taps), dtype_of(element)
    program = Program(kernel, options=LaunchOptions(threads=1))
    for rows, to, channels in ((40, 40, 32), (40, 37, 64), (3, 16, 33), (17, 18, 100), (1, 1, 1)):
        x = np.random.default_rng(rows).integers(-9, 9, (rows, channels)).astype(dtype)
        wanted = np.full((to, channels), 7, dtype)
        grid = (-(-to // shape[0]), -(-channels // shape[1]), 1)
        tilewright.run(kernel, "rows", grid, (x, wanted, rows, to, channels))
        for at_end in (True, False):
            arrays = [Guarded(each, at_end=at_end) for each in (x, np.full_like(wanted, 7))]
            program.launch(None, grid, (*(each.array for each in arrays), rows, to, channels))
            np.testing.assert_array_equal(arrays[1].array, wanted, err_msg=f"{rows}, {channels}")


#: What becomes of flat places, which change along rows and along vectors.
FLAT: dict[str, Callable[[Builder, Value], Value]] = {
    "by 3": lambda k, place: place // 3,
    "by 7": lambda k, place: place // 7,
    "by 100": lambda k, place: place // 100,
    "at most": lambda k, place: k.minimum(place, 333),
    "at least": lambda k, place: k.maximum(place - 100, 0),
    "mirrored": lambda k, place: k.where(place >= 300, 600 - place, place),
    "around": lambda k, place: (place + 90) % 350,
}


@pytest.mark.parametrize("name", FLAT)
def test_flat_places(name: str) -> None:
    """What is true of some vectors of a row, or of none, is not taken for true of it."""
    module, shape, m = ModuleBuilder(), (16, 64), 9
    with module.entry("k", {"x": ptr("f32"), "out": ptr("f32"), "m": "i32"}) as k:
        row = k.arange(shape[0]).reshape(shape[0], 1)
        place = row * shape[1] + k.arange(shape[1]).reshape(1, shape[1])
        on = k.broadcast_to(row < k.args.m, shape)

        def at(base: Value, place: Value) -> Value:
            return k.broadcast_to(base.reshape(1, 1), shape) + place

        found, _ = k.load_ptr_tko(at(k.args.x, FLAT[name](k, place)), on, k.zeros(shape, "f32"))
        k.store_ptr_tko(at(k.args.out, place), found, on)
    kernel, x = module.build(), np.arange(900, dtype=np.float32)
    found, wanted = (np.full(shape, -1, np.float32) for _ in range(2))
    tilewright.run(kernel, "k", (1, 1, 1), (x, wanted, m))
    tilewright.run(kernel, "k", (1, 1, 1), (x, found, m), machine="cpu")
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("taps", TAPS)
def test_it_is_told(taps: str) -> None:
    """What goes by whole rows goes by parts of them where no row is inside."""
    module = lower_to_tileaa(_kernel("f32", (16, 64), taps)).module
    told = [each.message for each in compile_kernel(module, None, CompileOptions()).remarks]
    assert RANGE_REMARK in told
    assert PART_REMARK in told
