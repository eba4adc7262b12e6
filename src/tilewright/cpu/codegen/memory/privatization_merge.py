"""Merges private copies into the array, when the call of a kernel ends.

Where other launches may update the array meanwhile, each changed element is one atomic update. In a closed launch
(``abi``) only its own threads update it, all in this way: under a lock, each takes turns on parts of the array,
and adds whole vectors by plain loads and stores. Unchanged elements are not written.
"""

from __future__ import annotations

from collections.abc import Iterable

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I1, I64, PTR
from tilewright.cpu.codegen.ir.masked import masked_load, masked_store
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.tiles import to_buffer
from tilewright.cpu.codegen.memory.access import loaded
from tilewright.cpu.codegen.memory.compare_exchange import bits_type, update_one
from tilewright.cpu.codegen.memory.locks import LINE, acquire, lock_at, locks_of, release
from tilewright.cpu.codegen.memory.privatized_arrays import COPIES, Copies, in_copy
from tilewright.cpu.codegen.memory.single_thread import combined

#: In how many parts an array is handed on; threads begin with different ones.
_PARTS = 16


def close_copies(
    b: Builder, copies: Iterable[Copies], begin: Value, total: Value, closed: Value | None
) -> None:
    """Hand on what the copies of a call hold, whose blocks begin with ``begin`` of ``total``."""
    different = list({id(held): held for held in copies}.values())
    if not different:
        return
    if closed is None:
        for held in different:
            _hand_on(b, held)
        return
    with b.if_else(closed) as (alone, others):
        with alone:
            parts = ir.Constant(I64, _PARTS)
            first = b.udiv(b.mul(begin, parts), b.select(_is_zero(b, total), parts, total))
            for held in different:
                _hand_on_in_parts(b, held, first)
        with others:
            for held in different:
                _hand_on(b, held)


def _is_zero(b: Builder, number: Value) -> Value:
    return b.icmp_unsigned("==", number, ir.Constant(I64, 0))


def _hand_on(b: Builder, held: Copies) -> None:
    target = held.target
    unit, identity = target.element.buffer_bytes, target.identity

    def element(inner: Builder, at: Value) -> None:
        total = _gathered(inner, held, at, identity, target.element.buffer)
        words = bits_type(target.element)
        found, nothing = (inner.bitcast(value, words) for value in (total, identity))
        with inner.if_then(inner.icmp_unsigned("!=", found, nothing)):
            where = inner.inttoptr(inner.add(held.base, at), PTR)
            update_one(inner, target.mode, where, total, target.element, "monotonic")

    llvm.count(b, ir.Constant(I64, 0), held.size, ir.Constant(I64, unit), element)


def _gathered(b: Builder, held: Copies, at: Value, identity: Value, ty: ir.Type) -> Value:
    """What all copies have at an offset; ``identity`` and ``ty`` say for how many elements."""
    total = identity
    for copy in range(COPIES):
        value = b.load(in_copy(b, held, copy, at), typ=ty, align=held.target.element.buffer_bytes)
        # Copies that lie in the same place are one.
        if copy:
            apart = b.icmp_unsigned("!=", held.stride, ir.Constant(I64, 0))
            value = b.select(apart, value, identity)
        total = combined(b, held.target.mode, total, value, held.target.element)
    return total


def _hand_on_in_parts(b: Builder, held: Copies, first: Value) -> None:
    """All parts in turn, from ``first`` on and around."""
    part = b.add(b.udiv(held.size, ir.Constant(I64, _PARTS)), ir.Constant(I64, LINE))
    part = b.and_(part, ir.Constant(I64, -LINE))
    locks = locks_of(b.module, "merging", _PARTS)

    def one(inner: Builder, turn: Value) -> None:
        number = inner.urem(inner.add(first, turn), ir.Constant(I64, _PARTS))
        start = inner.mul(number, part)
        end = llvm.intrinsic(inner, "umin", [inner.add(start, part), held.size])
        with inner.if_then(inner.icmp_unsigned("<", start, held.size)):
            lock = lock_at(inner, locks, number)
            acquire(inner, lock)
            line = ir.Constant(I64, LINE)
            llvm.count(inner, start, end, line, lambda c, at: _hand_on_line(c, held, at))
            release(inner, lock)

    llvm.count(b, ir.Constant(I64, 0), ir.Constant(I64, _PARTS), ir.Constant(I64, 1), one)


def _hand_on_line(b: Builder, held: Copies, at: Value) -> None:
    target = held.target
    element, unit = target.element, target.element.buffer_bytes
    lanes = LINE // unit
    identity = llvm.splat_constant(target.identity, lanes)
    ty = llvm.vector(element.buffer, lanes)
    total = _gathered(b, held, at, identity, ty)
    words = ir.VectorType(bits_type(element), lanes)
    changed = b.icmp_unsigned("!=", b.bitcast(total, words), b.bitcast(identity, words))
    with b.if_then(llvm.intrinsic(b, "vector.reduce.or", [changed], I1)):
        where = b.inttoptr(b.add(held.base, at), PTR)
        old = loaded(b, masked_load(b, where, ty, changed), element)
        new = to_buffer(b, combined(b, target.mode, old, total, element), element)
        masked_store(b, new, where, changed)
