"""What operands, results and properties of ``nv_tileaa`` may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FunctionType,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, AttributeCovT, TypeAttribute

from tilewright.dialects import declare
from tilewright.dialects.cuda_tile.types import BASE_FLOAT_NAMES, FLOAT_NAMES, INTEGER_NAMES
from tilewright.dialects.declare import NamedConstraint
from tilewright.dialects.narrowing import (
    AnyDenseArray,
    AnyIntegerAttr,
    is_integer,
    signless,
)
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.attributes import ConvParamsAttr, KernelSpecAttr
from tilewright.dialects.nv_tileaa.enums import TileAAEnumAttribute
from tilewright.dialects.nv_tileaa.type_syntax import format_type
from tilewright.numerics.element_types import signed


@dataclass(frozen=True)
class ValueKind(NamedConstraint):
    """A constraint on types that prints them as they stand in type slots."""

    def shown(self, attr: Attribute) -> str:
        return f"'{format_type(attr)}'"


@dataclass(frozen=True)
class ElementKind(ValueKind):
    """A scalar or a tile with one of some element types."""

    elements: frozenset[str]
    scalars: bool = True
    tiles: bool = True
    rank: int | None = None

    def accepts(self, attr: Attribute) -> bool:
        is_tile = isinstance(attr, T.TileType)
        if not (self.tiles if is_tile else self.scalars):
            return False
        if self.rank is not None and len(T.dims_of(attr)) != self.rank:
            return False
        return T.element_name(T.element_of(attr)) in self.elements


@dataclass(frozen=True)
class ClassKind(ValueKind):
    """A type of some classes."""

    classes: tuple[type[Attribute], ...]

    def accepts(self, attr: Attribute) -> bool:
        return isinstance(attr, self.classes)

    @property
    def only_type(self) -> Attribute | None:
        fixed = (T.MEM_TOKEN, T.PROGRAM_ID)
        return next((ty for ty in fixed if self.classes == (type(ty),)), None)


@dataclass(frozen=True)
class AnyKind(ValueKind):
    def accepts(self, attr: Attribute) -> bool:
        return True


@dataclass(frozen=True)
class EitherKind(ValueKind):
    """What one of some kinds accepts."""

    kinds: tuple[NamedConstraint, ...]

    def accepts(self, attr: Attribute) -> bool:
        return any(kind.accepts(attr) for kind in self.kinds)


_PTR = frozenset({"ptr"})
_INDEX = frozenset({"index"})
_NUMBERS = INTEGER_NAMES | FLOAT_NAMES | {"i4"}
_ALL = _NUMBERS | _INDEX | _PTR
_OFFSETS = (INTEGER_NAMES - {"i1"}) | _INDEX

FLOAT = ElementKind("a scalar or tile of f16, bf16, f32 or f64", BASE_FLOAT_NAMES)
ANY_FLOAT = ElementKind("a scalar or tile of floats", FLOAT_NAMES)
INTEGER = ElementKind("a scalar or tile of i8, i16, i32 or i64", INTEGER_NAMES - {"i1"})
I1 = ElementKind("a scalar or tile of i1", frozenset({"i1"}))
I64 = ElementKind("a scalar or tile of i64", frozenset({"i64"}))
NUMBER = ElementKind("a scalar or tile of numbers", _NUMBERS)
ELEMENTS = ElementKind("a scalar or tile", _ALL)
SCALAR = ElementKind("a scalar", _ALL, tiles=False)
TILE = ElementKind("a tile", _ALL, scalars=False)
NUMBER_TILE = ElementKind("a tile of numbers", _NUMBERS, scalars=False)
I32_TILE_1D = ElementKind("a tile of i32 of rank 1", frozenset({"i32"}), scalars=False, rank=1)
RANGE_TILE = ElementKind("a tile of integers or index of rank 1", _OFFSETS, scalars=False, rank=1)
INTEGER_TILE = ElementKind("a tile of integers", INTEGER_NAMES, scalars=False)
PTR = ElementKind("a pointer", _PTR, tiles=False)
PTRS = ElementKind("a pointer or a tile of pointers", _PTR)
INDEX = ElementKind("an index", _INDEX, tiles=False)
INDICES = ElementKind("an index or a tile of index", _INDEX)
OFFSETS = ElementKind("a scalar or tile of index or integers other than i1", _OFFSETS)
OFFSET = ElementKind("an index or an integer other than i1", _OFFSETS, tiles=False)
SCALAR_I1 = ElementKind("an i1", frozenset({"i1"}), tiles=False)
SCALAR_I32 = ElementKind("an i32", frozenset({"i32"}), tiles=False)
MEMREF = ClassKind("a memref", (T.MemrefType,))
VIEW = ClassKind("a memref or a tiled_view", (T.MemrefType, T.TiledViewType))
TILED_VIEW = ClassKind("a tiled_view", (T.TiledViewType,))
TOKEN = ClassKind("a mem_token", (T.MemTokenType,))
QUEUE = ClassKind("a queue", (T.QueueType,))
PROGRAM_ID = ClassKind("a program_id", (T.ProgramIdType,))
ADDRESS = EitherKind("a pointer, a tile of pointers or a memref", (PTRS, MEMREF))
GLOBAL_ADDRESS = EitherKind("a pointer or a memref", (PTR, MEMREF))
RESHAPABLE = EitherKind("a scalar, a tile or a memref", (ELEMENTS, MEMREF))
ANY_VALUE = AnyKind("a value of any type")


@dataclass(frozen=True)
class PropertyKind(declare.PropertyKind[AttributeCovT], Generic[AttributeCovT]):
    """The same, with what the dialect's text needs to know."""

    @property
    def enum(self) -> type[TileAAEnumAttribute] | None:
        """The enumeration that the property holds a value of, if it does."""
        cls = self.classes[0]
        return cls if issubclass(cls, TileAAEnumAttribute) else None

    def narrowed(self, attr: Attribute) -> Attribute:
        """A bare integer, which text makes 64 bits wide, in the width of the property."""
        if (
            is_integer(attr)
            and IntegerAttr in self.classes
            and attr.type == i64
            and 1 < self.width < 64
            and -(1 << (self.width - 1)) <= attr.value.data < 1 << self.width
        ):
            return IntegerAttr(signed(attr.value.data, self.width), signless(self.width))
        return attr


_EnumT = TypeVar("_EnumT", bound=TileAAEnumAttribute)


def enum_kind(cls: type[_EnumT]) -> PropertyKind[_EnumT]:
    """The kind of a property that is one member of an enumeration."""
    values = ", ".join(m.value for m in cls.enum_type)
    return PropertyKind(f"one of {values}", (cls,))


FLAG: PropertyKind[UnitAttr | AnyIntegerAttr] = PropertyKind(
    "a unit attribute or a boolean", (UnitAttr, IntegerAttr), 1
)
BOOL: PropertyKind[AnyIntegerAttr] = PropertyKind("a boolean", (IntegerAttr,), 1)
INT32: PropertyKind[AnyIntegerAttr] = PropertyKind("a 32-bit integer", (IntegerAttr,), 32)
INT64: PropertyKind[AnyIntegerAttr] = PropertyKind("a 64-bit integer", (IntegerAttr,), 64)
STRING = PropertyKind("a string", (StringAttr,))
SYMBOL = PropertyKind("a symbol reference", (SymbolRefAttr,))
ARRAY: PropertyKind[ArrayAttr] = PropertyKind("an array", (ArrayAttr,))
I32_ARRAY: PropertyKind[AnyDenseArray] = PropertyKind(
    "an array of 32-bit integers", (DenseArrayBase,), 32
)
I64_ARRAY: PropertyKind[AnyDenseArray] = PropertyKind(
    "an array of 64-bit integers", (DenseArrayBase,), 64
)
BOOL_ARRAY: PropertyKind[AnyDenseArray] = PropertyKind("an array of booleans", (DenseArrayBase,), 1)
FUNCTION_TYPE = PropertyKind("a function type", (FunctionType,))
TYPE: PropertyKind[Attribute] = PropertyKind("a type", (TypeAttribute,))
ANY_ATTRIBUTE = PropertyKind("an attribute", (Attribute,))
CONV_PARAMS = PropertyKind("conv_params", (ConvParamsAttr,))
KERNEL_SPEC = PropertyKind("a kernel_spec", (KernelSpecAttr,))
