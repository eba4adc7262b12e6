"""Fused products and sums of f16 and bf16, rounded once to nearest."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from llvmlite import ir

from tilewright.cpu.codegen.elementwise.error_free import round_to_odd, two_sum
from tilewright.cpu.codegen.elementwise.formats import narrow_result, widen
from tilewright.cpu.codegen.ir import llvm, uncommon
from tilewright.cpu.codegen.ir.elements import I16, I32, Element
from tilewright.cpu.codegen.ir.types import Builder as B
from tilewright.cpu.codegen.ir.types import Value as V
from tilewright.cpu.target import CpuTarget

#: What AVX-512 instructions take for a direction, without exceptions.
_EMBEDDED = {"down": 9, "up": 10}
_LANES_512 = 16
#: The bits that f32 has more than f16, and the least normal number of f16, by its bits in f32.
_FURTHER_BITS = 13
_LEAST_F16 = 0x38800000
_LEAST_I32 = -(1 << 31)


def waits_long(element: Element, target: CpuTarget) -> bool:
    """Whether a fused product and sum takes many steps, with little to do in each: f16 in f32, there and back."""
    return element.name == "f16" and not target.has("avx512fp16")


def nearest_fma(b: B, values: tuple[V, ...], element: Element) -> V:
    """``values[0] * values[1] + values[2]``, numbers or vectors of f16 or bf16, rounded once to nearest.

    Where no instruction does that, it is done in f32, so that one more rounding is as if there were no other. Numbers of bf16
    that two roundings could go wrong with are frequent, and mended wherever they are; with AVX-512 sums are rounded in each
    direction. Those of f16 are rare, and asked for first, in all lanes at once.
    """
    target, lanes = llvm.target_of(b), llvm.lanes_of(values[0].type)
    if element.name == "f16" and target.has("avx512fp16"):
        return llvm.intrinsic(b, "fma", values)
    wide = [widen(b, v, element) for v in values]
    if element.name == "bf16" and target.has("avx512f") and lanes >= _LANES_512:
        return narrow_result(b, _odd_fma(b, *wide), element)
    if element.name == "bf16":
        return _bfloat_fma(b, *wide)
    return narrow_result(b, (_asked_fma if lanes > 1 else _half_fma)(b, *wide), element)


def _half_fma(b: B, lhs: V, rhs: V, acc: V) -> V:
    """``lhs * rhs + acc`` rounded to odd in f32, for numbers of f16, whose products are exact there."""
    return round_to_odd(b, *two_sum(b, b.fmul(lhs, rhs), acc))


def _bfloat_fma(b: B, lhs: V, rhs: V, acc: V) -> V:
    """``lhs * rhs + acc`` in f32, for numbers of bf16, rounded to nearest, and again, to the bits of bf16.

    That could go wrong only where the first one, inexact, ends in the middle of two numbers of bf16; the error of the sum
    tells the side then. It is that of the exact product: one below 2**-134 has no middle in reach of a number of bf16, as
    none is 65535 * 2**-150, and larger ones are exact, for they have 16 bits. Where they overflow, sums in the range of f32
    are exact, and the error is NaN.
    """
    nearest = llvm.intrinsic(b, "fma", [lhs, rhs, acc])
    words = llvm.shaped(I32, nearest.type)
    bits = b.bitcast(nearest, words)
    product = b.fmul(lhs, rhs)
    virtual = b.fsub(nearest, product)
    # What the sum has too much: its error (``error_of_sum``) with the other sign.
    beyond = b.fadd(b.fsub(b.fsub(nearest, virtual), product), b.fsub(virtual, acc))
    # Only for the middle it matters which of these signs are set: that of a number too small, or the last bit to be kept.
    signs = b.select(
        b.fcmp_ordered("!=", beyond, llvm.number(beyond.type, 0.0)),
        b.xor(b.bitcast(beyond, words), bits),
        b.shl(bits, llvm.number(words, 15)),
    )
    up = b.ashr(signs, llvm.number(words, 31))
    rounded = b.sub(b.add(bits, llvm.number(words, 0x7FFF)), up)
    return b.trunc(b.lshr(rounded, llvm.number(words, 16)), llvm.shaped(I16, words))


def _odd_fma(b: B, lhs: V, rhs: V, acc: V) -> V:
    """``lhs * rhs + acc`` in f32, rounded to odd: of the results downward and upward, which are neighbours or the same, the one
    whose last bit is set, or any. Subnormal results and overflow need no care: the largest number is odd, and upward, where both
    are even, a sum of nothing is +0, as to nearest."""

    def rounded(mode: str) -> V:
        return llvm.by_registers(
            b, (lhs, rhs, acc), 32, lambda values: _fma_rounded(b, values, mode)
        )

    down, up = rounded("down"), rounded("up")
    words = llvm.shaped(I32, down.type)
    last = b.and_(b.bitcast(down, words), llvm.number(words, 1))
    return b.select(b.icmp_unsigned("!=", last, llvm.number(words, 0)), down, up)


def _fma_rounded(b: B, values: Sequence[V], mode: str) -> V:
    """The fused product and sum of full AVX-512 registers, which the instruction rounds itself."""
    ty = values[0].type
    name = "llvm.x86.avx512.vfmadd.ps.512"
    function = llvm.declare(b.module, name, ty, [ty, ty, ty, I32])
    return b.call(function, [*values, ir.Constant(I32, _EMBEDDED[mode])])


def _asked_fma(b: B, *wide: V) -> V:
    """:func:`_half_fma` of vectors of f16: the nearest numbers of f32, where no lane is one that might need more."""
    ty = wide[0].type
    name = f"tilewright.fma.f16.{llvm.type_suffix(ty)}"
    function = b.module.globals.get(name)
    if function is None:
        function = uncommon.inlined(b.module, name, ty, [ty, ty, ty])
        _define_asked(function)
    return b.call(function, list(wide))


def _define_asked(function: ir.Function) -> None:
    entry, rare, done = (function.append_basic_block(n) for n in ("entry", "rare", "done"))
    b = ir.IRBuilder(entry)
    lhs, rhs, acc = function.args
    if llvm.target_of(b).has("fma"):
        nearest = llvm.intrinsic(b, "fma", [lhs, rhs, acc])
    else:
        nearest = b.fadd(b.fmul(lhs, rhs), acc)
    uncommon.branch(b, _no_middle(b, nearest), done, rare)
    b.position_at_end(rare)
    mended = _half_fma(b, lhs, rhs, acc)
    b.branch(done)
    b.position_at_end(done)
    result = b.phi(lhs.type)
    result.add_incoming(nearest, entry)
    result.add_incoming(mended, rare)
    b.ret(result)


def _no_middle(b: B, nearest: V) -> V:
    """Whether no lane is the middle of two numbers of f16, nor a number but 0 that is so small that these are few bits apart."""
    words = llvm.shaped(I32, nearest.type)
    bits = b.bitcast(nearest, words)
    # Middles have the first of the further bits, and no other one.
    further = b.shl(bits, llvm.number(words, 32 - _FURTHER_BITS))
    least = _least_lanes(b, further, "smin")
    # 0 becomes the largest of all.
    magnitudes = b.sub(b.shl(bits, llvm.number(words, 1)), llvm.number(words, 1))
    smallest = _least_lanes(b, magnitudes, "umin")
    none = b.and_(
        b.icmp_signed("!=", least, llvm.number(least.type, _LEAST_I32)),
        b.icmp_unsigned(">=", smallest, llvm.number(smallest.type, (_LEAST_F16 << 1) - 1)),
    )
    mask = ir.IntType(llvm.lanes_of(none.type))
    return b.icmp_unsigned("==", b.bitcast(none, mask), ir.Constant(mask, -1))


def _least_lanes(b: B, values: V, how: str) -> V:
    """The least of the lanes in the same places of all registers."""
    lanes, width = llvm.lanes_of(values.type), llvm.target_of(b).vector_bits // 32
    parts = [range(start, min(start + width, lanes)) for start in range(0, lanes, width)]
    if len(parts) == 1 or lanes % width:
        return values
    registers = [llvm.shuffle(b, values, values, part) for part in parts]
    return reduce(lambda x, y: llvm.intrinsic(b, how, [x, y]), registers)
