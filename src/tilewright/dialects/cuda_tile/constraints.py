"""What operands, results and properties may be: constraints that can name what they expect."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FunctionType,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.ir import Attribute

from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.attributes import AssumePredicateAttr, OptimizationHintsAttr
from tilewright.dialects.cuda_tile.constants import TileConstantAttr
from tilewright.dialects.cuda_tile.enums import TileEnumAttribute
from tilewright.dialects.cuda_tile.type_syntax import format_type
from tilewright.dialects.declare import NamedConstraint, PropertyKind


@dataclass(frozen=True)
class ValueConstraint(NamedConstraint):
    """A constraint on types that names them as they stand in type slots."""

    def shown(self, attr: Attribute) -> str:
        return f"'{format_type(attr)}'"


@dataclass(frozen=True)
class TileOf(ValueConstraint):
    """A tile with one of some element types, of any or of one rank."""

    elements: frozenset[str]
    rank: int | None = None

    def accepts(self, attr: Attribute) -> bool:
        return (
            isinstance(attr, T.TileType)
            and attr.element in self.elements
            and (self.rank is None or attr.rank == self.rank)
        )

    @property
    def only_type(self) -> Attribute | None:
        if self.rank == 0 and len(self.elements) == 1:
            (element,) = self.elements
            return T.scalar(element) if element in T.ELEMENT_TYPES else None
        return None


@dataclass(frozen=True)
class TypeClass(ValueConstraint):
    """A type of some classes."""

    classes: tuple[type[Attribute], ...]

    def accepts(self, attr: Attribute) -> bool:
        return isinstance(attr, self.classes)

    @property
    def only_type(self) -> Attribute | None:
        return T.TOKEN if self.classes == (T.TokenType,) else None


@dataclass(frozen=True)
class AnyValue(ValueConstraint):
    def accepts(self, attr: Attribute) -> bool:
        return True


@dataclass(frozen=True)
class CudaTileValue(ValueConstraint):
    def accepts(self, attr: Attribute) -> bool:
        return attr in T.ELEMENT_NAMES or attr.name.startswith("cuda_tile.")


def _tile_of(elements: frozenset[str], rank: int | None = None) -> TileOf:
    order = {name: i for i, name in enumerate((*T.ELEMENT_TYPES, "ptr"))}
    listed = " or ".join(sorted(elements, key=order.__getitem__))
    prefix = {None: "tile", 0: "0D tile", 1: "1D tile"}[rank]
    return TileOf(f"{prefix} of {listed} values", elements, rank)


_I4 = frozenset({"i4"})
_PTR = frozenset({"ptr"})
_ALL = T.NUMBER_NAMES | _I4 | _PTR

ANY_TILE = TileOf("tile of any element type", _ALL)
INT_TILE = _tile_of(T.INTEGER_NAMES)
INT_OR_I4_TILE = _tile_of(T.INTEGER_NAMES | _I4)
I1_TILE = _tile_of(frozenset({"i1"}))
I8_TILE = _tile_of(frozenset({"i8"}))
I8_TILE_1D = _tile_of(frozenset({"i8"}), 1)
I32_TILE = _tile_of(frozenset({"i32"}))
I64_TILE = _tile_of(frozenset({"i64"}))
F32_TILE = _tile_of(frozenset({"f32"}))
BASE_FLOAT_TILE = _tile_of(T.BASE_FLOAT_NAMES)
FLOAT_TILE = _tile_of(T.FLOAT_NAMES)
NUMBER_TILE = TileOf("tile of integer (other than i4) or float values", T.NUMBER_NAMES)
NUMBER_OR_I4_TILE_1D = TileOf("1D tile of integer or float values", T.NUMBER_NAMES | _I4, 1)
PTR_TILE = TileOf("tile of pointer values", _PTR)
SCALAR_PTR = TileOf("0D tile of pointer values", _PTR, 0)
SCALAR_INT = _tile_of(T.INTEGER_NAMES, 0)
SCALAR_I1 = _tile_of(frozenset({"i1"}), 0)
SCALAR_I32 = _tile_of(frozenset({"i32"}), 0)
EXPONENT_TILE = _tile_of(frozenset({"i1", "i8", "i16", "i32"}))
MMAF_OPERAND_TILE = _tile_of(frozenset({"f16", "bf16", "f32", "f64", "tf32", "f8E4M3FN", "f8E5M2"}))
MMAF_ACC_TILE = _tile_of(frozenset({"f16", "f32", "f64"}))
SCALED_OPERAND_TILE = _tile_of(frozenset({"f8E4M3FN", "f8E5M2", "f4E2M1FN"}))
SCALE_TILE = _tile_of(frozenset({"f8E4M3FN", "f8E8M0FNU", "f8E5M3FNU"}))
TOKEN = TypeClass("a token", (T.TokenType,))
TENSOR_VIEW = TypeClass("a tensor_view", (T.TensorViewType,))
TILE_VIEW = TypeClass(
    "a partition_view, strided_view or gather_scatter_view",
    (T.PartitionViewType, T.StridedViewType, T.GatherScatterViewType),
)
PARTITION_VIEW = TypeClass("a partition_view", (T.PartitionViewType,))
STRIDED_VIEW = TypeClass("a strided_view", (T.StridedViewType,))
GATHER_SCATTER_VIEW = TypeClass("a gather_scatter_view", (T.GatherScatterViewType,))
ANY_VALUE = AnyValue("a value of any type")
CUDA_TILE_VALUE = CudaTileValue("a number or a value of a cuda_tile type")


@dataclass(frozen=True)
class FieldKind(PropertyKind[Attribute]):
    """What a property holds, and so how bytecode writes it.

    ``wire`` names the encoding: enum, unit, int, bool, str, sym, type, const, i32s, bools,
    array, hints or tagged.
    """

    wire: str = ""

    @property
    def enum(self) -> type[TileEnumAttribute]:
        """The attribute class of the enumeration; for kinds made by ``enum_field`` only."""
        (cls,) = self.classes
        assert issubclass(cls, TileEnumAttribute)
        return cls


def enum_field(cls: type[TileEnumAttribute]) -> FieldKind:
    """The kind of a property that is one member of an enumeration."""
    values = ", ".join(m.value for m in cls.enum_type)
    return FieldKind(f"one of {values}", (cls,), wire="enum")


UNIT = FieldKind("a unit attribute", (UnitAttr,), wire="unit")
INT32 = FieldKind("a 32-bit integer", (IntegerAttr,), 32, wire="int")
INT64 = FieldKind("a 64-bit integer", (IntegerAttr,), 64, wire="int")
BOOL = FieldKind("a boolean", (IntegerAttr,), 1, wire="bool")
STRING = FieldKind("a string", (StringAttr,), wire="str")
SYMBOL = FieldKind("a symbol reference", (SymbolRefAttr,), wire="sym")
FUNCTION_TYPE = FieldKind("a function type", (FunctionType,), wire="type")
CONSTANT = FieldKind("a constant", (TileConstantAttr,), wire="const")
I32_ARRAY = FieldKind("an array of 32-bit integers", (DenseArrayBase,), 32, wire="i32s")
BOOL_ARRAY = FieldKind("an array of booleans", (DenseArrayBase,), 1, wire="bools")
ARRAY = FieldKind("an array", (ArrayAttr,), wire="array")
DICT_ARRAY = FieldKind("an array of dictionaries", (ArrayAttr,), wire="array")
HINTS = FieldKind("optimization hints", (OptimizationHintsAttr,), wire="hints")
PREDICATE = FieldKind("an assume predicate", (AssumePredicateAttr,), wire="tagged")
