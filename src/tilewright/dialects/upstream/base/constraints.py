"""What operands, results and properties of upstream operations may be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

from xdsl.dialects.builtin import (
    ArrayAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    UnrankedMemRefType,
    VectorType,
)
from xdsl.dialects.gpu import AsyncTokenType
from xdsl.ir import Attribute, AttributeCovT

from tilewright.dialects.declare import NamedConstraint
from tilewright.dialects.narrowing import AnyIntegerAttr, is_array, is_integer


@dataclass(frozen=True)
class Kind(NamedConstraint[AttributeCovT], Generic[AttributeCovT]):
    """An attribute or type of some class; ``test`` says more where the class is not enough."""

    cls: type[AttributeCovT]
    test: Callable[[Attribute], bool] | None = None
    fixed: Attribute | None = None

    def accepts(self, attr: Attribute) -> bool:
        """Whether an attribute is of the class, and passes the test."""
        return isinstance(attr, self.cls) and (self.test is None or self.test(attr))

    @property
    def only_type(self) -> Attribute | None:
        return self.fixed


def exactly(description: str, ty: AttributeCovT) -> Kind[AttributeCovT]:
    """The kind that only this attribute is of."""
    return Kind(description, type(ty), lambda attr: attr == ty, ty)


def _is_integer_of(*types: Attribute) -> Callable[[Attribute], bool]:
    return lambda attr: is_integer(attr) and attr.type in types


_is_i64 = _is_integer_of(IntegerType(64))


def _is_i64_array(attr: Attribute) -> bool:
    return is_array(attr) and all(map(_is_i64, attr.data))


INDEX = exactly("an index", IndexType())
I1 = exactly("an i1", IntegerType(1))
I16 = exactly("an i16", IntegerType(16))
I32 = exactly("an i32", IntegerType(32))
_SIZES = (IndexType(), IntegerType(32), IntegerType(64))
SIZE = Kind("an index, i32 or i64", Attribute, lambda t: t in _SIZES)
GPU_TOKEN = Kind("a !gpu.async.token", AsyncTokenType)
ANY_VALUE = Kind("a value of any type", Attribute)
ADDRESS = Kind("an i32 or i64", IntegerType, lambda t: t in (IntegerType(32), IntegerType(64)))
MEMREF: Kind[MemRefType] = Kind("a ranked memref", MemRefType)
UNRANKED_MEMREF = Kind("an unranked memref", UnrankedMemRefType)
VECTOR: Kind[VectorType] = Kind("a vector", VectorType)

FLAG = Kind("a unit attribute", UnitAttr)
STRING = Kind("a string", StringAttr)
SYMBOL = Kind("a symbol reference", SymbolRefAttr)
ARRAY: Kind[ArrayAttr] = Kind("an array", ArrayAttr)
FUNCTION_TYPE = Kind("a function type", FunctionType)
MEMREF_TYPE: Kind[MemRefType] = Kind("a ranked memref type", MemRefType)


def _number(description: str, ty: Attribute) -> Kind[AnyIntegerAttr]:
    return Kind(description, IntegerAttr, _is_integer_of(ty))


BOOL = _number("a boolean", IntegerType(1))
INT32 = _number("a 32-bit integer", IntegerType(32))
INT64 = _number("a 64-bit integer", IntegerType(64))
INDEX_NUMBER = _number("an integer of type index", IndexType())
I64_ARRAY: Kind[ArrayAttr] = Kind("an array of 64-bit integers", ArrayAttr, _is_i64_array)
