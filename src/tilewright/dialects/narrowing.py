"""Tests of attributes whose classes have type parameters, so that a checker knows what they hold.

After ``isinstance(value, ArrayAttr)`` nothing is known of the elements; after :func:`is_array` they
are attributes, which is all that xDSL guarantees. Nothing inside is looked at when one of these runs.
"""

from __future__ import annotations

from typing import TypeAlias, TypeGuard

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IndexType,
    IntAttr,
    IntegerAttr,
    IntegerType,
)
from xdsl.dialects.utils.enum_attribute import EnumAttribute
from xdsl.utils.str_enum import StrEnum

AnyIntegerAttr: TypeAlias = "IntegerAttr[IntegerType | IndexType]"
AnyDenseArray: TypeAlias = "DenseArrayBase[IntegerType | AnyFloat]"


def is_array(value: object) -> TypeGuard[ArrayAttr]:
    """Whether a value is an array of attributes, of any kinds."""
    return isinstance(value, ArrayAttr)


def is_dense_array(value: object) -> TypeGuard[AnyDenseArray]:
    """Whether a value is an ``array<...>`` of numbers of one type."""
    return isinstance(value, DenseArrayBase)


def is_int(value: object) -> TypeGuard[IntAttr]:
    """Whether a value is a number without a type, as parameters of attributes are."""
    return isinstance(value, IntAttr)


def is_integer(value: object) -> TypeGuard[AnyIntegerAttr]:
    """Whether a value is a number of an integer type or of ``index``."""
    return isinstance(value, IntegerAttr)


def is_integer_type(value: object) -> TypeGuard[IntegerType | IndexType]:
    """Whether a value is an integer type, of any width and signedness, or ``index``."""
    return isinstance(value, IntegerType | IndexType)


def is_float(value: object) -> TypeGuard[FloatAttr[AnyFloat]]:
    """Whether a value is a number of a floating-point type."""
    return isinstance(value, FloatAttr)


def is_enum(value: object) -> TypeGuard[EnumAttribute[StrEnum]]:
    """Whether a value is an enumeration attribute; its ``data.value`` is the keyword."""
    return isinstance(value, EnumAttribute)
