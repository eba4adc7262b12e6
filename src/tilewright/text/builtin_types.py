"""Checks MLIR's rules for its builtin shaped types, which xDSL does not check."""

from __future__ import annotations

from collections.abc import Iterable
from types import UnionType

from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ComplexType,
    DictionaryAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    NoneAttr,
    NoneType,
    StridedLayoutAttr,
    StringAttr,
    TensorType,
    TupleType,
    UnrankedMemRefType,
    UnrankedTensorType,
    UnregisteredAttr,
    VectorType,
)
from xdsl.ir import Attribute, BuiltinAttribute, TypeAttribute
from xdsl.ir.affine import AffineMap

from tilewright.dialects.cuda_tile.types import ELEMENT_NAMES

_NUMBERS = (IntegerType, IndexType, AnyFloat)
#: Element types of vectors. For types of unknown dialects the answer is unknown, so they are accepted.
_OF_VECTOR = (*_NUMBERS, UnregisteredAttr)
#: By name, since importing the dialect takes as long as everything else most modules need.
_POINTER = "llvm.ptr"
_OF_MEMREF = (
    *_NUMBERS,
    ComplexType,
    VectorType,
    MemRefType,
    UnrankedMemRefType,
    UnregisteredAttr,
)
_NOT_OF_TENSOR = (
    MemRefType,
    UnrankedMemRefType,
    StridedLayoutAttr,
    TensorType,
    UnrankedTensorType,
    TupleType,
    NoneType,
    FunctionType,
)


def broken_rule(ty: Attribute) -> str | None:
    """Return the MLIR rule that a vector, memref or tensor violates, or None; None for other types.

    The rules are those of MLIR's verifiers of builtin types, which xDSL lacks.
    """
    if isinstance(ty, VectorType | MemRefType | TensorType) and not _fit(ty.get_shape()):
        return "the extents of a type are integers of 64 bits"
    if isinstance(ty, VectorType):
        if any(dim < 1 for dim in ty.get_shape()):
            return "the extents of a vector are positive"
        if ty.element_type.name != _POINTER and not _is_element(ty.element_type, _OF_VECTOR):
            return "the elements of a vector are integers, indices, floats or pointers of llvm"
    if isinstance(ty, MemRefType | UnrankedMemRefType):
        return _broken_memref(ty)
    if isinstance(ty, TensorType | UnrankedTensorType) and isinstance(
        ty.element_type, _NOT_OF_TENSOR
    ):
        return "the elements of a tensor are numbers, complex numbers, vectors or of a dialect"
    return None


def _broken_memref(ty: MemRefType | UnrankedMemRefType) -> str | None:
    if not _is_element(ty.element_type, _OF_MEMREF):
        return "the elements of a memref are numbers, complex numbers, vectors or memrefs"
    if not _is_space(ty.memory_space):
        return "a memory space is an integer, a string, a dictionary or an attribute of a dialect"
    if isinstance(ty, UnrankedMemRefType):
        return None
    rank = ty.get_num_dims()
    if isinstance(ty.layout, AffineMapAttr) and ty.layout.data.num_dims != rank:
        return f"the layout of a memref of rank {rank} takes {ty.layout.data.num_dims} places"
    if isinstance(ty.layout, StridedLayoutAttr):
        strides = ty.layout.get_strides()
        if len(strides) != rank:
            return f"a memref of rank {rank} has as many strides, not {len(strides)}"
        numbers = (*strides, ty.layout.get_offset())
        # The smallest i64 stands for a dynamic size.
        if not _fit(numbers) or -(1 << 63) in numbers:
            return "strides and offset of a memref are integers of 64 bits"
        if 0 in strides:
            return "the strides of a memref are not zero"
    return None


def _is_space(attribute: Attribute) -> bool:
    """Whether an attribute may be a memory space: few of MLIR's own may."""
    if isinstance(attribute, NoneAttr | IntegerAttr | StringAttr | DictionaryAttr):
        return True
    return not isinstance(attribute, BuiltinAttribute | TypeAttribute)


def _fit(numbers: Iterable[int | None]) -> bool:
    return all(number is None or -(1 << 63) <= number < 1 << 63 for number in numbers)


def _is_element(ty: Attribute, classes: tuple[type[Attribute] | UnionType, ...]) -> bool:
    return isinstance(ty, classes) or ty in ELEMENT_NAMES


def canonical_type(ty: TypeAttribute) -> TypeAttribute:
    """Return the type in MLIR's canonical form: without an identity layout or memory space 0."""
    if not isinstance(ty, MemRefType | UnrankedMemRefType):
        return ty
    space = ty.memory_space
    if isinstance(space, IntegerAttr) and space.value.data == 0:
        space = NoneAttr()
    if isinstance(ty, UnrankedMemRefType):
        return UnrankedMemRefType.from_type(ty.element_type, space)
    layout = ty.layout
    if isinstance(layout, AffineMapAttr):
        results = AffineMap.identity(ty.get_num_dims()).results
        layout = NoneAttr() if layout.data.results == results else layout
    if layout is ty.layout and space is ty.memory_space:
        return ty
    return MemRefType(ty.element_type, ty.get_shape(), layout, space)
