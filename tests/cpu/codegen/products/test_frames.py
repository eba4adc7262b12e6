"""Factors and sums of small products stay in registers: code for them has no large frames."""

from __future__ import annotations

import functools
import re
from typing import Any

import pytest

from tilewright.builder import ModuleBuilder, ptr
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.cpu.runtime import engine
from tilewright.lowering import lower_to_tileaa

#: Sixteen registers of 512 bits, and what a function has besides.
MOST = 16 * 64 + 1024


@functools.cache
def _batched(m: int, n: int, k: int) -> Any:
    """A product of whole matrices for each tile block."""
    module = ModuleBuilder()
    with module.entry("k", {name: ptr("f32") for name in "abc"}) as f:
        i, _, _ = f.get_tile_block_id()

        def tiles(base: Any, rows: int, columns: int) -> Any:
            view = f.make_tensor_view(base, [99, rows, columns], [rows * columns, columns, 1])
            return f.partition(view, tile=(1, rows, columns))

        a, _ = f.load_view_tko(tiles(f.args.a, m, k), [i, 0, 0])
        b, _ = f.load_view_tko(tiles(f.args.b, k, n), [i, 0, 0])
        c = f.mmaf(a.reshape(m, k), b.reshape(k, n), f.zeros((m, n), "f32"))
        f.store_view_tko(c.reshape(1, m, n), tiles(f.args.c, m, n), [i, 0, 0])
    return module.build()


@pytest.mark.parametrize("k", [8, 16, 32])
@pytest.mark.parametrize("n", [16, 32, 64])
@pytest.mark.parametrize("m", [4, 16, 32, 64])
def test_small_products(m: int, n: int, k: int) -> None:
    options = CompileOptions(cpu="x86-64-v3")
    compiled = compile_kernel(lower_to_tileaa(_batched(m, n, k)).module, options=options)
    made = engine.parse_ir(compiled.llvm_ir, compiled.target)
    engine.optimize(made, compiled.target)
    assembly = engine.emit_assembly(made, compiled.target)
    frames = [int(size) for size in re.findall(r"subq\s+\$(\d+), %rsp", assembly)]
    assert max(frames, default=0) <= MOST
