"""Maps the types of ``nv_tileaa`` to those of per-thread code."""

from __future__ import annotations

from xdsl.dialects import builtin as b
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import Attribute

from tilewright.dialects.nv_tileaa import types as T

I1, I8, I32, I64 = (b.IntegerType(width) for width in (1, 8, 32, 64))
INDEX = b.IndexType()
GLOBAL_POINTER = LLVMPointerType(b.IntAttr(1))
SHARED_SPACE = b.IntegerAttr(3, b.IntegerType(64))
#: Numbers of tf32 are those of f32 that it has.
FLOATS: dict[str, Attribute] = {
    "f16": b.Float16Type(),
    "bf16": b.BFloat16Type(),
    "f32": b.Float32Type(),
    "tf32": b.Float32Type(),
    "f64": b.Float64Type(),
    "f8E4M3FN": b.Float8E4M3FNType(),
    "f8E5M2": b.Float8E5M2Type(),
    "f8E8M0FNU": b.Float8E8M0FNUType(),
    "f4E2M1FN": b.Float4E2M1FNType(),
}


def element_type(ty: Attribute) -> Attribute | None:
    """The per-thread type of an element, else None. Pointers and indices are i64."""
    if isinstance(ty, b.IndexType | T.PtrType):
        return I64
    if isinstance(ty, b.IntegerType):
        return b.IntegerType(ty.width.data)
    return FLOATS.get(T.element_name(ty))


def element_bytes(ty: Attribute) -> int:
    """The size of an element in memory, in bytes; a number of fewer than 8 bits takes one."""
    if isinstance(ty, b.IntegerType):
        return max(ty.width.data // 8, 1)
    assert isinstance(ty, b.AnyFloat)
    return max(ty.bitwidth // 8, 1)


def is_vector(ty: Attribute) -> bool:
    """Whether a per-thread type is a vector."""
    return isinstance(ty, b.VectorType)


def scalar_of(ty: Attribute) -> Attribute:
    """The element type of a vector; any other type itself."""
    return ty.element_type if isinstance(ty, b.VectorType) else ty


def vector_like(ty: Attribute, element: Attribute) -> Attribute:
    """The type with ``element`` in place of its elements."""
    return b.VectorType(element, ty.get_shape()) if isinstance(ty, b.VectorType) else element


def width_of(ty: Attribute) -> int:
    """The width in bits of a scalar, or of a vector's elements."""
    element = scalar_of(ty)
    if isinstance(element, b.IntegerType):
        return element.width.data
    assert isinstance(element, b.AnyFloat)
    return element.bitwidth
