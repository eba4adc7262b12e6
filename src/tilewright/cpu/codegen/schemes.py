"""How numbers are multiplied and summed in a matrix product: types and instructions.

f64 is multiplied as it is, other floats as f32 with fused multiply-add, to which they widen exactly.
Where the processor multiplies pairs of bf16 (AVX512_BF16), bf16 stays as it is; that instruction
takes subnormal operands and sums for zeros, which changes a result by less than K * 2**-125 times the
largest factor. i8 goes to the instructions that sum four products of an unsigned and a signed byte
(VNNI). There, signed left numbers are raised by 128 and unsigned right ones lowered by it, and what
that adds is taken off again, exactly because sums are modulo 2**32:

    sum (a - p)(b + q) = sum ab + q sum a - p sum b - K p q     with a >= 0 as stored, b signed
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from llvmlite import ir

from tilewright.cpu.codegen import llvm
from tilewright.cpu.codegen.elements import ELEMENTS, F32, F64, FLOAT, I8, I32, I64, Element
from tilewright.cpu.codegen.irtypes import Builder as B
from tilewright.cpu.codegen.irtypes import Value as V
from tilewright.cpu.codegen.tiles import Emit
from tilewright.cpu.target import CpuTarget

_WORD, _BYTE, _BF16 = ELEMENTS["i32"], ELEMENTS["i8"], ELEMENTS["bf16"]


@dataclass(frozen=True, slots=True)
class Scheme:
    """One way to multiply.

    ``panel`` is the type of numbers in the panels; ``group`` neighbours along k are multiplied and
    added at once, and stand side by side in both panels. ``multiply(b, total, factor, column)`` adds
    to the accumulators of some columns the products of a group of the left panel, in every lane, and
    the groups of the columns. The offsets are p and q above.
    """

    name: str
    panel: Element
    accumulator: Element
    group: int
    multiply: Callable[[B, V, V, V], V]
    convert_left: Emit | None = None
    convert_right: Emit | None = None
    left_offset: int = 0
    right_offset: int = 0

    @property
    def accumulator_bits(self) -> int:
        return self.accumulator.buffer_bytes * 8

    @property
    def unit(self) -> Element:
        """The type of a group as one value."""
        return self.panel if self.group == 1 else _WORD

    def load_left(self, b: B, pointer: V, group: int, lanes: int) -> V:
        """The group at this number behind the pointer, in every lane."""
        ty = self.unit.register
        where = b.gep(pointer, [ir.Constant(I64, group)], source_etype=ty)
        value = b.load(where, typ=ty, align=self.panel.buffer_bytes)
        return llvm.splat(b, value, lanes if lanes > 1 else 0)

    def load_right(self, b: B, pointer: V, column: int, lanes: int) -> V:
        """The groups of neighbouring columns from this one on."""
        ty = self.unit.register
        where = b.gep(pointer, [ir.Constant(I64, column)], source_etype=ty)
        vector = llvm.vector(ty, lanes if lanes > 1 else 0)
        return b.load(where, typ=vector, align=self.unit.buffer_bytes)


def _fused(b: B, total: V, factor: V, column: V) -> V:
    return llvm.intrinsic(b, "fma", [factor, column, total])


def _integers(b: B, total: V, factor: V, column: V) -> V:
    return b.add(total, b.mul(factor, column))


FLOAT32 = Scheme("f32", F32, F32, 1, _fused)
FLOAT64 = Scheme("f64", F64, F64, 1, _fused)


def _extended(signed: bool) -> Emit:
    def convert(b: B, x: V) -> V:
        ty = llvm.shaped(I32, x.type)
        return b.sext(x, ty) if signed else b.zext(x, ty)

    return convert


def _word_scheme(signs: tuple[bool, ...]) -> Scheme:
    left, right = (_extended(signed) for signed in signs)
    return Scheme(_named("i32", signs), _WORD, _WORD, 1, _integers, left, right)


def _named(name: str, signs: tuple[bool, ...]) -> str:
    return f"{name}." + "".join("s" if signed else "u" for signed in signs)


class _BFloat(ir.Type):
    """LLVM's bfloat, which llvmlite lacks; only to name the type of an instruction's operands."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash(_BFloat)


_BFLOAT = _BFloat()


def _bf16_pairs(b: B, total: V, factor: V, column: V) -> V:
    lanes = llvm.lanes_of(total.type)
    pairs = ir.VectorType(_BFLOAT, lanes * 2)
    floats = ir.VectorType(FLOAT, lanes)
    name = f"llvm.x86.avx512bf16.dpbf16ps.{lanes * 32}"
    function = llvm.declare(b.module, name, floats, [floats, pairs, pairs])
    return b.call(function, [total, b.bitcast(factor, pairs), b.bitcast(column, pairs)])


def _byte_quads(b: B, total: V, factor: V, column: V) -> V:
    lanes = llvm.lanes_of(total.type)
    words, quads = ir.VectorType(I32, lanes), ir.VectorType(I8, lanes * 4)
    name = f"llvm.x86.avx512.vpdpbusd.{lanes * 32}"
    function = llvm.declare(b.module, name, words, [words, quads, quads])
    return b.call(function, [total, b.bitcast(factor, quads), b.bitcast(column, quads)])


def _flipped(flip: bool, b: B, x: V) -> V:
    return b.xor(x, llvm.number(x.type, -128)) if flip else x


def _same(b: B, x: V) -> V:
    return x


def _byte_scheme(signs: tuple[bool, ...]) -> Scheme:
    left, right = signs
    return Scheme(
        _named("i8", signs),
        _BYTE,
        _WORD,
        4,
        _byte_quads,
        partial(_flipped, left),
        partial(_flipped, not right),
        128 if left else 0,
        0 if right else 128,
    )


_BF16_PAIRS = Scheme("bf16", _BF16, F32, 2, _bf16_pairs, _same, _same)
#: Vector lengths in i32 lanes that the grouping instructions have.
_GROUPED_LANES = frozenset({4, 8, 16})


def scheme_for(
    target: CpuTarget, left: Element, right: Element, k: int, n: int, signs: tuple[bool, ...]
) -> Scheme:
    """How operands of these element types are multiplied on a target."""
    if left.name == "f64":
        return FLOAT64
    lanes = min(target.vector_bits // 32, n)
    grouped = lanes in _GROUPED_LANES and target.is_x86
    if left.name == "i8":
        vnni = target.has("avx512vnni") and target.has("avx512vl")
        return _byte_scheme(signs) if grouped and vnni and k % 4 == 0 else _word_scheme(signs)
    pairs = grouped and k % 2 == 0 and target.has("avx512bf16") and target.has("avx512vl")
    return _BF16_PAIRS if left.name == right.name == "bf16" and pairs else FLOAT32
