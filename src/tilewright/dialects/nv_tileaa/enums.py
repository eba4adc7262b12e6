"""The enumerations of ``nv_tileaa`` and their attributes: ``#nv_tileaa<mem_scope gpu>``."""

from __future__ import annotations

from enum import auto
from typing import Any, ClassVar

from xdsl.dialects.utils.enum_attribute import EnumAttribute
from xdsl.ir import SpacedOpaqueSyntaxAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.utils.str_enum import StrEnum

from tilewright.dialects.keywords import KeywordAttr
from tilewright.dialects.syntax.directives import take_word
from tilewright.dialects.syntax.tokens import consume, token_text


class RoundingMode(StrEnum):
    NEAREST_EVEN = auto()
    ZERO = auto()
    NEGATIVE_INF = auto()
    POSITIVE_INF = auto()
    APPROX = auto()
    FULL = auto()
    NEAREST_INT_TO_ZERO = auto()
    NEAREST_AWAY = auto()


class CacheModifier(StrEnum):
    NONE = auto()
    CA = auto()
    CG = auto()
    CS = auto()
    LU = auto()
    CV = auto()


class EvictionPolicy(StrEnum):
    NONE = auto()
    FIRST = auto()
    LAST = auto()
    NORMAL = auto()


class MemSemantic(StrEnum):
    WEAK = auto()
    RELAXED = auto()
    ACQUIRE = auto()
    RELEASE = auto()
    ACQ_REL = auto()


class MemScope(StrEnum):
    TL_BLK = auto()
    CLUSTER = auto()
    GPU = auto()
    SYS = auto()


class RMWMode(StrEnum):
    ADD = auto()
    AND = auto()
    OR = auto()
    XOR = auto()
    XCHG = auto()
    MIN = auto()
    MAX = auto()
    UMIN = auto()
    UMAX = auto()
    ADDF = auto()


class Signedness(StrEnum):
    SIGNED = auto()
    UNSIGNED = auto()


class PaddingValue(StrEnum):
    ZERO = auto()
    NAN = auto()
    POS_INF = auto()
    NEG_INF = auto()
    NEG_ZERO = auto()


class FenceKind(StrEnum):
    ALIAS = auto()


class GridDependency(StrEnum):
    LAUNCH = auto()
    WAIT = auto()


class Multimem(StrEnum):
    """How the values of all replicas of a multicast memory are combined."""

    ADD = auto()
    MIN = auto()
    MAX = auto()
    AND = auto()
    OR = auto()
    XOR = auto()
    UMIN = auto()
    UMAX = auto()


class ActivationLayout(StrEnum):
    """Orders of the axes of a convolution's activation, outermost first."""

    NWC = auto()
    NHWC = auto()
    NDHWC = auto()
    NCW = auto()
    NCHW = auto()
    NCDHW = auto()


class TileAAEnumAttribute(KeywordAttr, SpacedOpaqueSyntaxAttribute):
    """What every enumeration attribute here has; ``SPELLINGS`` are read for others, never printed."""

    SPELLINGS: ClassVar[dict[str, str]] = {}

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Any:
        """The member whose keyword stands here. Raises CodedParseError (``bad-keyword``) with the ones that there
        are.
        """
        what = cls.name.removeprefix("nv_tileaa.").replace("_", " ")
        known = [member.value for member in cls.enum_type]
        other = token_text(parser) in cls.SPELLINGS
        word = consume(parser) if other else take_word(parser, known, what)
        return cls.enum_type(cls.SPELLINGS.get(word, word))

    @classmethod
    def member(cls, text: str) -> StrEnum | None:
        """The value that a keyword names, in any of its spellings; None for any other word."""
        found = cls.SPELLINGS.get(text, text)
        return next((m for m in cls.enum_type if m.value == found), None)


@irdl_attr_definition
class RoundingModeAttr(TileAAEnumAttribute, EnumAttribute[RoundingMode]):
    name = "nv_tileaa.rounding_mode"
    SPELLINGS: ClassVar = {
        "rn": "nearest_even",
        "rz": "zero",
        "rm": "negative_inf",
        "rp": "positive_inf",
    }


@irdl_attr_definition
class CacheModifierAttr(TileAAEnumAttribute, EnumAttribute[CacheModifier]):
    name = "nv_tileaa.cache_modifier"


@irdl_attr_definition
class EvictionPolicyAttr(TileAAEnumAttribute, EnumAttribute[EvictionPolicy]):
    name = "nv_tileaa.eviction_policy"


@irdl_attr_definition
class MemSemanticAttr(TileAAEnumAttribute, EnumAttribute[MemSemantic]):
    name = "nv_tileaa.mem_semantic"


@irdl_attr_definition
class MemScopeAttr(TileAAEnumAttribute, EnumAttribute[MemScope]):
    name = "nv_tileaa.mem_scope"


@irdl_attr_definition
class RMWModeAttr(TileAAEnumAttribute, EnumAttribute[RMWMode]):
    name = "nv_tileaa.rmw_mode"


@irdl_attr_definition
class SignednessAttr(TileAAEnumAttribute, EnumAttribute[Signedness]):
    name = "nv_tileaa.signedness"


@irdl_attr_definition
class PaddingValueAttr(TileAAEnumAttribute, EnumAttribute[PaddingValue]):
    name = "nv_tileaa.padding_value"


@irdl_attr_definition
class ActivationLayoutAttr(TileAAEnumAttribute, EnumAttribute[ActivationLayout]):
    name = "nv_tileaa.activation_layout"


@irdl_attr_definition
class FenceKindAttr(TileAAEnumAttribute, EnumAttribute[FenceKind]):
    name = "nv_tileaa.fence_kind"


@irdl_attr_definition
class GridDependencyAttr(TileAAEnumAttribute, EnumAttribute[GridDependency]):
    name = "nv_tileaa.grid_dependency"


@irdl_attr_definition
class MultimemAttr(TileAAEnumAttribute, EnumAttribute[Multimem]):
    name = "nv_tileaa.multimem"


ENUM_ATTRIBUTES = (
    RoundingModeAttr,
    CacheModifierAttr,
    EvictionPolicyAttr,
    MemSemanticAttr,
    MemScopeAttr,
    RMWModeAttr,
    SignednessAttr,
    PaddingValueAttr,
    ActivationLayoutAttr,
    FenceKindAttr,
    GridDependencyAttr,
    MultimemAttr,
)
