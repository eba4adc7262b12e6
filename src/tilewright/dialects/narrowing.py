"""Tests of attributes whose classes have type parameters, so that a checker knows what they hold.

After ``isinstance(value, ArrayAttr)`` nothing is known of the elements; after :func:`is_array` they
are attributes, which is all that xDSL guarantees. Nothing inside is looked at when one of these runs.
"""

from __future__ import annotations

from functools import cache
from typing import TypeAlias, TypeGuard

from xdsl.dialects.builtin import (
    AnyDenseElement,
    AnyFloat,
    ArrayAttr,
    ComplexType,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    VectorType,
)
from xdsl.dialects.utils.enum_attribute import EnumAttribute
from xdsl.ir import SSAValue
from xdsl.utils.str_enum import StrEnum

AnyIntegerAttr: TypeAlias = "IntegerAttr[IntegerType | IndexType]"
AnyDense: TypeAlias = "DenseIntOrFPElementsAttr[AnyDenseElement]"
IntegerArray: TypeAlias = "DenseArrayBase[IntegerType]"
AnyDenseArray: TypeAlias = "DenseArrayBase[IntegerType | AnyFloat]"


@cache
def signless(width: int) -> IntegerType:
    """The type ``iN``; the same object for the same width."""
    return IntegerType(width)


def is_array(value: object) -> TypeGuard[ArrayAttr]:
    """Whether a value is an array of attributes, of any kinds."""
    return isinstance(value, ArrayAttr)


def integers_of(value: object) -> tuple[int, ...]:
    """The numbers of an array of integers, ``[1, 2]`` or ``array<i64: 1, 2>``; none of what is no such
    array."""
    if is_integer_array(value):
        return tuple(value.iter_values())
    members = value.data if is_array(value) else ()
    return tuple(n.value.data for n in members if is_integer(n))


def is_dense_array(value: object) -> TypeGuard[AnyDenseArray]:
    """Whether a value is an ``array<...>`` of numbers of one type."""
    return isinstance(value, DenseArrayBase)


def is_dense(value: object) -> TypeGuard[AnyDense]:
    """Whether a value is a ``dense<...>`` of numbers, for a vector, tensor or memref."""
    return isinstance(value, DenseIntOrFPElementsAttr)


def is_integer_array(value: object) -> TypeGuard[IntegerArray]:
    """Whether a value is an ``array<...>`` of integers of one width."""
    return is_dense_array(value) and isinstance(value.elt_type, IntegerType)


def is_int(value: object) -> TypeGuard[IntAttr]:
    """Whether a value is a number without a type, as parameters of attributes are."""
    return isinstance(value, IntAttr)


def is_integer(value: object) -> TypeGuard[AnyIntegerAttr]:
    """Whether a value is a number of an integer type or of ``index``."""
    return isinstance(value, IntegerAttr)


def is_integer_type(value: object) -> TypeGuard[IntegerType | IndexType]:
    """Whether a value is an integer type, of any width and signedness, or ``index``."""
    return isinstance(value, IntegerType | IndexType)


def is_sized_integer_type(value: object) -> TypeGuard[IntegerType]:
    """Whether a value is an integer type of a width, which ``index`` is not."""
    return isinstance(value, IntegerType)


def is_number_type(value: object) -> TypeGuard[AnyDenseElement]:
    """Whether a value is a type of which a ``dense<...>`` may be."""
    return isinstance(value, IntegerType | IndexType | AnyFloat | ComplexType)


def is_float(value: object) -> TypeGuard[FloatAttr[AnyFloat]]:
    """Whether a value is a number of a floating-point type."""
    return isinstance(value, FloatAttr)


def is_vector(value: object) -> TypeGuard[VectorType]:
    """Whether a value is a vector type, of any elements."""
    return isinstance(value, VectorType)


def is_memref(value: object) -> TypeGuard[MemRefType]:
    """Whether a value is upstream's type of a ranked memref, of any elements."""
    return isinstance(value, MemRefType)


def vector_type(value: SSAValue) -> VectorType:
    """The type of an operand or result that its constraint says is a vector; AssertionError where it is none."""
    ty = value.type
    assert is_vector(ty), ty
    return ty


def memref_type(value: SSAValue) -> MemRefType:
    """The type of an operand or result that its constraint says is a ranked memref; AssertionError where it is none."""
    ty = value.type
    assert is_memref(ty), ty
    return ty


def is_enum(value: object) -> TypeGuard[EnumAttribute[StrEnum]]:
    """Whether a value is an enumeration attribute; its ``data.value`` is the keyword."""
    return isinstance(value, EnumAttribute)
