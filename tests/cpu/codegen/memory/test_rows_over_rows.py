"""Rows shorter than a vector that follow one another in memory: vectors are stored whole where the next rows come later."""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.support import Guarded

import tilewright
from tilewright import LaunchOptions
from tilewright.builder import ModuleBuilder, ptr
from tilewright.cpu import Program
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.cpu.target import cpu_target, missing_features
from tilewright.lowering import lower_to_tileaa
from tilewright.numerics.arrays import dtype_of

#: Code for processors with masks for stores has no use for that.
CPU = "host" if not cpu_target().has("avx512f") else "x86-64-v3"
PLACES = 16


@functools.cache
def _kernel(element: str, width: int, kind: str) -> Any:
    """``out[place, channel]`` from ``x[channel, place]``, or ``out = 2 out``, by tiles of ``PLACES`` rows of ``width``."""
    module = ModuleBuilder()
    arrays: dict[str, Any] = dict.fromkeys(("x", "out"), ptr(element))
    with module.entry("k", arrays | dict.fromkeys(("m", "n", "apart"), "i32")) as k:
        m, n, apart = k.args.m, k.args.n, k.args.apart
        i, j, _ = k.get_tile_block_id()
        rows = k.make_tensor_view(k.args.out, [3, n, m], [n * apart, apart, 1])
        out = k.partition(rows, tile=(1, PLACES, width), padding="zero")
        if kind == "turned":
            planes = k.make_tensor_view(k.args.x, [3, m, n], [m * n, n, 1])
            x = k.partition(planes, tile=(1, width, PLACES), padding="zero")
            value = k.permute(k.load_view_tko(x, [i, 0, j])[0], permutation=[0, 2, 1])
        else:
            found, _ = k.load_view_tko(out, [i, j, 0])
            value = found + found
        k.store_view_tko(value, out, [i, j, 0])
    return module.build()


@pytest.mark.skipif(sys.platform == "win32", reason="pages are protected by mprotect")
@pytest.mark.parametrize("kind", ["turned", "in place"])
@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize("element", ["f32", "f16", "i8", "f64"])
def test_every_width_and_distance(element: str, width: int, kind: str) -> None:
    if CPU != "host" and missing_features(cpu_target(CPU)):
        pytest.skip(f"code for {CPU} cannot run here")
    kernel, dtype = _kernel(element, width, kind), dtype_of(element)
    program = Program(kernel, options=LaunchOptions(threads=1, cpu=CPU))
    for m in range(1, width + 1):
        for n, apart in ((PLACES, m), (PLACES + 3, m), (2 * PLACES - 1, m + 1), (2, m), (1, m)):
            rng = np.random.default_rng(m * n)
            x = rng.integers(-9, 9, (3, m, n)).astype(dtype)
            out = rng.integers(-9, 9, 3 * n * apart).astype(dtype)
            wanted, grid = out.copy(), (3, -(-n // PLACES), 1)
            tilewright.run(kernel, "k", grid, (x, wanted, m, n, apart))
            for at_end in (True, False):
                held = [Guarded(each, at_end=at_end) for each in (x, out)]
                program.launch(None, grid, (*(each.array for each in held), m, n, apart))
                np.testing.assert_array_equal(held[1].array, wanted, err_msg=str((m, n, apart)))


@pytest.mark.parametrize("kind, whole", [("turned", True), ("in place", False)])
def test_rows_are_stored_whole_where_nobody_reads_the_next_ones(kind: str, *, whole: bool) -> None:
    """Of a row that is read from the same memory what lies in the next one would be lost."""
    tileaa = lower_to_tileaa(_kernel("f32", 4, kind)).module
    compiled = compile_kernel(tileaa, "k", CompileOptions(cpu="x86-64-v3"))
    assert any("stored whole" in remark.message for remark in compiled.remarks) == whole
