"""Matrices in the registers of a warp: loads from shared memory, and products."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerAttr,
    IntegerType,
)
from xdsl.ir import Attribute
from xdsl.irdl import (
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, Pure

from tilewright.dialects.declare import Report, attr, examples, int_property, operand, type_of
from tilewright.dialects.narrowing import integers_of, memref_type, vector_type
from tilewright.dialects.nvgpu import codes
from tilewright.dialects.nvgpu.base import NvgpuOp, nvgpu_op
from tilewright.dialects.nvgpu.constraints import METADATA, METADATA_TYPE
from tilewright.dialects.nvgpu.signature import Parenthesized, ParenthesizedTypes, syntax
from tilewright.dialects.syntax.engine import values_of
from tilewright.dialects.syntax.types import format_type
from tilewright.dialects.upstream.base import codes as shared
from tilewright.dialects.upstream.base import constraints as K
from tilewright.dialects.upstream.base.shapes import bit_width, is_fixed_matrix, show_shape
from tilewright.dialects.upstream.gpu.spaces import is_shared

GROUP = "matrices of a warp"

WARP_SIZE = 32
#: How many matrices of 8 rows of 16 bytes one instruction loads.
LDMATRIX_COUNTS = (1, 2, 4)

_E4M3, _E5M2 = Float8E4M3FNType(), Float8E5M2Type()
#: The floats of 8 bits, of which a product may take one of each kind.
_BYTE_FLOATS: tuple[Attribute, ...] = (_E4M3, _E5M2)

#: Extents (m, n, k) of the products that there are instructions for, by element type of A and B.
DENSE_SHAPES: dict[Attribute, tuple[tuple[int, int, int], ...]] = {
    Float16Type(): ((16, 8, 8), (16, 8, 16)),
    BFloat16Type(): ((16, 8, 8), (16, 8, 16)),
    Float32Type(): ((16, 8, 4), (16, 8, 8)),
    Float64Type(): ((8, 8, 4),),
    IntegerType(8): ((8, 8, 16), (16, 8, 16), (16, 8, 32)),
    IntegerType(4): ((8, 8, 32), (16, 8, 32), (16, 8, 64)),
    _E4M3: ((16, 8, 32),),
    _E5M2: ((16, 8, 32),),
}
SPARSE_SHAPES: dict[Attribute, tuple[tuple[int, int, int], ...]] = {
    Float16Type(): ((16, 8, 16), (16, 8, 32)),
    BFloat16Type(): ((16, 8, 16), (16, 8, 32)),
    Float32Type(): ((16, 8, 8), (16, 8, 16)),
    IntegerType(8): ((16, 8, 32), (16, 8, 64)),
    IntegerType(4): ((16, 8, 64), (16, 8, 128)),
}
#: Element types of C and of the result, by element type of A and B.
ACCUMULATORS: dict[Attribute, tuple[Attribute, ...]] = {
    Float16Type(): (Float16Type(), Float32Type()),
    BFloat16Type(): (Float32Type(),),
    Float32Type(): (Float32Type(),),
    Float64Type(): (Float64Type(),),
    _E4M3: (Float16Type(), Float32Type()),
    _E5M2: (Float16Type(), Float32Type()),
    IntegerType(8): (IntegerType(32),),
    IntegerType(4): (IntegerType(32),),
}


@nvgpu_op("ldmatrix", group=GROUP)
class LdMatrixOp(NvgpuOp):
    """Loads ``numTiles`` matrices of 8 rows of 16 bytes from shared memory.

    Lane ``8 i + r`` of the warp gives the place of row ``r`` of matrix ``i``. Row ``i`` of the
    result is what the lane holds of matrix ``i``: 32 bits of row ``lane / 4``, at place
    ``lane % 4``, or of the transposed matrix.
    """

    srcMemref = operand_def(K.MEMREF)
    indices = var_operand_def(K.INDEX)
    transpose = prop_def(K.BOOL)
    numTiles = prop_def(K.INT32)
    res = result_def(K.VECTOR)

    traits = traits_def(MemoryReadEffect())
    SYNTAX: ClassVar = syntax("$srcMemref[$indices*] attr-dict : type($srcMemref) -> type($res)")
    UNDEFINED: ClassVar = (
        "a lane of the warp does not take part",
        "the address of a row is not a multiple of 16 bytes",
    )
    EXAMPLES: ClassVar = examples(
        "%m = nvgpu.ldmatrix %shared[%i, %j] {numTiles = 4 : i32, transpose = false} : memref<64x64xf16, 3> -> vector<4x2xf16>"
    )

    def check(self, report: Report) -> None:
        memref, result = memref_type(self.srcMemref), vector_type(self.res)
        element, count = memref.element_type, int_property(self, "numTiles")
        width = bit_width(element)
        if not is_shared(memref):
            report.error(
                shared.MEMORY_SPACE,
                f"expected 'srcMemref' to lie in shared memory, got '{format_type(memref)}'",
                type_of("srcMemref"),
            )
        if result.element_type != element:
            report.error(
                shared.ELEMENT_TYPE,
                f"expected the result to have the element type '{format_type(element)}' of "
                f"'srcMemref', got '{format_type(result.element_type)}'",
                type_of("res"),
            )
        if len(self.indices) != memref.get_num_dims():
            report.error(
                shared.INDEX_COUNT,
                f"expected {memref.get_num_dims()} indices of 'srcMemref', got {len(self.indices)}",
                operand("indices"),
            )
        if count not in LDMATRIX_COUNTS:
            report.error(
                codes.LDMATRIX, f"expected numTiles to be 1, 2 or 4, got {count}", attr("numTiles")
            )
        if not width or 32 % width:
            report.error(
                shared.ELEMENT_TYPE,
                f"expected elements of which some fill 32 bits, got '{format_type(element)}'",
                type_of("srcMemref"),
            )
            return
        if int_property(self, "transpose") and width != 16:
            report.error(
                codes.LDMATRIX,
                f"expected elements of 16 bits to transpose, got '{format_type(element)}'",
                attr("transpose"),
            )
        expected = (count, 32 // width)
        if not is_fixed_matrix(result) or result.get_shape() != expected:
            report.error(
                shared.FRAGMENT,
                f"expected the result to have the shape {show_shape(expected)}: a row for each "
                f"matrix, and 32 bits of it; got '{format_type(result)}'",
                type_of("res"),
            )


class MmaOp(NvgpuOp):
    """What dense and sparse products have in common."""

    SHAPES: ClassVar[dict[Attribute, tuple[tuple[int, int, int], ...]]]
    #: How many elements of A stand for one that is stored.
    COMPRESSION: ClassVar[int] = 1

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents m, n and k of the product."""
        return integers_of(self.properties["mmaShape"])

    def fragments(self) -> dict[str, tuple[int, int]]:
        """The shapes of what a thread holds of A, B, C and the result; the extents must exist."""
        m, n, k = self.shape
        width = bit_width(vector_type(values_of(self, "matrixA")[0]).element_type)
        per_register = 1 if width == 64 else 32 // width
        tiles_k = k // 4 if width == 64 else k * width // 128
        a = (m // 8) * tiles_k // self.COMPRESSION, per_register
        b = (n // 8) * tiles_k, per_register
        c = (m // 8) * (n // 8), 2
        return {"matrixA": a, "matrixB": b, "matrixC": c, "res": c}

    def check(self, report: Report) -> None:
        names = ("matrixA", "matrixB", "matrixC", "res")
        vectors = {name: vector_type(values_of(self, name)[0]) for name in names}
        elements = {name: vector.element_type for name, vector in vectors.items()}
        if self._types_fit(elements, report) and self._shape_exists(elements["matrixA"], report):
            for name, expected in self.fragments().items():
                vector = vectors[name]
                if not is_fixed_matrix(vector) or vector.get_shape() != expected:
                    report.error(
                        shared.FRAGMENT,
                        f"expected '{name}' to have the shape {show_shape(expected)}, got "
                        f"'{format_type(vector)}'",
                        type_of(name),
                    )

    def _types_fit(self, elements: dict[str, Attribute], report: Report) -> bool:
        """Report types that there is no product of; whether there is one."""
        a, c = elements["matrixA"], elements["matrixC"]
        if a not in self.SHAPES:
            known = ", ".join(format_type(ty) for ty in self.SHAPES)
            report.error(
                codes.MMA_TYPE,
                f"expected 'matrixA' to be of one of {known}, got '{format_type(a)}'",
                type_of("matrixA"),
            )
            return False
        fits = True
        right = _BYTE_FLOATS if a in _BYTE_FLOATS else (a,)
        for name, wanted in (("matrixB", right), ("matrixC", ACCUMULATORS[a]), ("res", (c,))):
            if elements[name] not in wanted:
                listed = " or ".join(format_type(ty) for ty in wanted)
                report.error(
                    codes.MMA_TYPE,
                    f"expected '{name}' to have elements of {listed} beside '{format_type(a)}' in "
                    f"'matrixA', got '{format_type(elements[name])}'",
                    type_of(name),
                )
                fits = False
        if "tf32Enabled" in self.properties and not isinstance(a, Float32Type):
            report.error(
                codes.TF32,
                f"expected operands of f32 where tf32Enabled is given, got '{format_type(a)}'",
                attr("tf32Enabled"),
            )
        return fits

    def _shape_exists(self, element: Attribute, report: Report) -> bool:
        if self.shape in self.SHAPES[element]:
            return True
        known = ", ".join(str(list(shape)) for shape in self.SHAPES[element])
        report.error(
            codes.MMA_SHAPE,
            f"expected mmaShape to be one of {known} for elements of '{format_type(element)}', "
            f"got {list(self.shape)}",
            attr("mmaShape"),
        )
        return False


_OPERANDS = ("matrixA", "matrixB", "matrixC")
_CONVERGED = "a lane of the warp does not take part"


@nvgpu_op("mma.sync", group=GROUP)
class MmaSyncOp(MmaOp):
    """``A B + C``, with the matrices spread over the registers of the warp.

    Integers are signed and saturate; with ``wraps`` the sum is modulo 2^32, and operands of which
    ``unsignedA`` or ``unsignedB`` says so count from 0. Floats of 8 bits may be of two kinds. These
    and the three properties are not upstream's.
    """

    matrixA = operand_def(K.VECTOR)
    matrixB = operand_def(K.VECTOR)
    matrixC = operand_def(K.VECTOR)
    mmaShape = prop_def(K.I64_ARRAY)
    tf32Enabled = opt_prop_def(K.FLAG)
    wraps = opt_prop_def(K.FLAG)
    unsignedA = opt_prop_def(K.FLAG)
    unsignedB = opt_prop_def(K.FLAG)
    res = result_def(K.VECTOR)

    traits = traits_def(Pure())
    SHAPES: ClassVar = DENSE_SHAPES
    SYNTAX: ClassVar = syntax(
        Parenthesized(_OPERANDS), "attr-dict :", ParenthesizedTypes(_OPERANDS), "-> type($res)"
    )
    UNDEFINED: ClassVar = (_CONVERGED,)
    EXAMPLES: ClassVar = examples(
        "%d = nvgpu.mma.sync(%a, %b, %c) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>"
    )

    def check(self, report: Report) -> None:
        super().check(report)
        element = vector_type(self.matrixA).element_type
        if isinstance(element, IntegerType):
            return
        for name in ("wraps", "unsignedA", "unsignedB"):
            if name in self.properties:
                report.error(
                    codes.MMA_TYPE,
                    f"expected operands of integers where {name} is given, got '{format_type(element)}'",
                    attr(name),
                )


@nvgpu_op("mma.sp.sync", group=GROUP)
class MmaSparseSyncOp(MmaOp):
    """``A B + C`` where half of the elements in each row of A are zero and not stored.

    ``sparseMetadata`` says which are stored; ``sparsitySelector``, which threads give it.
    """

    matrixA = operand_def(K.VECTOR)
    matrixB = operand_def(K.VECTOR)
    matrixC = operand_def(K.VECTOR)
    sparseMetadata = operand_def(METADATA)
    mmaShape = prop_def(K.I64_ARRAY)
    sparsitySelector = prop_def(K.INT32, default_value=IntegerAttr(0, IntegerType(32)))
    tf32Enabled = opt_prop_def(K.FLAG)
    res = result_def(K.VECTOR)

    traits = traits_def(Pure())
    SHAPES: ClassVar = SPARSE_SHAPES
    COMPRESSION: ClassVar = 2
    INFER: ClassVar = {"sparseMetadata": lambda state: [METADATA_TYPE]}
    SYNTAX: ClassVar = syntax(
        Parenthesized(_OPERANDS),
        Parenthesized(("sparseMetadata",), "metadata"),
        "attr-dict :",
        ParenthesizedTypes(_OPERANDS),
        "-> type($res)",
    )
    UNDEFINED: ClassVar = (_CONVERGED, "the metadata does not name different elements in order")
    EXAMPLES: ClassVar = examples(
        "%d = nvgpu.mma.sp.sync(%a, %sb, %c) metadata(%meta) {mmaShape = [16, 8, 32], sparsitySelector = 1 : i32} : (vector<4x2xf16>, vector<4x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>"
    )

    def check(self, report: Report) -> None:
        super().check(report)
        selector = int_property(self, "sparsitySelector")
        if selector not in (0, 1):
            report.error(
                codes.SPARSITY,
                f"expected sparsitySelector to be 0 or 1, got {selector}",
                attr("sparsitySelector"),
            )
