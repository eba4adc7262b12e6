"""The enumerations of ``nvgpu`` and their attributes: ``#nvgpu<swizzle swizzle_128b>``.

A member's position is its number in the CUDA driver's tensor map enumerations. The descriptors of
``wgmma`` number swizzles otherwise.
"""

from __future__ import annotations

from enum import auto
from typing import Any

from xdsl.dialects.utils.enum_attribute import EnumAttribute
from xdsl.ir import SpacedOpaqueSyntaxAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.utils.str_enum import StrEnum

from tilewright.dialects.keywords import KeywordAttr
from tilewright.dialects.syntax.directives import BAD_KEYWORD
from tilewright.dialects.syntax.tokens import consume, fail, token_text


class RcpRoundingMode(StrEnum):
    APPROX = auto()
    RN = auto()
    RZ = auto()
    RM = auto()
    RP = auto()


class TensorMapInterleaveKind(StrEnum):
    NONE = auto()
    INTERLEAVE_16B = auto()
    INTERLEAVE_32B = auto()


class TensorMapL2PromoKind(StrEnum):
    NONE = auto()
    L2PROMO_64B = auto()
    L2PROMO_128B = auto()
    L2PROMO_256B = auto()


class TensorMapOOBKind(StrEnum):
    ZERO = auto()
    NAN = auto()


class TensorMapSwizzleKind(StrEnum):
    NONE = auto()
    SWIZZLE_32B = auto()
    SWIZZLE_64B = auto()
    SWIZZLE_128B = auto()


def parse_keyword(parser: AttrParser, enum: type[StrEnum], what: str) -> StrEnum:
    """A bare keyword of an enumeration."""
    text = token_text(parser)
    member = next((m for m in enum if m.value == text), None)
    if member is None:
        listed = ", ".join(f"'{m.value}'" for m in enum)
        found = f"'{text}'" if text else "the end of the file"
        fail(parser, f"expected {what} to be one of: {listed}, got: {found}", code=BAD_KEYWORD)
    consume(parser)
    return member


class NvgpuEnumAttribute(KeywordAttr):
    """What every enumeration attribute here has; ``<value>`` is read, too."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Any:
        what = cls.name.removeprefix("nvgpu.").replace("_", " ")
        if token_text(parser) != "<":
            return parse_keyword(parser, cls.enum_type, what)
        with parser.in_angle_brackets():
            return parse_keyword(parser, cls.enum_type, what)


@irdl_attr_definition
class RcpRoundingModeAttr(
    NvgpuEnumAttribute, EnumAttribute[RcpRoundingMode], SpacedOpaqueSyntaxAttribute
):
    name = "nvgpu.rcp_rounding_mode"


@irdl_attr_definition
class TensorMapInterleaveKindAttr(
    NvgpuEnumAttribute, EnumAttribute[TensorMapInterleaveKind], SpacedOpaqueSyntaxAttribute
):
    name = "nvgpu.interleave"


@irdl_attr_definition
class TensorMapL2PromoKindAttr(
    NvgpuEnumAttribute, EnumAttribute[TensorMapL2PromoKind], SpacedOpaqueSyntaxAttribute
):
    name = "nvgpu.l2promo"


@irdl_attr_definition
class TensorMapOOBKindAttr(
    NvgpuEnumAttribute, EnumAttribute[TensorMapOOBKind], SpacedOpaqueSyntaxAttribute
):
    name = "nvgpu.oob"


@irdl_attr_definition
class TensorMapSwizzleKindAttr(
    NvgpuEnumAttribute, EnumAttribute[TensorMapSwizzleKind], SpacedOpaqueSyntaxAttribute
):
    name = "nvgpu.swizzle"


ENUM_ATTRIBUTES = (
    RcpRoundingModeAttr,
    TensorMapInterleaveKindAttr,
    TensorMapL2PromoKindAttr,
    TensorMapOOBKindAttr,
    TensorMapSwizzleKindAttr,
)
