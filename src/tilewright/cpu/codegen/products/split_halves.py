"""f16 as pairs of bf16, for processors that multiply pairs of bf16 in registers with two axes and have no such product of f16.

An f16 has 11 bits of precision, a bf16 has 8: each number is the exact sum of two, ``x = high + low``, of one sign. A word holds
both. One instruction multiplies the words of a row by those of a column, half by half, and adds up; with the halves of the row
exchanged it adds the other two products:

    (high, low) (high', low') = high high' + low low'        (low, high) (high', low') = low high' + high low'

Together that is ``x x'``, of products that are exact in f32, as those of the whole numbers are. Whole numbers have whole parts,
and none of the parts and products is subnormal.

Infinity is a high part by itself, which a low part that is zero turns into no number. So sums that are no numbers are made again
from whole factors (``whole``).
"""

from __future__ import annotations

from tilewright.cpu.codegen.elementwise.formats import widen
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import ELEMENTS, FLOAT, I32
from tilewright.cpu.codegen.ir.types import Builder, Value

_UPPER, _HALF_BITS = 0xFFFF0000, 16
_MAGNITUDE, _INFINITE = 0x7FFFFFFF, 0x7F800000


def high_first(b: Builder, x: Value) -> Value:
    """An f16 as a word, with the high part in its low bits."""
    high, low = _parts(b, x)
    return _word(b, high, low)


def low_first(b: Builder, x: Value) -> Value:
    """An f16 as a word, with the low part in its low bits."""
    high, low = _parts(b, x)
    return _word(b, low, high)


def whole(b: Builder, word: Value) -> Value:
    """The f32 that a word with the high part in its low bits stands for."""
    ty = word.type
    floats = llvm.shaped(FLOAT, ty)
    bits = b.shl(word, llvm.number(ty, _HALF_BITS))
    high, low = (b.bitcast(part, floats) for part in (bits, b.and_(word, llvm.number(ty, _UPPER))))
    magnitude = b.and_(bits, llvm.number(ty, _MAGNITUDE))
    finite = b.icmp_unsigned("<", magnitude, llvm.number(ty, _INFINITE))
    return b.select(finite, b.fadd(high, low), high)


def _parts(b: Builder, x: Value) -> tuple[Value, Value]:
    """The bits of the high and the low part as f32, whose lower halves are zero."""
    number = widen(b, x, ELEMENTS["f16"])
    words = llvm.shaped(I32, number.type)
    high = b.and_(b.bitcast(number, words), llvm.number(words, _UPPER))
    low = b.fsub(number, b.bitcast(high, llvm.shaped(FLOAT, number.type)))
    return high, b.bitcast(low, words)


def _word(b: Builder, first: Value, second: Value) -> Value:
    words = first.type
    below = b.lshr(first, llvm.number(words, _HALF_BITS))
    return b.or_(below, b.and_(second, llvm.number(words, _UPPER)))
