"""Products of matrices in shared memory by four warps together."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    FloatTF32Type,
    IntegerAttr,
    IntegerType,
    MemRefType,
    VectorType,
)
from xdsl.ir import Attribute
from xdsl.irdl import operand_def, opt_prop_def, result_def

from tilewright.dialects.declare import Report, attr, examples, type_of
from tilewright.dialects.narrowing import memref_type
from tilewright.dialects.nvgpu import codes
from tilewright.dialects.nvgpu.base import NvgpuOp, nvgpu_op
from tilewright.dialects.nvgpu.constraints import ACCUMULATOR, MATRIX_DESCRIPTOR, TENSOR_MAP
from tilewright.dialects.nvgpu.signature import accumulator_type, descriptor_type, map_type, syntax
from tilewright.dialects.nvgpu.tensor_maps import check_map, check_tile
from tilewright.dialects.nvgpu.types import (
    TensorMapDescriptorType,
    WarpgroupAccumulatorType,
    WarpgroupMatrixDescriptorType,
)
from tilewright.dialects.syntax.types import format_type
from tilewright.dialects.upstream.base import codes as shared
from tilewright.dialects.upstream.base.constraints import FLAG, INT32, MEMREF
from tilewright.dialects.upstream.base.shapes import is_fixed_matrix, is_static, show_shape

GROUP = "products of a warpgroup"

#: The rows that one instruction computes.
WGMMA_M = 64
DEFAULT_WAIT_GROUP = 1

_F16, _BF16, _F32, _TF32 = Float16Type(), BFloat16Type(), Float32Type(), FloatTF32Type()
_E4M3, _E5M2, _I32 = Float8E4M3FNType(), Float8E5M2Type(), IntegerType(32)

#: Element types of the accumulator, by those of A and B.
WGMMA_TYPES: dict[tuple[Attribute, Attribute], tuple[Attribute, ...]] = {
    (_F16, _F16): (_F16, _F32),
    (_BF16, _BF16): (_F32,),
    (_TF32, _TF32): (_F32,),
    **{(a, b): (_F16, _F32) for a in (_E4M3, _E5M2) for b in (_E4M3, _E5M2)},
    (IntegerType(8), IntegerType(8)): (_I32,),
    (IntegerType(1), IntegerType(1)): (_I32,),
}
ACCUMULATOR_TYPES = (_F16, _F32, _I32)
#: The numbers of columns that one instruction computes, for floats and for integers.
FLOAT_COLUMNS = frozenset(range(8, 257, 8))
INTEGER_COLUMNS = frozenset((8, 24, *range(16, 257, 16)))


@nvgpu_op("warpgroup.generate.descriptor", group=GROUP)
class WarpgroupGenerateDescriptorOp(NvgpuOp):
    """The matrix in ``tensor``, laid out as ``tensorMap`` copies it, as an operand of products."""

    tensor = operand_def(MEMREF)
    tensorMap = operand_def(TENSOR_MAP)
    descriptor = result_def(MATRIX_DESCRIPTOR)

    SYNTAX: ClassVar = syntax(
        "$tensor, $tensorMap attr-dict : type($tensor),",
        map_type("tensorMap"),
        "->",
        descriptor_type("descriptor"),
    )
    EXAMPLES: ClassVar = examples(
        "%new = nvgpu.warpgroup.generate.descriptor %shared, %map : memref<64x64xf16, 3>, !map -> !desc"
    )

    def check(self, report: Report) -> None:
        memref, ty = memref_type(self.tensor), self.tensorMap.type
        assert isinstance(ty, TensorMapDescriptorType)
        check_map(ty, "tensorMap", report)
        check_tile(ty, memref, "tensor", report)
        if ty.swizzle.keyword != "swizzle_128b":
            report.error(
                codes.DESCRIPTOR,
                f"expected a tensor map with swizzle_128b, got '{ty.swizzle.keyword}'",
                type_of("tensorMap"),
            )
        found = self.descriptor.type
        assert isinstance(found, WarpgroupMatrixDescriptorType)
        if (found.tensor.get_shape(), found.tensor.element_type) != (
            memref.get_shape(),
            memref.element_type,
        ):
            report.error(
                codes.DESCRIPTOR,
                f"expected a descriptor of '{format_type(memref)}', got '{format_type(found)}'",
                type_of("descriptor"),
            )


@nvgpu_op("warpgroup.mma", group=GROUP)
class WarpgroupMmaOp(NvgpuOp):
    """``A B + C`` by the four warps of a warpgroup.

    Waits until at most ``waitGroup`` products of the warpgroup, the youngest, are unfinished, one
    where it is absent. So the result may be read at once only with 0.
    """

    descriptorA = operand_def(MATRIX_DESCRIPTOR)
    descriptorB = operand_def(MATRIX_DESCRIPTOR)
    matrixC = operand_def(ACCUMULATOR)
    waitGroup = opt_prop_def(INT32)
    transposeA = opt_prop_def(FLAG)
    transposeB = opt_prop_def(FLAG)
    matrixD = result_def(ACCUMULATOR)

    SYNTAX: ClassVar = syntax(
        "$descriptorA, $descriptorB, $matrixC attr-dict :",
        descriptor_type("descriptorA"),
        ",",
        descriptor_type("descriptorB"),
        ",",
        accumulator_type("matrixC"),
        "->",
        accumulator_type("matrixD"),
    )
    UNDEFINED: ClassVar = (
        "a thread of the warpgroup does not take part",
        "the result is read before its product has been waited for",
        "a matrix in shared memory is written while the product runs",
    )
    EXAMPLES: ClassVar = examples(
        "%d = nvgpu.warpgroup.mma %descA, %descB, %acc {transposeB, waitGroup = 0 : i32} : !nvgpu.warpgroup.descriptor<tensor = memref<128x64xf16, 3>>, !nvgpu.warpgroup.descriptor<tensor = memref<64x128xf16, 3>>, !acc -> !acc"
    )

    @property
    def unfinished(self) -> int:
        """How many products may be unfinished behind this one."""
        found = self.waitGroup
        return found.value.data if isinstance(found, IntegerAttr) else DEFAULT_WAIT_GROUP

    def check(self, report: Report) -> None:
        if self.transposeA is not None and self.transposeB is None:
            report.error(
                codes.WGMMA_TRANSPOSE,
                "expected A by rows, got transposeA without transposeB",
                attr("transposeA"),
            )
        a, b, c, d = (
            self.descriptorA.type,
            self.descriptorB.type,
            self.matrixC.type,
            self.matrixD.type,
        )
        assert isinstance(a, WarpgroupMatrixDescriptorType)
        assert isinstance(b, WarpgroupMatrixDescriptorType)
        assert isinstance(c, WarpgroupAccumulatorType)
        if c != d:
            report.error(
                codes.WGMMA_TYPE,
                f"expected the result to have the type of 'matrixC', '{format_type(c)}', got "
                f"'{format_type(d)}'",
                type_of("matrixD"),
            )
        if self.unfinished < 0:
            report.error(
                shared.GROUP_COUNT,
                f"expected a number of products in waitGroup, got {self.unfinished}",
                attr("waitGroup"),
            )
        if self._extents_fit(a.tensor, b.tensor, c.fragmented, report):
            self._check_instruction(a.tensor, b.tensor, c.fragmented, report)

    def _extents_fit(self, a: MemRefType, b: MemRefType, c: VectorType, report: Report) -> bool:
        fits = True
        for name, ty, is_matrix in (
            ("descriptorA", a, a.get_num_dims() == 2 and is_static(a)),
            ("descriptorB", b, b.get_num_dims() == 2 and is_static(b)),
            ("matrixC", c, is_fixed_matrix(c)),
        ):
            if not is_matrix:
                report.error(
                    codes.WGMMA_SHAPE,
                    f"expected '{name}' to be a matrix of known extents, got '{format_type(ty)}'",
                    type_of(name),
                )
                fits = False
        if not fits:
            return False
        (m, k), (k_of_b, n), (m_of_c, n_of_c) = a.get_shape(), b.get_shape(), c.get_shape()
        for what, first, second, group in (
            ("as many rows of B as columns of A", k, k_of_b, "descriptorB"),
            ("as many rows of C as of A", m, m_of_c, "matrixC"),
            ("as many columns of C as of B", n, n_of_c, "matrixC"),
        ):
            if first != second:
                message = f"expected {what}, {first}, got {second}"
                report.error(codes.WGMMA_SHAPE, message, type_of(group))
                fits = False
        return fits

    def _check_instruction(
        self, a: MemRefType, b: MemRefType, c: VectorType, report: Report
    ) -> None:
        types = (a.element_type, b.element_type)
        allowed = WGMMA_TYPES.get(types, ())
        if c.element_type not in allowed:
            report.error(
                codes.WGMMA_TYPE,
                f"there is no product of '{format_type(types[0])}' and '{format_type(types[1])}' "
                f"with accumulators of '{format_type(c.element_type)}'",
                type_of("matrixC"),
                help="accumulators may be: " + ", ".join(map(format_type, allowed))
                if allowed
                else "",
            )
            return
        check_accumulator(c, "matrixC", report)


@nvgpu_op("warpgroup.mma.init.accumulator", group=GROUP)
class WarpgroupMmaInitAccumulatorOp(NvgpuOp):
    """An accumulator of zeros."""

    matrixC = result_def(ACCUMULATOR)

    SYNTAX: ClassVar = syntax("attr-dict ->", accumulator_type("matrixC"))
    EXAMPLES: ClassVar = examples("%zeros = nvgpu.warpgroup.mma.init.accumulator -> !acc")

    def check(self, report: Report) -> None:
        ty = self.matrixC.type
        assert isinstance(ty, WarpgroupAccumulatorType)
        if not is_fixed_matrix(ty.fragmented):
            report.error(
                codes.WGMMA_SHAPE,
                f"expected the accumulator to be a matrix, got '{format_type(ty.fragmented)}'",
                type_of("matrixC"),
            )
            return
        if ty.fragmented.element_type not in ACCUMULATOR_TYPES:
            report.error(
                codes.WGMMA_TYPE,
                f"expected accumulators of f16, f32 or i32, got '{format_type(ty.fragmented)}'",
                type_of("matrixC"),
            )
        check_accumulator(ty.fragmented, "matrixC", report)


@nvgpu_op("warpgroup.mma.store", group=GROUP)
class WarpgroupMmaStoreOp(NvgpuOp):
    """Stores an accumulator: each thread of the warpgroup, what it holds."""

    matrixD = operand_def(ACCUMULATOR)
    dstMemref = operand_def(MEMREF)

    SYNTAX: ClassVar = syntax(
        "$matrixD, $dstMemref attr-dict :", accumulator_type("matrixD"), "to type($dstMemref)"
    )
    UNDEFINED: ClassVar = ("the accumulator's product has not been waited for",)
    EXAMPLES: ClassVar = examples(
        "nvgpu.warpgroup.mma.store %acc, %big : !acc to memref<128x128xf32, 3>"
    )

    def check(self, report: Report) -> None:
        ty, memref = self.matrixD.type, memref_type(self.dstMemref)
        assert isinstance(ty, WarpgroupAccumulatorType)
        element = ty.fragmented.element_type
        if element not in ACCUMULATOR_TYPES:
            report.error(
                codes.WGMMA_STORE,
                f"expected accumulators of f16, f32 or i32, got '{format_type(ty.fragmented)}'",
                type_of("matrixD"),
            )
        elif memref.element_type != element:
            report.error(
                codes.WGMMA_STORE,
                f"expected 'dstMemref' to have the elements '{format_type(element)}' of the "
                f"accumulator, got '{format_type(memref)}'",
                type_of("dstMemref"),
            )
        if not is_fixed_matrix(ty.fragmented):
            report.error(
                codes.WGMMA_STORE,
                f"expected the accumulator to be a matrix, got '{format_type(ty.fragmented)}'",
                type_of("matrixD"),
            )
        elif memref.get_shape() != ty.fragmented.get_shape():
            report.error(
                codes.WGMMA_STORE,
                f"expected 'dstMemref' to have the shape {show_shape(ty.fragmented.get_shape())} "
                f"of the accumulator, got {show_shape(memref.get_shape())}",
                type_of("dstMemref"),
            )


def check_accumulator(matrix: VectorType, group: str, report: Report) -> None:
    """Report where no instructions compute such a matrix, from top to bottom (PTX ISA, shapes of ``wgmma``: 64 rows,
    up to 256 columns in steps of 8; of integers in larger steps).
    """
    rows, columns = matrix.get_shape()
    is_integer = isinstance(matrix.element_type, IntegerType)
    if rows % WGMMA_M:
        report.error(
            codes.WGMMA_SHAPE,
            f"expected the rows of the accumulator to be a multiple of {WGMMA_M}, got {rows}",
            type_of(group),
        )
    if columns not in (INTEGER_COLUMNS if is_integer else FLOAT_COLUMNS):
        steps = "8, 24 or a multiple of 16" if is_integer else "a multiple of 8"
        report.error(
            codes.WGMMA_SHAPE,
            f"expected the columns of the accumulator to be {steps}, up to 256, got {columns}",
            type_of(group),
        )
