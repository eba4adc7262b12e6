"""The enumerations of ``nvgpu`` and their attributes: ``#nvgpu<swizzle swizzle_128b>``.

A member's position is its number in the CUDA driver's tensor map enumerations. The descriptors of
``wgmma`` number swizzles otherwise.
"""

from __future__ import annotations

from enum import auto

from xdsl.dialects.utils.enum_attribute import EnumAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.str_enum import StrEnum

from tilewright.dialects.upstream.base.enums import BareEnumAttr


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


@irdl_attr_definition
class RcpRoundingModeAttr(BareEnumAttr, EnumAttribute[RcpRoundingMode]):
    name = "nvgpu.rcp_rounding_mode"


@irdl_attr_definition
class TensorMapInterleaveKindAttr(BareEnumAttr, EnumAttribute[TensorMapInterleaveKind]):
    name = "nvgpu.interleave"


@irdl_attr_definition
class TensorMapL2PromoKindAttr(BareEnumAttr, EnumAttribute[TensorMapL2PromoKind]):
    name = "nvgpu.l2promo"


@irdl_attr_definition
class TensorMapOOBKindAttr(BareEnumAttr, EnumAttribute[TensorMapOOBKind]):
    name = "nvgpu.oob"


@irdl_attr_definition
class TensorMapSwizzleKindAttr(BareEnumAttr, EnumAttribute[TensorMapSwizzleKind]):
    name = "nvgpu.swizzle"


ENUM_ATTRIBUTES = (
    RcpRoundingModeAttr,
    TensorMapInterleaveKindAttr,
    TensorMapL2PromoKindAttr,
    TensorMapOOBKindAttr,
    TensorMapSwizzleKindAttr,
)
