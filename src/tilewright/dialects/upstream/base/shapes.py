"""Extents, strides and widths of memrefs and vectors."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    AnyFloat,
    FloatTF32Type,
    MemRefType,
    NoneAttr,
    VectorType,
)
from xdsl.ir import Attribute
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
)

from tilewright.dialects.narrowing import is_sized_integer_type, is_vector


def element_of(ty: Attribute) -> Attribute:
    """The element type of a vector; another type is its own."""
    return ty.element_type if is_vector(ty) else ty


def bit_width(element: Attribute) -> int:
    """The bits that a number takes in memory; 0 for types that are no numbers."""
    if isinstance(element, FloatTF32Type):
        return 32
    if is_sized_integer_type(element):
        return element.width.data
    return element.bitwidth if isinstance(element, AnyFloat) else 0


def is_static(memref: MemRefType) -> bool:
    """Whether all extents of a memref are known."""
    return DYNAMIC_INDEX not in memref.get_shape()


def has_unit_stride(memref: MemRefType) -> bool:
    """Whether elements along the last dimension are known to lie side by side."""
    rank = memref.get_num_dims()
    if isinstance(memref.layout, NoneAttr) or not rank:
        return True
    if isinstance(memref.layout, AffineMapAttr):
        (place, *further) = memref.layout.data.results
        return not further and _coefficient(place, rank - 1) == 1
    strides = memref.get_strides()
    return strides is not None and strides[-1] == 1


def _coefficient(expr: AffineExpr, dim: int) -> int | None:
    """What a dimension is multiplied with in a sum of multiples; None for other expressions."""
    if not isinstance(expr, AffineBinaryOpExpr):
        return int(isinstance(expr, AffineDimExpr) and expr.position == dim)
    left, right = _coefficient(expr.lhs, dim), _coefficient(expr.rhs, dim)
    if left is None or right is None:
        return None
    if expr.kind is AffineBinaryOpKind.Add:
        return left + right
    if expr.kind is AffineBinaryOpKind.Mul:
        for factor, other in ((expr.lhs, right), (expr.rhs, left)):
            if isinstance(factor, AffineConstantExpr):
                return factor.value * other
    return None if left or right else 0


def show_shape(shape: Sequence[int]) -> str:
    """Extents for a message, ``?`` for those that are not known."""
    return "x".join("?" if extent == DYNAMIC_INDEX else str(extent) for extent in shape)


def is_fixed_matrix(vector: VectorType) -> bool:
    """Whether a vector has two dimensions of known extent."""
    return len(vector.get_shape()) == 2 and vector.get_num_scalable_dims() == 0
