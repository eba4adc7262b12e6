"""The enumerations of ``cuda_tile`` and their attributes.

A member's position is its bytecode value; ``SINCE`` lists the members younger than 13.1.
"""

from __future__ import annotations

from enum import auto
from typing import Any, ClassVar

from xdsl.dialects.utils.enum_attribute import EnumAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.utils.str_enum import StrEnum

from tilewright.dialects.keywords import AngledAttr
from tilewright.dialects.versions import V13_4, V13_5, Version


class RoundingMode(StrEnum):
    NEAREST_EVEN = auto()
    ZERO = auto()
    NEGATIVE_INF = auto()
    POSITIVE_INF = auto()
    APPROX = auto()
    FULL = auto()
    NEAREST_INT_TO_ZERO = auto()
    NEAREST_AWAY = auto()


class IntegerOverflow(StrEnum):
    NONE = auto()
    NO_SIGNED_WRAP = auto()
    NO_UNSIGNED_WRAP = auto()
    NO_WRAP = auto()


class Signedness(StrEnum):
    UNSIGNED = auto()
    SIGNED = auto()


class ComparisonPredicate(StrEnum):
    EQUAL = auto()
    NOT_EQUAL = auto()
    LESS_THAN = auto()
    LESS_THAN_OR_EQUAL = auto()
    GREATER_THAN = auto()
    GREATER_THAN_OR_EQUAL = auto()


class ComparisonOrdering(StrEnum):
    UNORDERED = auto()
    ORDERED = auto()


class AtomicRMWMode(StrEnum):
    AND = auto()
    OR = auto()
    XOR = auto()
    ADD = auto()
    ADDF = auto()
    MAX = auto()
    MIN = auto()
    UMAX = auto()
    UMIN = auto()
    XCHG = auto()


class MemoryOrderingSemantics(StrEnum):
    WEAK = auto()
    RELAXED = auto()
    ACQUIRE = auto()
    RELEASE = auto()
    ACQ_REL = auto()


class MemoryScope(StrEnum):
    TL_BLK = auto()
    DEVICE = auto()
    SYS = auto()


class SymbolVisibility(StrEnum):
    PUBLIC = auto()
    PRIVATE = auto()


class PaddingValue(StrEnum):
    ZERO = auto()
    NEG_ZERO = auto()
    NAN = auto()
    POS_INF = auto()
    NEG_INF = auto()


class PtrAttr(StrEnum):
    NONE = auto()
    UNICAST = auto()
    MULTICAST = auto()


class MultimemReductionKind(StrEnum):
    ADD = auto()
    MIN = auto()
    MAX = auto()
    AND = auto()
    OR = auto()
    XOR = auto()
    UMIN = auto()
    UMAX = auto()


class TileEnumAttribute(AngledAttr):
    """What every enumeration attribute here offers: codes, versions and the ``<value>`` syntax."""

    SINCE: ClassVar[dict[str, Version]] = {}

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Any:
        """The member whose keyword stands in angle brackets."""
        with parser.in_angle_brackets():
            return parser.parse_str_enum(cls.enum_type)

    @property
    def code(self) -> int:
        """The bytecode value."""
        return self.number

    @classmethod
    def from_code(cls, code: int) -> TileEnumAttribute | None:
        """The attribute of a bytecode value, or None where the value means nothing."""
        members = list(cls.enum_type)
        return cls(members[code]) if 0 <= code < len(members) else None


@irdl_attr_definition
class RoundingModeAttr(TileEnumAttribute, EnumAttribute[RoundingMode]):
    name = "cuda_tile.rounding"
    SINCE: ClassVar = {RoundingMode.NEAREST_AWAY: V13_4}


@irdl_attr_definition
class IntegerOverflowAttr(TileEnumAttribute, EnumAttribute[IntegerOverflow]):
    name = "cuda_tile.overflow"


@irdl_attr_definition
class SignednessAttr(TileEnumAttribute, EnumAttribute[Signedness]):
    name = "cuda_tile.signedness"


@irdl_attr_definition
class ComparisonPredicateAttr(TileEnumAttribute, EnumAttribute[ComparisonPredicate]):
    name = "cuda_tile.comparison_predicate"


@irdl_attr_definition
class ComparisonOrderingAttr(TileEnumAttribute, EnumAttribute[ComparisonOrdering]):
    name = "cuda_tile.comparison_ordering"


@irdl_attr_definition
class AtomicRMWModeAttr(TileEnumAttribute, EnumAttribute[AtomicRMWMode]):
    name = "cuda_tile.atomic_rmw_mode"


@irdl_attr_definition
class MemoryOrderingSemanticsAttr(TileEnumAttribute, EnumAttribute[MemoryOrderingSemantics]):
    name = "cuda_tile.memory_ordering_semantics"


@irdl_attr_definition
class MemoryScopeAttr(TileEnumAttribute, EnumAttribute[MemoryScope]):
    name = "cuda_tile.memory_scope"


@irdl_attr_definition
class SymbolVisibilityAttr(TileEnumAttribute, EnumAttribute[SymbolVisibility]):
    name = "cuda_tile.symbol_visibility"


@irdl_attr_definition
class PaddingValueAttr(TileEnumAttribute, EnumAttribute[PaddingValue]):
    name = "cuda_tile.padding_value"


@irdl_attr_definition
class PtrAttrAttr(TileEnumAttribute, EnumAttribute[PtrAttr]):
    name = "cuda_tile.ptr_attr"
    SINCE: ClassVar = {
        PtrAttr.NONE: V13_4,
        PtrAttr.UNICAST: V13_5,
        PtrAttr.MULTICAST: V13_5,
    }


@irdl_attr_definition
class MultimemReductionKindAttr(TileEnumAttribute, EnumAttribute[MultimemReductionKind]):
    name = "cuda_tile.multimem_reduction_kind"


#: What NVIDIA's dialect declares as integers of 32 bits, and so shows in its generic form.
INTEGERS_ELSEWHERE = (AtomicRMWModeAttr, MemoryOrderingSemanticsAttr, MemoryScopeAttr)

ENUM_ATTRIBUTES = (
    RoundingModeAttr,
    IntegerOverflowAttr,
    SignednessAttr,
    ComparisonPredicateAttr,
    ComparisonOrderingAttr,
    AtomicRMWModeAttr,
    MemoryOrderingSemanticsAttr,
    MemoryScopeAttr,
    SymbolVisibilityAttr,
    PaddingValueAttr,
    PtrAttrAttr,
    MultimemReductionKindAttr,
)
