"""``nvvm.wgmma.product``: a product of a warpgroup whose sums are numbers in registers; not upstream's.

``nvgpu.warpgroup.mma`` and its accumulators hide which thread holds which sum, and take both operands
from shared memory. A compiler that has computed with sums before, or will, needs to say both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeVar

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    FloatTF32Type,
    IntegerType,
    VectorType,
)
from xdsl.ir import Attribute, TypeAttribute
from xdsl.irdl import operand_def, opt_prop_def, prop_def, result_def

from tilewright.dialects.declare import Report, attr, declare_op, examples, type_of
from tilewright.dialects.narrowing import integers_of, is_sized_integer_type, is_vector
from tilewright.dialects.nvgpu import codes
from tilewright.dialects.nvgpu.ops.warpgroup import FLOAT_COLUMNS, INTEGER_COLUMNS, WGMMA_M
from tilewright.dialects.nvgpu.signature import syntax
from tilewright.dialects.syntax.types import format_type
from tilewright.dialects.upstream.base import constraints as K
from tilewright.dialects.upstream.base.operations import UpstreamOp
from tilewright.dialects.upstream.base.shapes import bit_width, element_of

_OpT = TypeVar("_OpT", bound=type[UpstreamOp])

#: What ``nvvm`` has here and not upstream, by mnemonic.
OPERATIONS: dict[str, type[UpstreamOp]] = {}


def _nvvm_op(mnemonic: str) -> Callable[[_OpT], _OpT]:
    def declare(cls: _OpT) -> _OpT:
        defined = declare_op(cls, "nvvm", mnemonic, "nvvm")
        OPERATIONS[mnemonic] = defined
        return defined

    return declare


_F32, _I32 = Float32Type(), IntegerType(32)
#: The sums of products of these elements.
SUMS: dict[Attribute, Attribute] = {
    Float16Type(): _F32,
    BFloat16Type(): _F32,
    FloatTF32Type(): _F32,
    Float8E4M3FNType(): _F32,
    Float8E5M2Type(): _F32,
    IntegerType(8): _I32,
}
#: The bytes along k that one instruction takes of each operand.
STEP_BYTES = 32


def _is_left(ty: Attribute) -> bool:
    return ty == IntegerType(64) or isinstance(ty, VectorType)


_LEFT = K.Kind("an i64 or a vector", Attribute, _is_left)
_DESCRIPTOR = K.Kind("an i64", IntegerType, lambda ty: ty == IntegerType(64))
_TYPE = K.Kind("a type", Attribute, lambda ty: isinstance(ty, TypeAttribute))


@_nvvm_op("wgmma.product")
class WgmmaProductOp(UpstreamOp):
    """``A B + C`` by the four warps of a warpgroup, as one group of ``wgmma.mma_async`` with the fence
    before it; not upstream's.

    ``mmaShape`` is m, n and k of the whole product: m/64 blocks of rows one behind the other, and k in
    steps of 32 bytes. ``b`` is a descriptor of shared memory as PTX defines it, ``a`` one, too, or the
    registers of A's fragments: for each block and step those of the instruction. ``aOffsets`` says for
    each block and step how many bytes behind the begin of A it reads, ``bOffsets`` for each step. ``c`` and the result
    have for each block the registers of the instruction's sums. Integers are signed unless ``unsignedA`` or
    ``unsignedB`` says otherwise, and their sums wrap; those of floats of 8 bits keep 14 bits.

    Waits until at most ``waitGroup`` groups, the youngest, are unfinished, or not at all; so the result
    may be read at once only with 0. Else ``nvvm.wgmma.sums`` takes it.
    """

    a = operand_def(_LEFT)
    b = operand_def(_DESCRIPTOR)
    c = operand_def(K.VECTOR)
    mmaShape = prop_def(K.I64_ARRAY)
    element = prop_def(_TYPE)
    aOffsets = opt_prop_def(K.I64_ARRAY)
    bOffsets = prop_def(K.I64_ARRAY)
    transposeA = opt_prop_def(K.FLAG)
    transposeB = opt_prop_def(K.FLAG)
    unsignedA = opt_prop_def(K.FLAG)
    unsignedB = opt_prop_def(K.FLAG)
    waitGroup = opt_prop_def(K.INT32)
    d = result_def(K.VECTOR)

    SYNTAX: ClassVar = syntax("$a, $b, $c attr-dict : type($a), type($b), type($c) -> type($d)")
    UNDEFINED: ClassVar = (
        "a thread of the warpgroup does not take part",
        "the result is read before its product has been waited for",
        "a matrix in shared memory is written while the product runs",
    )
    EXAMPLES: ClassVar = examples(
        """
        %da = arith.constant 4611686293305294848 : i64
        %sums = arith.constant dense<0.0> : vector<32xf32>
        %d = nvvm.wgmma.product %da, %da, %sums {mmaShape = [64, 64, 16], element = f16, aOffsets = [0], bOffsets = [0], waitGroup = 0 : i32} : i64, i64, vector<32xf32> -> vector<32xf32>
        """
    )

    @property
    def shape(self) -> tuple[int, int, int]:
        """m, n and k of the whole product."""
        m, n, k = integers_of(self.mmaShape)
        return m, n, k

    @property
    def unfinished(self) -> int | None:
        """How many groups may be unfinished behind this one; None where it does not wait."""
        held = self.waitGroup
        return None if held is None else held.value.data

    @property
    def steps(self) -> int:
        """The instructions along k."""
        return self.shape[2] * bit_width(self.element) // 8 // STEP_BYTES

    def check(self, report: Report) -> None:
        sums = SUMS.get(self.element)
        if sums is None:
            known = ", ".join(map(format_type, SUMS))
            message = f"expected elements of {known}, got '{format_type(self.element)}'"
            report.error(codes.WGMMA_TYPE, message, attr("element"))
            return
        if len(integers_of(self.mmaShape)) != 3:
            message = f"expected m, n and k, got {list(integers_of(self.mmaShape))}"
            report.error(codes.WGMMA_SHAPE, message, attr("mmaShape"))
            return
        m, n, k = self.shape
        columns = INTEGER_COLUMNS if is_sized_integer_type(self.element) else FLOAT_COLUMNS
        depth = STEP_BYTES * 8 // bit_width(self.element)
        if m <= 0 or m % WGMMA_M or n not in columns or k <= 0 or k % depth:
            report.error(
                codes.WGMMA_SHAPE,
                f"no instructions make a product of {m}x{n}x{k}: m is a multiple of {WGMMA_M}, n of 8 "
                f"up to 256, k of {depth}",
                attr("mmaShape"),
            )
            return
        for name in ("unsignedA", "unsignedB"):
            if self.properties.get(name) is not None and not is_sized_integer_type(self.element):
                message = f"{name} is for integers, not for '{format_type(self.element)}'"
                report.error(codes.WGMMA_TYPE, message, attr(name))
        self._check_registers(report, sums, m * n // 128)
        self._check_offsets(report, m // WGMMA_M)

    def _check_registers(self, report: Report, sums: Attribute, count: int) -> None:
        wanted = VectorType(sums, [count])
        for name, value in (("c", self.c), ("d", self.d)):
            if value.type != wanted:
                message = f"expected '{format_type(wanted)}', got '{format_type(value.type)}'"
                report.error(codes.WGMMA_TYPE, message, type_of(name))
        m, _, k = self.shape
        held = VectorType(self.element, [m * k // 128])
        # Registers of tf32 are those of f32, as for mma.sync.
        is_tf32 = isinstance(self.element, FloatTF32Type)
        as_f32 = VectorType(Float32Type() if is_tf32 else self.element, [m * k // 128])
        if is_vector(self.a.type) and self.a.type not in (held, as_f32):
            message = f"expected '{format_type(held)}', got '{format_type(self.a.type)}'"
            report.error(codes.WGMMA_TYPE, message, type_of("a"))

    def _check_offsets(self, report: Report, blocks: int) -> None:
        in_registers = isinstance(self.a.type, VectorType)
        for name, count in (
            ("aOffsets", 0 if in_registers else blocks * self.steps),
            ("bOffsets", self.steps),
        ):
            found = integers_of(self.properties.get(name))
            if len(found) != count or any(offset < 0 or offset % 16 for offset in found):
                report.error(
                    codes.WGMMA_SHAPE,
                    f"expected {count} multiples of 16 bytes, got {list(found)}",
                    attr(name),
                )
        for name in ("transposeA", "transposeB"):
            if self.properties.get(name) is not None and bit_width(self.element) != 16:
                report.error(
                    codes.WGMMA_TRANSPOSE,
                    "only elements of 16 bits may lie along the rows or columns of the result",
                    attr(name),
                )


@_nvvm_op("wgmma.sums")
class WgmmaSumsOp(UpstreamOp):
    """The sums of a product that may be unfinished, when all groups have ended but the ``waitGroup`` youngest (0):
    ``wgmma.wait_group``, with the registers that products write; not upstream's."""

    c = operand_def(K.VECTOR)
    waitGroup = opt_prop_def(K.INT32)
    d = result_def(K.VECTOR)

    SYNTAX: ClassVar = syntax("$c attr-dict : type($c) -> type($d)")
    UNDEFINED: ClassVar = ("a thread of the warpgroup does not take part",)
    EXAMPLES: ClassVar = examples(
        """
        %sums = arith.constant dense<0.0> : vector<32xf32>
        %d = nvvm.wgmma.sums %sums : vector<32xf32> -> vector<32xf32>
        """
    )

    @property
    def unfinished(self) -> int:
        """How many groups may be unfinished behind it."""
        held = self.waitGroup
        return 0 if held is None else held.value.data

    def check(self, report: Report) -> None:
        if self.c.type != self.d.type or element_of(self.c.type) not in SUMS.values():
            report.error(
                codes.WGMMA_TYPE,
                f"expected two vectors of f32 or i32, got '{format_type(self.c.type)}' and "
                f"'{format_type(self.d.type)}'",
                type_of("d"),
            )
