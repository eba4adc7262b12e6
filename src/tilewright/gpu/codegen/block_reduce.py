"""`gpu.all_reduce`: reduces the values of a block, within warps first."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from xdsl.dialects.builtin import AnyFloat, IntegerType
from xdsl.ir import Operation

from tilewright.dialects.declare import enum_property
from tilewright.dialects.upstream.gpu.reduce import AllReduceOp
from tilewright.gpu.codegen import ir, layout
from tilewright.gpu.codegen.arith import check_arithmetic
from tilewright.gpu.codegen.function import Function, lowers
from tilewright.gpu.codegen.gpu_ops import (
    WARP,
    block_extent,
    from_words,
    shuffle,
    special_register,
    thread_number,
    words_of,
)
from tilewright.gpu.codegen.ir import Value
from tilewright.gpu.codegen.memref import load_element, store_element
from tilewright.gpu.codegen.structured import combined
from tilewright.gpu.codegen.vector import combine

_STEPS = (16, 8, 4, 2, 1)
_MAX_WARPS = 32
_Combine = Callable[[Value, Value], Value]


@lowers("gpu.all_reduce")
def _all_reduce(f: Function, op: Operation) -> None:
    """Reduces within each warp (lane i with lane i + 16, then 8, 4, 2, 1), then over the warps in ascending order.

    Results of warps are exchanged through shared memory, with a barrier after the stores and one after the loads.
    """
    assert isinstance(op, AllReduceOp)
    ty = op.value.type
    if not isinstance(ty, IntegerType | AnyFloat):
        raise f.refuse(op, "is compiled for numbers only")
    both = _how(f, op)
    size = layout.element_bytes(ty)
    number, threads = thread_number(f), _threads(f)
    own = _of_warp(f, f.value(op.value), number, threads, both)
    slots = f.unit.reserve_shared(f.unit.unique("reduction"), _MAX_WARPS * size)
    warp = f.code.binary("lshr", number, ir.integer(ir.I32, 5))
    _store_of_first(f, own, f.code.offset(slots, f"i{8 * size}", f.code.resize(warp, ir.I64)))
    f.asm("bar.sync 0;")
    total = _of_slots(f, slots, own.type, size, threads, both)
    f.asm("bar.sync 0;")
    f.set(op.result, total)


def _how(f: Function, op: AllReduceOp) -> _Combine:
    if op.body.blocks:
        return lambda a, b: combined(f, op.body, [a], [b])[0]
    check_arithmetic(f, op, op.value)
    kind = enum_property(op, "op")
    return lambda a, b: combine(f, kind, a, b)


def _threads(f: Function) -> Value:
    """The number of threads of the block, an i32."""
    if f.block_size is not None:
        return ir.integer(ir.I32, prod(f.block_size))
    total = ir.integer(ir.I32, 1)
    for axis in range(3):
        total = f.code.mul(total, block_extent(f, axis))
    return total


def _of_warp(f: Function, value: Value, number: Value, threads: Value, both: _Combine) -> Value:
    """Reduce the values of existing lanes into the first lane."""
    is_whole = threads.number is not None and threads.number % WARP == 0
    lane = special_register(f, "laneid")
    present, mask = ir.integer(ir.I32, WARP), ir.integer(ir.I32, -1)
    if not is_whole:
        first = f.code.binary("sub", number, lane)
        present = f.code.call(
            "llvm.umin.i32",
            ir.I32,
            [f.code.binary("sub", threads, first), ir.integer(ir.I32, WARP)],
        )
        absent = f.code.binary("sub", ir.integer(ir.I32, WARP), present)
        mask = f.code.binary("lshr", ir.integer(ir.I32, -1), absent)
    for step in _STEPS:
        words = [
            shuffle(f, "down", word, ir.integer(ir.I32, step), ir.integer(ir.I32, WARP - 1), mask)[
                0
            ]
            for word in words_of(f, value)
        ]
        found = both(value, from_words(f, words, value.type))
        if is_whole:
            # Only the result of the first lane is used.
            value = found
            continue
        source = f.code.binary("add", lane, ir.integer(ir.I32, step))
        value = f.code.select(f.code.compare("ult", source, present), found, value)
    return value


def _store_of_first(f: Function, value: Value, address: Value) -> None:
    """Store the value of the first lane."""
    first, end = f.code.new_block("first"), f.code.new_block("stored")
    lane = special_register(f, "laneid")
    f.code.branch_if(f.code.compare("eq", lane, ir.integer(ir.I32, 0)), first, end)
    f.code.start(first)
    store_element(f, value, address, _alignment(value))
    f.code.branch(end)
    f.code.start(end)


def _alignment(value: Value) -> int:
    return {"half": 2, "bfloat": 2, "float": 4, "double": 8}.get(value.type) or max(
        1, int(value.type[1:]) // 8
    )


def _of_slots(
    f: Function, slots: Value, ty: str, size: int, threads: Value, both: _Combine
) -> Value:
    """Reduce the results of the warps in ascending order."""
    warps = f.code.binary(
        "lshr", f.code.add(threads, ir.integer(ir.I32, WARP - 1)), ir.integer(ir.I32, 5)
    )
    head, more, end = (f.code.new_block(name) for name in ("warps", "warp", "combined"))
    first = load_element(f, ty, slots, size)
    warp, total = f.code.phi(head, ir.I32), f.code.phi(head, ty)
    f.code.branch(head, [ir.integer(ir.I32, 1), first])
    f.code.start(head)
    f.code.branch_if(f.code.compare("ult", warp, warps), more, end)
    f.code.start(more)
    address = f.code.offset(slots, f"i{8 * size}", f.code.resize(warp, ir.I64))
    found = both(total, load_element(f, ty, address, size))
    f.code.branch(head, [f.code.binary("add", warp, ir.integer(ir.I32, 1)), found])
    f.code.start(end)
    return total
