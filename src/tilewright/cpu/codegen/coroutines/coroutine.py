"""Functions that suspend and resume: LLVM coroutines."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I1, I8, I32, I64, PTR, VOID, Literal
from tilewright.cpu.codegen.ir.types import Builder, Type, Value


class _TokenType(ir.Type):
    """The type of what ties intrinsics together."""

    def _to_string(self) -> str:
        return "token"


_TOKEN = _TokenType()
_NO_TOKEN = Literal(_TOKEN, "none")
#: The bytes of a pointer.
_WORD = 8


def call(b: Builder, name: str, result: Type, args: Sequence[Value]) -> Value:
    """A call of a function that is known by its name."""
    return b.call(llvm.declare(b.module, name, result, [a.type for a in args]), list(args))


def _frame(b: Builder) -> Value:
    """Memory for a frame, aligned as what lies in it asks for: vectors want more than ``malloc`` gives. Where
    it was given stands before it."""
    size = call(b, "llvm.coro.size.i64", I64, [])
    alignment = call(b, "llvm.coro.align.i64", I64, [])
    room = b.add(alignment, ir.Constant(I64, _WORD))
    given = call(b, "malloc", PTR, [b.add(size, room)])
    end = b.add(b.ptrtoint(given, I64), room)
    frame = b.inttoptr(b.and_(end, b.neg(alignment)), PTR)
    b.store(given, _before(b, frame))
    return frame


def _before(b: Builder, frame: Value) -> Value:
    """Where a frame's memory tells where it was given."""
    return b.gep(frame, [ir.Constant(I64, -_WORD)], source_etype=I8)


class Coroutine:
    """A function that gives a handle as soon as it is called, and does its work when that is resumed.

    Code is made between opening and ``close``. Memory on the stack must come from the entry block, before
    the coroutine opens.
    """

    def __init__(self, b: Builder) -> None:
        """Where the function begins; the coroutine suspends at once."""
        llvm.add_attribute(b.function, "presplitcoroutine")
        null = Literal(PTR, "null")
        self._cleanup, self._out = (b.append_basic_block(name) for name in ("cleanup", "out"))
        self._id = call(b, "llvm.coro.id", _TOKEN, [ir.Constant(I32, 0), null, null, null])
        self._handle = call(b, "llvm.coro.begin", PTR, [self._id, _frame(b)])
        self.suspend(b)

    def suspend(self, b: Builder, *, last: bool = False) -> None:
        """Give control back to who has resumed the coroutine, until somebody does so again."""
        how = call(b, "llvm.coro.suspend", I8, [_NO_TOKEN, ir.Constant(I1, int(last))])
        resumed = b.append_basic_block("resumed")
        switch = b.switch(how, self._out)
        switch.add_case(ir.Constant(I8, 0), resumed)
        switch.add_case(ir.Constant(I8, 1), self._cleanup)
        b.position_at_end(resumed)

    def close(self, b: Builder) -> None:
        """The end of the function: the coroutine has ended, and its frame is given back."""
        self.suspend(b, last=True)
        b.unreachable()
        b.position_at_end(self._cleanup)
        frame = call(b, "llvm.coro.free", PTR, [self._id, self._handle])
        call(b, "free", VOID, [b.load(_before(b, frame), typ=PTR)])
        b.branch(self._out)
        b.position_at_end(self._out)
        call(b, "llvm.coro.end", VOID, [self._handle, ir.Constant(I1, 0), _NO_TOKEN])
        b.ret(self._handle)
