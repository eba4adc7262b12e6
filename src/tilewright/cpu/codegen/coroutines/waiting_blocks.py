"""Tile blocks that may wait for others: coroutines that suspend where a loop has polled memory in vain.

A loop that only polls, such as that of a lock or a barrier, suspends in each iteration. One that also works polls more
often than it waits, so it suspends in every ``_SELDOM``th iteration, which is enough for all blocks to make progress.
``abi`` tells what the runtime learns.
"""

from __future__ import annotations

from math import prod

from llvmlite import ir
from xdsl.dialects import scf
from xdsl.ir import Operation

from tilewright.cpu.abi import RT_LOOKS, RT_RESULT, RUN_WAITING
from tilewright.cpu.codegen.analysis import effects
from tilewright.cpu.codegen.coroutines.coroutine import Coroutine, call
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I32, I64, PTR
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.memory import Store

_SELDOM = 16


class Waiting:
    """The coroutine of the tile blocks of a kernel."""

    def __init__(self, b: Builder, runtime: Value) -> None:
        """Where it begins; it suspends at once. Its memory on the stack is that of the entry block."""
        self._runtime = runtime
        with b.goto_entry_block():
            self._rounds = llvm.stack(b, I32)
        self._coroutine = Coroutine(b)
        b.store(ir.Constant(I32, 0), self._rounds)

    def give_way(self, b: Builder) -> None:
        """Let other blocks go on, in the middle of work."""
        self._set(b, RT_LOOKS, ir.Constant(I64, 1))
        self._coroutine.suspend(b)

    def end_round(self, b: Builder, op: Operation, *, alone: bool) -> None:
        """Where a loop that may wait begins its next iteration; ``alone``: the block has no agents, which may
        work meanwhile."""
        if alone and only_looks(op):
            looks = b.load(self._at(b, RT_LOOKS), typ=I64)
            self._set(b, RT_LOOKS, b.add(looks, ir.Constant(I64, 1)))
            self._coroutine.suspend(b)
            return
        rounds = b.add(b.load(self._rounds, typ=I32), ir.Constant(I32, 1))
        b.store(rounds, self._rounds)
        odd = b.and_(rounds, ir.Constant(I32, _SELDOM - 1))
        with b.if_then(b.icmp_unsigned("==", odd, ir.Constant(I32, 0))):
            self.give_way(b)

    def end_loop(self, b: Builder, op: Operation) -> None:
        """Behind a loop that may have waited: what it waited for has come."""
        if only_looks(op) and not _is_inside_of_looks(op):
            self._set(b, RT_LOOKS, ir.Constant(I64, 0))

    def close(self, b: Builder, result: Value) -> None:
        """The end of the block; ``result`` is what a kernel would return."""
        self._set(b, RT_RESULT, b.zext(result, I64))
        self._coroutine.close(b)

    def _at(self, b: Builder, word: int) -> Value:
        return b.gep(self._runtime, [ir.Constant(I32, word)], source_etype=I64)

    def _set(self, b: Builder, word: int, value: Value) -> None:
        b.store(value, self._at(b, word))


def make_kernel(
    module: ir.Module, symbol: str, block: ir.Function, arena_bytes: int
) -> ir.Function:
    """The kernel whose blocks are a coroutine: it leaves all to the runtime."""
    function = ir.Function(module, ir.FunctionType(I32, [PTR, PTR, PTR, I64, I64]), symbol)
    b = ir.IRBuilder(function.append_basic_block("entry"))
    size = ir.Constant(I64, arena_bytes)
    b.ret(call(b, RUN_WAITING, I32, [*function.args, llvm.opaque(block), size]))
    return function


def only_looks(op: Operation) -> bool:
    """Whether a loop does nothing but look at memory until it finds something: no tile is moved or
    computed in it, and nothing is stored that could be work."""
    return not any(_works(inner) for inner in op.walk() if inner is not op)


def _works(op: Operation) -> bool:
    if isinstance(op, Store) and op.is_weak:
        return True
    tiles = (value.type for value in op.results if isinstance(value.type, T.TileType))
    return any(prod(ty.dims) > 1 for ty in tiles)


def _is_inside_of_looks(op: Operation) -> bool:
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, scf.WhileOp) and effects.waits(parent) and only_looks(parent):
            return True
        parent = parent.parent_op()
    return False
