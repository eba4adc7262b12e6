"""How a matrix product multiplies and accumulates: types and instructions.

f64 is multiplied as it is, other floats as f32 with fused multiply-add, to which they widen exactly. Where the processor
multiplies pairs of bf16 (AVX512_BF16), bf16 stays as it is, and floats of 8 bits become bf16, which has all of them; that
instruction takes subnormal operands and results for zeros, which changes a result by less than (K + 1) * 2**-125 times the
largest factor, or times 1 if that is larger. Registers with two axes multiply f16 as sums of two bf16 (``split_halves``). i8
uses the instructions that sum four products of an unsigned and a signed byte (VNNI), whichever of the two that is. If
both are signed, the right ones are raised by 128; if neither is, they are lowered by it; the row sums of the left
operand then correct the result, exactly, because sums are modulo 2**32:

    sum ab = sum a (b + 128) - 128 sum a = sum a (b - 128) + 128 sum a

x86 without VNNI multiplies pairs of i16, to which bytes widen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir
from xdsl.ir import SSAValue

from tilewright.cpu.codegen.elementwise.formats import narrow, to_double, widen
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import (
    ELEMENTS,
    F32,
    F64,
    FLOAT,
    I8,
    I16,
    I32,
    I64,
    Element,
    element_of,
)
from tilewright.cpu.codegen.ir.types import Builder as B
from tilewright.cpu.codegen.ir.types import Value as V
from tilewright.cpu.codegen.loops.tiles import Emit
from tilewright.cpu.codegen.products import split_halves, tile_shapes
from tilewright.cpu.target import CpuTarget
from tilewright.dialects.arith import ArithOp
from tilewright.dialects.declare import enum_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.dialects.nv_tileaa.ops.memory import TiledLoadOp
from tilewright.dialects.nv_tileaa.ops.shapes import ExpandDimsOp, PermuteOp, ViewOp

_WORD, _HALF, _BYTE = ELEMENTS["i32"], ELEMENTS["i16"], ELEMENTS["i8"]
_BF16 = ELEMENTS["bf16"]


def _no_sums(b: B, total: V, values: V) -> V:
    raise AssertionError("this kernel needs no sums")


@dataclass(frozen=True, slots=True)
class AccumulationKernel:
    """One way to multiply.

    ``panel`` is the type of numbers in the panels; ``group`` neighbours along k are multiplied and
    added at once, and stand side by side in both panels. ``multiply(b, total, factor, column)`` adds
    to the accumulators of some columns the products of a group of the left panel, in every lane, and
    the groups of the columns. ``add_up(b, total, values)`` adds to each sum the elements of a group;
    a row's sum times ``row_factor`` is to be added to its products.
    """

    name: str
    panel: Element
    accumulator: Element
    group: int
    multiply: Callable[[B, V, V, V], V]
    convert_left: Emit | None = None
    """From the operand's type to the panel's; None where widening does it, or nothing is to do."""
    convert_right: Emit | None = None
    row_factor: int = 0
    add_up: Callable[[B, V, V], V] = _no_sums
    tile_product: str = ""
    """The instruction that does the same for registers with two axes (``tile_registers``); empty if there is none."""
    turn_left: Emit | None = None
    """If any, behind each row of the left operand stands the same row by this conversion, and both are multiplied by the
    right operand."""
    rounds_pairs: bool = False
    """Whether the processor's instruction rounds accumulators to bf16. It takes subnormal numbers for zeros; there are none where
    products are made so that they become zeros, too."""

    def goes_along_k(self, target: CpuTarget, n: int, k: int) -> bool:
        """Whether the lanes of vectors are terms of a product of such extents, and not its columns
        (``few_columns``)."""
        lanes = target.vector_bits // self.accumulator_bits
        return not self.row_factor and _few_columns(lanes, n) and k % (lanes * self.group) == 0

    def in_tiles(self, target: CpuTarget, m: int, n: int, k: int) -> bool:
        """Whether such registers make a product of these extents."""
        return tile_shapes.has(target, self.tile_product) and tile_shapes.fits(self.panel, m, n, k)

    def left_bytes(self, k: int) -> int:
        """The bytes of a row of so many terms of a copy of the left operand."""
        return k * self.panel.buffer_bytes * (1 if self.turn_left is None else 2)

    @property
    def accumulator_bits(self) -> int:
        """The width of an accumulator in memory."""
        return self.accumulator.buffer_bytes * 8

    @property
    def unit(self) -> Element:
        """The type of a group as one value."""
        return self.panel if self.group == 1 else _WORD

    def rounded(self, b: B, total: V, to: Element) -> V:
        """Accumulators rounded to a narrower float, to nearest even, by the instruction of AVX-512 BF16 where there
        is one.
        """
        if not self.rounds_pairs or to.name != "bf16" or llvm.lanes_of(total.type) not in (8, 16):
            return narrow(b, total, to)
        lanes = llvm.lanes_of(total.type)
        name = f"llvm.x86.avx512bf16.cvtneps2bf16.{lanes * 32}"
        function = llvm.declare(b.module, name, ir.VectorType(_BFLOAT, lanes), [total.type])
        return b.bitcast(b.call(function, [total]), ir.VectorType(I16, lanes))

    def load_left(self, b: B, pointer: V, group: int, lanes: int) -> V:
        """The group of terms at this number behind the pointer, in every lane."""
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


def widening(element: Element, to: Element) -> Emit:
    """From an element type to one that has all its numbers."""
    if element.name == to.name:
        return lambda b, x: x
    if to.name == "bf16":
        return lambda b, x: _upper_half(b, widen(b, x, element))
    wide = to_double if to.name == "f64" else widen
    return lambda b, x: wide(b, x, element)


def _upper_half(b: B, x: V) -> V:
    """The bf16 that has the value of an f32."""
    bits = b.bitcast(x, llvm.shaped(I32, x.type))
    return b.trunc(b.lshr(bits, llvm.number(bits.type, 16)), llvm.shaped(I16, x.type))


def _fused(b: B, total: V, factor: V, column: V) -> V:
    return llvm.intrinsic(b, "fma", [factor, column, total])


def _integers(b: B, total: V, factor: V, column: V) -> V:
    return b.add(total, b.mul(factor, column))


#: Of how many rows and columns a product must have each for its factors of f16 to be worth splitting.
_SPLIT_FROM = 64
#: Up to how many rows pairs of bf16 are not used.
FEW_ROWS = 8
FLOAT32 = AccumulationKernel("f32", F32, F32, 1, _fused)
FLOAT64 = AccumulationKernel("f64", F64, F64, 1, _fused)


def _extended(to: ir.IntType, signed: bool) -> Emit:
    def convert(b: B, x: V) -> V:
        ty = llvm.shaped(to, x.type)
        return b.sext(x, ty) if signed else b.zext(x, ty)

    return convert


def _word_kernel(signs: tuple[bool, ...]) -> AccumulationKernel:
    left, right = (_extended(I32, signed) for signed in signs)
    return AccumulationKernel(_named("i32", signs), _WORD, _WORD, 1, _integers, left, right)


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


def _byte_quads(b: B, total: V, unsigned: V, signed: V) -> V:
    lanes = llvm.lanes_of(total.type)
    words, quads = ir.VectorType(I32, lanes), ir.VectorType(I8, lanes * 4)
    name = f"llvm.x86.avx512.vpdpbusd.{lanes * 32}"
    function = llvm.declare(b.module, name, words, [words, quads, quads])
    return b.call(function, [total, b.bitcast(unsigned, quads), b.bitcast(signed, quads)])


def _swapped_quads(b: B, total: V, signed: V, unsigned: V) -> V:
    return _byte_quads(b, total, unsigned, signed)


def _sum_of_signed(b: B, total: V, values: V) -> V:
    return _byte_quads(b, total, llvm.number(total.type, 0x01010101), values)


def _sum_of_unsigned(b: B, total: V, values: V) -> V:
    return _byte_quads(b, total, values, llvm.number(total.type, 0x01010101))


def _flipped(b: B, x: V) -> V:
    return b.xor(x, llvm.number(x.type, -128))


def _byte_kernel(signs: tuple[bool, ...]) -> AccumulationKernel:
    left, right = signs
    alike = left == right
    return AccumulationKernel(
        _named("i8", signs),
        _BYTE,
        _WORD,
        4,
        _swapped_quads if left else _byte_quads,
        None,
        _flipped if alike else None,
        (-128 if left else 128) if alike else 0,
        _sum_of_signed if left else _sum_of_unsigned,
    )


def _i16_pairs(b: B, total: V, factor: V, column: V) -> V:
    lanes = llvm.lanes_of(total.type)
    words, pairs = ir.VectorType(I32, lanes), ir.VectorType(I16, lanes * 2)
    function = llvm.declare(b.module, _PAIRS_OF_I16[lanes], words, [pairs, pairs])
    return b.add(total, b.call(function, [b.bitcast(factor, pairs), b.bitcast(column, pairs)]))


def _half_kernel(signs: tuple[bool, ...]) -> AccumulationKernel:
    left, right = (_extended(I16, signed) for signed in signs)
    return AccumulationKernel(_named("i16", signs), _HALF, _WORD, 2, _i16_pairs, left, right)


def _no_products(b: B, total: V, factor: V, column: V) -> V:
    raise AssertionError("this kernel is one of registers with two axes")


def _tile_kernel(signs: tuple[bool, ...]) -> AccumulationKernel:
    """Bytes of any signs, in registers with two axes."""
    letters = _named("", signs)[1:]
    product = f"tdpb{letters}d"
    return AccumulationKernel(
        f"tile.{letters}", _BYTE, _WORD, 4, _no_products, tile_product=product
    )


_BF16_PAIRS = AccumulationKernel(
    "bf16", _BF16, F32, 2, _bf16_pairs, tile_product="tdpbf16ps", rounds_pairs=True
)
_SPLIT_HALVES = AccumulationKernel(
    "f16.parts",
    _WORD,
    F32,
    1,
    _no_products,
    split_halves.high_first,
    split_halves.high_first,
    tile_product="tdpbf16ps",
    turn_left=split_halves.low_first,
)
#: Operations that only move what one operand holds.
_MOVES = (PermuteOp, ViewOp, ExpandDimsOp)
#: Floats that a bf16 holds.
_IN_BF16 = frozenset({"bf16", "f8E4M3FN", "f8E5M2"})
#: Vector lengths in i32 lanes that the grouping instructions have.
_GROUPED_LANES = frozenset({4, 8, 16})
#: The instruction that multiplies pairs of i16 and adds them up, by its lanes.
_PAIRS_OF_I16 = {
    4: "llvm.x86.sse2.pmadd.wd",
    8: "llvm.x86.avx2.pmadd.wd",
    16: "llvm.x86.avx512.pmaddw.d.512",
}
_NEEDED_FOR_PAIRS = {8: "avx2", 16: "avx512bw"}


def accumulation_kernel_for(
    target: CpuTarget,
    left: Element,
    right: Element,
    dims: tuple[int, int, int],
    signs: tuple[bool, ...],
    *,
    splits: bool = False,
) -> AccumulationKernel:
    """How operands of these element types and extents M, N, K are multiplied on a target.

    ``signs``: whether each of two integer operands is signed; ``splits``: numbers may become sums of several.
    """
    m, n, k = dims
    if left.name == "f64":
        return FLOAT64
    lanes = min(target.vector_bits // 32, n)
    grouped = lanes in _GROUPED_LANES and target.is_x86
    if left.name == "i8":
        tiles = _tile_kernel(signs)
        if tiles.in_tiles(target, m, n, k):
            return tiles
        vnni = target.has("avx512vnni") and target.has("avx512vl")
        if grouped and vnni and k % 4 == 0:
            return _byte_kernel(signs)
        pairs = grouped and k % 2 == 0 and _multiplies_i16(target, lanes)
        return _half_kernel(signs) if pairs else _word_kernel(signs)
    halves = splits and left.name == right.name == "f16" and min(m, n) >= _SPLIT_FROM
    if halves and _SPLIT_HALVES.in_tiles(target, m, n, k):
        return _SPLIT_HALVES
    # Few rows are not worth bringing pairs of the right operand together.
    several = m > FEW_ROWS and grouped and k % 2 == 0
    words = target.vector_bits // 32
    along_k = words in _GROUPED_LANES and _few_columns(words, n) and k % (2 * words) == 0
    able = target.has("avx512bf16") and target.has("avx512vl")
    pairs = able and (several or along_k)
    return _BF16_PAIRS if pairs and {left.name, right.name} <= _IN_BF16 else FLOAT32


def _few_columns(lanes: int, n: int) -> bool:
    """Whether half of the lanes and more would be for no column."""
    return 2 * n <= lanes


def _multiplies_i16(target: CpuTarget, lanes: int) -> bool:
    """Whether there is an instruction for pairs of i16 in vectors of that length."""
    return lanes == 4 or target.has(_NEEDED_FOR_PAIRS[lanes])


def accumulation_kernel_of(target: CpuTarget, op: DotOp) -> AccumulationKernel:
    """How the operands of a product are multiplied on a target; scaled ones as f64."""
    if op.sfa is not None:
        return FLOAT64
    left, right = element_of(op.a.type), element_of(op.b.type)
    k, n = T.dims_of(op.b.type)[-2:]
    integers = element_of(op.result.type).name == "i32"
    signs = tuple(
        not integers or enum_property(op, f"signedness_{side}") == "signed" for side in "ab"
    )
    m = T.dims_of(op.a.type)[-2]
    splits = all(_is_loaded_beside(op, factor) for factor in (op.a, op.b))
    return accumulation_kernel_for(target, left, right, (m, n, k), signs, splits=splits)


def _is_loaded_beside(op: DotOp, factor: SSAValue) -> bool:
    """Whether a factor is a tile of memory that is loaded where the product is made, as it is, moved or converted. Others, such
    as what a loop computes, are too short-lived for the time that it takes to split them."""
    while not isinstance(owner := factor.owner, TiledLoadOp):
        if not isinstance(owner, (ArithOp, *_MOVES)) or len(owner.operands) != 1:
            return False
        factor = owner.operands[0]
    return owner.parent is op.parent
