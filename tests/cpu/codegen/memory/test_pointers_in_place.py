"""Elements that are read, changed and written back through the same pointers."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.differential import variants

import tilewright
from tilewright import LaunchOptions
from tilewright.builder import Builder, ModuleBuilder, Value, ptr
from tilewright.cpu import Program
from tilewright.cpu.codegen.analysis.distinct_addresses import are_distinct
from tilewright.cpu.compile import compile_kernel, kernels_of
from tilewright.dialects.nv_tileaa.ops.memory import StoreOp
from tilewright.lowering import lower_to_tileaa

TILE, LENGTH = 64, 1000


def _wide(k: Builder, value: Value) -> Value:
    return k.exti(value, to="i64", signedness="signed")


#: Places of the elements of a tile that begins at some number, and whether all of them are known to be different.
PLACES: dict[str, tuple[Any, bool]] = {
    "in a row": (lambda k, row, s: row, True),
    "apart": (lambda k, row, s: row * 3, True),
    "wide": (lambda k, row, s: _wide(k, row) * 5, True),
    "wide and further": (lambda k, row, s: _wide(k, row) * 2 + 7, True),
    "backwards": (lambda k, row, s: 900 - row, True),
    "from a number on": (lambda k, row, s: row + s, True),
    "the same eight": (lambda k, row, s: row & 7, False),
    "by a number": (lambda k, row, s: row * s, False),
    "all one": (lambda k, row, s: row * 0 + 5, False),
    "squares": (lambda k, row, s: (row - 8) * (row - 8), False),
}


@functools.cache
def _kernel(name: str, tile: int = TILE) -> Any:
    """``x[at] = 2 x[at] + y[i]`` and ``y[at] = y[at] - 1``, where ``at`` is inside."""
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("f32"), "y": ptr("f32"), "n": "i32", "s": "i32"}) as k:
        block, _, _ = k.get_tile_block_id()
        row = k.iota(shape=(tile,), to="i32") + block * tile
        at = PLACES[name][0](k, row, k.args.s)
        n = _wide(k, k.args.n) if at.type != row.type else k.args.n
        inside = (at >= 0) & (at < n)

        def behind(base: Value) -> Value:
            return k.offset(k.broadcast(k.reshape(base, shape=(1,)), shape=(tile,)), at)

        x, _ = k.load_ptr_tko(behind(k.args.x), inside, 0.0)
        y, _ = k.load_ptr_tko(behind(k.args.y), inside, 0.0)
        k.store_ptr_tko(behind(k.args.x), x + x + y, inside)
        k.store_ptr_tko(behind(k.args.y), y - 1.0, inside)
    return module.build()


@pytest.mark.parametrize("s", [0, 1, 4])
@pytest.mark.parametrize("name", PLACES)
def test_all_is_read_before_any_of_it_is_written(name: str, s: int) -> None:
    start = np.arange(LENGTH, dtype=np.float32), np.arange(LENGTH, dtype=np.float32)[::-1].copy()
    chosen = variants(name, s)
    programs = [Program(_kernel(name), options=LaunchOptions(**options)) for options in chosen]
    for n in (LENGTH, 333):
        expected = [each.copy() for each in start]
        tilewright.load(_kernel(name), "reference").launch("k", 1, (*expected, n, s))
        for options, program in zip(chosen, programs, strict=True):
            found = [each.copy() for each in start]
            program.launch("k", 1, (*found, n, s))
            np.testing.assert_array_equal(found, expected, err_msg=str((n, options)))


@pytest.mark.parametrize("name", PLACES)
def test_only_what_may_be_the_same_goes_to_buffers(name: str) -> None:
    tileaa, distinct = lower_to_tileaa(_kernel(name)).module, PLACES[name][1]
    (function,) = kernels_of(tileaa).values()
    stores = [op for op in function.walk() if isinstance(op, StoreOp)]
    assert [are_distinct(store.base) for store in stores] == [distinct, distinct]
    kept = [remark for remark in compile_kernel(tileaa).remarks if "may change" in remark.message]
    assert len(kept) == (0 if distinct else 2)


@pytest.mark.parametrize(("factor", "distinct"), [(1 << 25, True), (1 << 27, False)])
def test_numbers_that_wrap_around_meet(factor: int, distinct: bool) -> None:
    """64 numbers fill 32 bits once, or more than once."""
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("f32")}) as k:
        at = k.iota(shape=(64,), to="i32") * factor
        base = k.broadcast(k.reshape(k.args.x, shape=(1,)), shape=(64,))
        x, _ = k.load_ptr_tko(k.offset(base, at))
        k.store_ptr_tko(k.offset(base, at), x + x)
    (function,) = kernels_of(lower_to_tileaa(module.build()).module).values()
    (store,) = [op for op in function.walk() if isinstance(op, StoreOp)]
    assert are_distinct(store.base) is distinct
