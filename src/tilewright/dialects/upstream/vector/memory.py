"""Vectors whose masked elements lie side by side in memory: ``vector.expandload``, ``compressstore``."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IntegerType, VectorType
from xdsl.irdl import operand_def, result_def, traits_def, var_operand_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from tilewright.dialects.declare import Report, examples, operand, same_type, type_of
from tilewright.dialects.narrowing import memref_type
from tilewright.dialects.syntax.engine import values_of
from tilewright.dialects.syntax.types import format_type
from tilewright.dialects.upstream.base import codes
from tilewright.dialects.upstream.base.constraints import INDEX, MEMREF, VECTOR, Kind
from tilewright.dialects.upstream.base.directives import syntax
from tilewright.dialects.upstream.base.operations import UpstreamOp, upstream_op
from tilewright.dialects.upstream.base.shapes import show_shape
from tilewright.dialects.upstream.vector.shapes import element_of, shape_of

#: The attribute of ``vector.load`` and ``vector.store`` that says which power of two, in bytes, their address is a
#: multiple of (a property of newer versions of upstream's).
ALIGNMENT = "alignment"

_MASK = Kind(
    "a vector of i1",
    VectorType,
    lambda t: element_of(t) == IntegerType(1),
)


class CompactOp(UpstreamOp):
    """What both check; ``VALUE`` names the vector that has the elements of the memref."""

    VALUE: ClassVar[str] = "result"

    def check(self, report: Report) -> None:
        (base,), indices = values_of(self, "base"), values_of(self, "indices")
        (value,), (mask,) = values_of(self, self.VALUE), values_of(self, "mask")
        ty = memref_type(base)
        if len(indices) != ty.get_num_dims():
            report.error(
                codes.INDEX_COUNT,
                f"expected {ty.get_num_dims()} indices of 'base', got {len(indices)}",
                operand("indices") if indices else operand("base"),
            )
        if element_of(value.type) != ty.element_type:
            report.error(
                codes.ELEMENT_TYPE,
                f"expected '{self.VALUE}' to have the elements '{format_type(ty.element_type)}' "
                f"of 'base', got '{format_type(value.type)}'",
                type_of(self.VALUE),
            )
        shape = shape_of(value.type)
        if len(shape) != 1:
            report.error(
                codes.VECTOR_SHAPE,
                f"expected '{self.VALUE}' to have one dimension, got '{format_type(value.type)}'",
                type_of(self.VALUE),
            )
        if shape_of(mask.type) != shape:
            report.error(
                codes.VECTOR_SHAPE,
                f"expected 'mask' to have the shape {show_shape(shape)}, got "
                f"'{format_type(mask.type)}'",
                type_of("mask"),
            )


@upstream_op("vector", "expandload")
class ExpandLoadOp(CompactOp):
    """Elements that lie side by side in memory, one after the other for the places where ``mask``
    holds; others are those of ``pass_thru``."""

    base = operand_def(MEMREF)
    indices = var_operand_def(INDEX)
    mask = operand_def(_MASK)
    pass_thru = operand_def(VECTOR)
    result = result_def(VECTOR)

    traits = traits_def(MemoryReadEffect())
    RELATIONS: ClassVar = (same_type("pass_thru", "result"),)
    SYNTAX: ClassVar = syntax(
        "$base[$indices*], $mask, $pass_thru attr-dict : type($base), type($mask), type($pass_thru) into type($result)"
    )
    UNDEFINED: ClassVar = ("an element where the mask holds lies outside",)
    EXAMPLES: ClassVar = examples(
        """
        %mask = vector.constant_mask [3] : vector<4xi1>
        %w = vector.shape_cast %v : vector<2x2xf32> to vector<4xf32>
        %e = vector.expandload %big[%i, %j], %mask, %w : memref<128x128xf32, 3>, vector<4xi1>, vector<4xf32> into vector<4xf32>
        """
    )


@upstream_op("vector", "compressstore")
class CompressStoreOp(CompactOp):
    """Stores the elements where ``mask`` holds side by side."""

    base = operand_def(MEMREF)
    indices = var_operand_def(INDEX)
    mask = operand_def(_MASK)
    valueToStore = operand_def(VECTOR)

    traits = traits_def(MemoryWriteEffect())
    VALUE: ClassVar = "valueToStore"
    SYNTAX: ClassVar = syntax(
        "$base[$indices*], $mask, $valueToStore attr-dict : type($base), type($mask), type($valueToStore)"
    )
    UNDEFINED: ClassVar = ("an element where the mask holds lies outside",)
    EXAMPLES: ClassVar = examples(
        """
        %mask = vector.constant_mask [3] : vector<4xi1>
        %w = vector.shape_cast %v : vector<2x2xf32> to vector<4xf32>
        vector.compressstore %big[%i, %j], %mask, %w : memref<128x128xf32, 3>, vector<4xi1>, vector<4xf32>
        """
    )
