"""Stores past the caches: where they are used, and that all arrives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.builder import Builder, ModuleBuilder, Value, ptr
from tilewright.cpu import Program
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.cpu.target import cpu_target
from tilewright.lowering import lower_to_tileaa

TILE = (16, 128)


def _tiles(k: Builder, base: Value, columns: Value) -> Value:
    view = k.make_tensor_view(base, shape=[k.args.rows, columns], strides=[k.args.stride, 1])
    return k.partition(view, tile=TILE, padding="zero")


def _double(*, reads_output: bool = False) -> Any:
    """``y = 2 x``, or ``y = x + y``."""
    module = ModuleBuilder()
    sizes = dict.fromkeys(("rows", "columns", "stride"), "i32")
    with module.entry("double", {"x": ptr("f32"), "y": ptr("f32")} | sizes) as k:
        row, column, _ = k.get_tile_block_id()
        x, y = (_tiles(k, base, k.args.columns) for base in (k.args.x, k.args.y))
        values, _ = k.load_view_tko(x, [row, column])
        others = k.load_view_tko(y, [row, column])[0] if reads_output else values
        k.store_view_tko(k.addf(values, others), y, [row, column])
    return module.build()


def _streams(module: Any, **options: Any) -> bool:
    compiled = compile_kernel(lower_to_tileaa(module).module, None, CompileOptions(**options))
    return "!nontemporal" in compiled.llvm_ir


def test_only_output_that_is_not_read_goes_past_the_caches():
    assert _streams(_double()) == cpu_target("host").is_x86
    assert not _streams(_double(reads_output=True))
    assert not _streams(_double(), distinct_arguments=False)


@pytest.mark.parametrize("offset", [0, 1, 4], ids=["aligned", "odd", "by 16 bytes"])
@pytest.mark.parametrize("columns", [4096, 4093])
def test_all_elements_of_a_large_array_arrive(offset: int, columns: int):
    rows = 2100
    x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    room = np.full(rows * columns + 64, -1, np.float32)
    start = (-room.ctypes.data % 64) // 4 + offset
    y = room[start : start + x.size].reshape(x.shape)
    grid = (-(-rows // TILE[0]), -(-columns // TILE[1]))
    Program(_double()).launch("double", grid, (x, y, rows, columns, columns))
    assert (y == 2 * x).all()
    assert (room[:start] == -1).all() and (room[start + x.size :] == -1).all()
