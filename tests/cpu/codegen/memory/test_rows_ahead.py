"""Rows that numbers from memory choose, asked for before their numbers are due."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.support import Guarded

from tilewright import LaunchOptions
from tilewright.builder import Builder, ModuleBuilder, Value, ptr
from tilewright.cpu import Program
from tilewright.cpu.codegen.memory.rows_ahead import REMARK
from tilewright.cpu.compile import compile_kernel
from tilewright.lowering import lower_to_tileaa

WIDTH, TABLE, COUNT, ROWS = 64, 50, 5, 4

#: How the numbers of rows are come by, and how many iterations ahead rows are asked for; 0: not at all.
WAYS = {
    "a row for each block": 16,
    "by a view": 16,
    "rows for each block": 4,
    "rows under a mask": 4,
    "for": 16,
    "while": 16,
    "backwards": 16,
    "two apart": 16,
    "under a mask": 16,
    "squares": 0,
    "the same number": 0,
}

ALONE = ("a row for each block", "by a view")
TOGETHER = ("rows for each block", "rows under a mask")


def _run(k: Builder, base: Value, places: Value) -> Value:
    return k.offset(k.broadcast(k.reshape(base, shape=(1,)), shape=places.type.dims), places)


def _place(way: str, block: Value, step: Value) -> Value:
    """Where the number of an iteration lies."""
    if way == "backwards":
        return (COUNT - 1) - step + block * COUNT
    if way == "two apart":
        return (step + step) + block * COUNT
    if way == "squares":
        return step * step + block * COUNT
    if way == "the same number":
        return block * COUNT
    return block * COUNT + step


@functools.cache
def _kernel(way: str) -> Any:
    """Rows of a table, one for each block, several, or the sums of as many as there are iterations."""
    module = ModuleBuilder()
    arrays: dict[str, Any] = {"table": ptr("f32"), "numbers": ptr("i32"), "out": ptr("f32")}
    with module.entry("k", arrays | {"n": "i32", "steps": "i32"}) as k:
        block, _, _ = k.get_tile_block_id()
        column = k.iota(shape=(WIDTH,), to="i32")

        def row(number: Value) -> Value:
            return k.load_ptr_tko(_run(k, k.args.table, number * WIDTH + column))[0]

        def number_at(place: Value) -> Value:
            if way == "under a mask":
                return k.load_ptr_tko(k.offset(k.args.numbers, place), place < k.args.n, 0)[0]
            return k.load_ptr_tko(k.offset(k.args.numbers, place))[0]

        def one() -> Value:
            if way == "a row for each block":
                return row(number_at(block))
            view = k.make_tensor_view(k.args.numbers, [k.args.n], [1])
            held, _ = k.load_view_tko(k.partition(view, tile=(1,)), [block])
            return row(k.reshape(held, shape=()))

        def total() -> Value:
            zero = k.constant(0.0, "f32").broadcast_to(WIDTH)

            def until(_: Builder, step: Value, total: Value) -> Any:
                with k.if_(step >= k.args.steps):
                    k.break_([total])
                return [step + 1, total + row(number_at(_place(way, block, step)))]

            def each(_: Builder, step: Value, total: Value) -> Any:
                return [total + row(number_at(_place(way, block, step)))]

            if way == "while":
                return k.loop_([k.constant(0, "i32"), zero], until, [zero.type])[0]
            return k.for_(0, k.args.steps, 1, [zero], each)[0]

        if way in TOGETHER:
            places = block * ROWS + k.iota(shape=(ROWS,), to="i32")
            on = [places < k.args.n, 0] if way == "rows under a mask" else []
            numbers, _ = k.load_ptr_tko(_run(k, k.args.numbers, places), *on)

            def whole(base: Value, which: Value) -> Value:
                rows = k.broadcast_to((which * WIDTH).reshape(ROWS, 1), (ROWS, WIDTH))
                start = k.broadcast(k.reshape(base, shape=(1, 1)), shape=(ROWS, WIDTH))
                return k.offset(start, rows + column)

            found, _ = k.load_ptr_tko(whole(k.args.table, numbers))
            k.store_ptr_tko(whole(k.args.out, places), found)
        else:
            found = one() if way in ALONE else total()
            k.store_ptr_tko(_run(k, k.args.out, block * WIDTH + column), found)
    return module.build()


def _expected(way: str, table: Any, numbers: Any, blocks: int) -> Any:
    if way in (*ALONE, *TOGETHER):
        return table[numbers]
    steps = {
        "backwards": [4, 3, 2, 1, 0],
        "two apart": [0, 2, 4, 6, 8],
        "squares": [0, 1, 4, 9, 16],
        "the same number": [0] * COUNT,
    }.get(way, list(range(COUNT)))
    return np.stack(
        [table[numbers[block * COUNT + np.array(steps)]].sum(0) for block in range(blocks)]
    )


@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_nothing_beyond_the_numbers_is_read(way: str, at_end: bool) -> None:
    program = Program(_kernel(way), options=LaunchOptions(threads=1))
    rng = np.random.default_rng(3)
    table = rng.integers(-9, 9, (TABLE, WIDTH)).astype(np.float32)
    for blocks in (1, 3, 300):
        count = blocks if way in ALONE else blocks * ROWS if way in TOGETHER else blocks * COUNT
        count += {"two apart": 4, "squares": 12}.get(way, 0)
        numbers = rng.integers(0, TABLE, count).astype(np.int32)
        expected = _expected(way, table, numbers, blocks)
        given = [Guarded(each, at_end=at_end) for each in (table, numbers)]
        out = np.zeros_like(expected)
        program.launch("k", blocks, (*(each.array for each in given), out, count, COUNT))
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(("way", "ahead"), WAYS.items())
def test_rows_are_asked_for_where_their_numbers_follow_one_another(way: str, ahead: int) -> None:
    compiled = compile_kernel(lower_to_tileaa(_kernel(way)).module)
    told = [remark.message for remark in compiled.remarks]
    assert (REMARK.format(ahead) in told) is bool(ahead)
    asked = re.search(r"call void @\"?llvm.prefetch", compiled.llvm_ir)
    assert (asked is not None) is bool(ahead)
