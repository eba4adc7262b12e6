"""What every operation of ``arith`` and ``math`` declares: kinds of values, syntax, meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self, TypeVar

from xdsl.dialects.arith import IntegerOverflowAttr, IntegerOverflowFlag
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute, SSAValue

from tilewright.dialects.cuda_tile.types import INTEGER_NAMES, NUMBER_NAMES, i1
from tilewright.dialects.declare import DeclaredOp, declare_op
from tilewright.dialects.facts import Elements
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import is_set
from tilewright.dialects.nv_tileaa.constraints import ElementKind, PropertyKind, enum_kind
from tilewright.dialects.nv_tileaa.enums import RoundingModeAttr
from tilewright.dialects.nv_tileaa.signature import Dictionary
from tilewright.dialects.nv_tileaa.type_syntax import TYPE_SYNTAX
from tilewright.dialects.syntax.assembly import assembly
from tilewright.dialects.upstream.arith.syntax import OverflowFlags

_INDEX = frozenset({"index"})
_I4 = frozenset({"i4"})

INTEGER = ElementKind("a scalar or tile of i1, i8, i16, i32 or i64", INTEGER_NAMES)
WORD = ElementKind("a scalar or tile of i1, i8, i16, i32, i64 or index", INTEGER_NAMES | _INDEX)
INTEGER_OR_I4 = ElementKind("a scalar or tile of i1, i4, i8, i16, i32 or i64", INTEGER_NAMES | _I4)
NUMBER = ElementKind("a scalar or tile of numbers other than i4", NUMBER_NAMES)
EXPONENT = ElementKind("a scalar or tile of i1, i8, i16 or i32", INTEGER_NAMES - {"i64"})

OVERFLOW = PropertyKind("overflow flags, nsw or nuw", (IntegerOverflowAttr,))
ROUNDING = enum_kind(RoundingModeAttr)

#: The readings of integers, as keywords of the element operations.
SIGNED = {"signedness": "signed"}
UNSIGNED = {"signedness": "unsigned"}

#: The names by which the element operations know overflow flags.
_OVERFLOW_NAMES: Mapping[frozenset[IntegerOverflowFlag], str] = {
    frozenset(): "none",
    frozenset({IntegerOverflowFlag.NSW}): "no_signed_wrap",
    frozenset({IntegerOverflowFlag.NUW}): "no_unsigned_wrap",
    frozenset(IntegerOverflowFlag): "no_wrap",
}
_OVERFLOW = "overflowFlags"


def overflow_attr(overflow: str) -> IntegerOverflowAttr | None:
    """The flags of ``no_signed_wrap``, ``no_unsigned_wrap`` or ``no_wrap``; None for ``none``."""
    flags = next(f for f, name in _OVERFLOW_NAMES.items() if name == overflow)
    return IntegerOverflowAttr(flags) if flags else None


@dataclass(frozen=True, slots=True)
class ElementCall:
    """What an operation computes for each element.

    ``numerics.semantics.ELEMENTWISE[name](*operands, element=element, **keywords)`` is the result.
    ``index`` counts as i64.
    """

    name: str
    element: str
    keywords: Mapping[str, str | bool] = field(default_factory=dict[str, str | bool])


def numeric_element(ty: Attribute) -> str:
    """The name under which ``numerics`` knows the elements of a scalar or tile type."""
    element = T.element_of(ty)
    return "i64" if isinstance(element, IndexType) else T.element_name(element)


class ArithOp(DeclaredOp):
    """An operation of ``arith`` or ``math`` on scalars and tiles.

    Beside what every declared operation has:

    * ``MEANING``: the element operation in ``numerics.semantics.ELEMENTWISE``, of the same name unless the class
      says another, and ``KEYWORDS``, the parameters of it that the name of the operation fixes; :meth:`meaning`
      gives the call;
    * ``SOURCE``: the operations of ``cuda_tile`` that become this one, unless that is ``MEANING`` with ``KEYWORDS``;
    * ``ELEMENT_OPERAND``: the operand whose element type the call is told;
    * ``CONVERTS``: whether the call is told the element type of the result.

    ``EXAMPLES`` are bodies of a function, in the setting of ``nv_tileaa.examples.wrap``.
    """

    TYPE_SYNTAX: ClassVar = TYPE_SYNTAX
    ELEMENTS: ClassVar = Elements.SAME_POSITION
    COST: ClassVar = 1
    KEYWORDS: ClassVar[Mapping[str, str | bool]] = {}
    SOURCE: ClassVar[str] = ""
    ELEMENT_OPERAND: ClassVar[int] = 0
    CONVERTS: ClassVar[bool] = False

    @classmethod
    def of(
        cls, *operands: SSAValue, result: Attribute | None = None, **properties: Attribute | None
    ) -> Self:
        """The operation on these values; conversions need the type of the result."""
        if result is None:
            assert not cls.CONVERTS, f"{cls.name} needs the type of its result"
            result = cls.result_type([v.type for v in operands])
        given = {name: value for name, value in properties.items() if value is not None}
        return cls.create(operands=operands, result_types=[result], properties=given)

    @classmethod
    def result_type(cls, operands: Sequence[Attribute]) -> Attribute:
        """The type of the result for operands of these types."""
        return operands[cls.ELEMENT_OPERAND]

    def __post_init__(self) -> None:
        super().__post_init__()
        flags = self.properties.get(_OVERFLOW)
        if isinstance(flags, IntegerOverflowAttr) and not flags.data:
            del self.properties[_OVERFLOW]

    def meaning(self) -> ElementCall:
        """The call that computes the operation."""
        keywords = {**self.KEYWORDS, **self.property_keywords()}
        if self.CONVERTS:
            keywords["to"] = numeric_element(self.results[0].type)
        element = numeric_element(self.operands[self.ELEMENT_OPERAND].type)
        return ElementCall(self.MEANING, element, keywords)

    def property_keywords(self) -> dict[str, str | bool]:
        """The properties of the operation as the keywords that its function in
        ``numerics.semantics`` takes; those at their defaults are left out."""
        found: dict[str, str | bool] = {}
        for name, value in self.properties.items():
            if isinstance(value, IntegerOverflowAttr):
                found["overflow"] = _OVERFLOW_NAMES[frozenset(value.data)]
            elif isinstance(value, RoundingModeAttr):
                found["rounding"] = str(value.data)
            elif is_set(self, name):
                found[name] = True
        return found


_OpT = TypeVar("_OpT", bound=type[ArithOp])

#: Every operation, by its full name, in the order of definition.
OPERATIONS: dict[str, type[ArithOp]] = {}


def _source(cls: type[ArithOp]) -> str:
    """What ``cuda_tile`` has for the call of an operation: the default rounding is not written."""
    said = cls.KEYWORDS.get
    rounding = said("rounding", "zero")
    words = (
        cls.MEANING,
        said("signedness"),
        said("propagate_nan") and "propagate_nan",
        rounding != "zero" and f"rounding<{rounding}>",
    )
    return " ".join(str(word) for word in words if word)


def arith_op(name: str, *, group: str) -> Callable[[_OpT], _OpT]:
    """Declare an operation: its full name and its chapter."""
    dialect, _, mnemonic = name.partition(".")

    def declare(cls: _OpT) -> _OpT:
        defined = declare_op(cls, dialect, mnemonic, group)
        if not any("MEANING" in base.__dict__ for base in cls.__mro__ if issubclass(base, ArithOp)):
            defined.MEANING = mnemonic
        defined.SOURCE = defined.SOURCE or _source(defined)
        OPERATIONS[name] = defined
        return defined

    return declare


def i1_like(ty: Attribute) -> Attribute:
    """i1 in the shape of a type."""
    return T.TileType(ty.dims, i1, ty.layout) if isinstance(ty, T.TileType) else i1


syntax = assembly({"attr-dict": Dictionary()})
UNARY = syntax("$source attr-dict : type($result)")
BINARY = syntax("$lhs, $rhs attr-dict : type($result)")
WRAPPING_BINARY = syntax("$lhs, $rhs", OverflowFlags(), "attr-dict : type($result)")
CONVERSION = syntax("$source attr-dict : type($source) to type($result)")
WRAPPING_CONVERSION = syntax(
    "$source", OverflowFlags(), "attr-dict : type($source) to type($result)"
)
