"""Sums with their errors, and what errors do to last bits."""

from __future__ import annotations

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import FLOAT, I32, I64
from tilewright.cpu.codegen.ir.types import Builder as B
from tilewright.cpu.codegen.ir.types import Value as V


def two_sum(b: B, lhs: V, rhs: V) -> tuple[V, V]:
    """The sum and its error (Knuth's 2Sum)."""
    total = b.fadd(lhs, rhs)
    return total, error_of_sum(b, lhs, rhs, total)


def error_of_sum(b: B, lhs: V, rhs: V, total: V) -> V:
    """What a sum rounded to nearest lacks."""
    virtual = b.fsub(total, lhs)
    return b.fadd(b.fsub(lhs, b.fsub(total, virtual)), b.fsub(rhs, virtual))


def round_to_odd(b: B, nearest: V, error: V) -> V:
    """``nearest + error`` rounded to odd; only the sign of the error matters. Where there is one, ``nearest`` is not 0."""
    word = I32 if llvm.scalar_of(nearest.type) == FLOAT else I64
    words = llvm.shaped(word, nearest.type)
    bits = b.bitcast(nearest, words)
    last = b.and_(bits, llvm.number(words, 1))
    even = b.icmp_signed("==", last, llvm.number(words, 0))
    return b.bitcast(toward(b, bits, error, where=even), nearest.type)


def toward(b: B, bits: V, error: V, where: V) -> V:
    """The next number in the direction of an error, by the bits of numbers and in some lanes; the same where the error is 0 or
    NaN, as it is of infinities."""
    words = bits.type
    differ = b.xor(b.bitcast(error, words), bits)
    away = b.ashr(differ, llvm.number(words, llvm.scalar_of(words).width - 1))
    step = b.or_(away, llvm.number(words, 1))
    inexact = b.fcmp_ordered("!=", error, llvm.number(error.type, 0.0))
    return b.add(bits, b.select(b.and_(where, inexact), step, llvm.number(words, 0)))
