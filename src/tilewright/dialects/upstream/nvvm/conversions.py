"""Conversions of ``nvvm``: f32 to tf32, as LLVM 20 and later have it."""

from __future__ import annotations

from enum import auto
from typing import ClassVar

from xdsl.dialects.builtin import Float32Type, IntegerAttr
from xdsl.dialects.utils.enum_attribute import EnumAttribute
from xdsl.irdl import (
    irdl_attr_definition,
    operand_def,
    opt_prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.str_enum import StrEnum

from tilewright.dialects.declare import Report, attr, examples
from tilewright.dialects.upstream.base import codes
from tilewright.dialects.upstream.base.constraints import BOOL, I32, Kind
from tilewright.dialects.upstream.base.directives import syntax
from tilewright.dialects.upstream.base.enums import AngledEnumAttr
from tilewright.dialects.upstream.base.operations import UpstreamOp, upstream_op

#: The first compute capability, times ten, that rounds f32 to tf32 to even; those before round `rna` only.
ROUNDS_TO_TF32 = 90


class FPRoundingMode(StrEnum):
    NONE = auto()
    RN = auto()
    RM = auto()
    RP = auto()
    RZ = auto()
    RNA = auto()


class SaturationMode(StrEnum):
    NONE = auto()
    SATFINITE = auto()


@irdl_attr_definition
class FPRoundingModeAttr(AngledEnumAttr, EnumAttribute[FPRoundingMode]):
    name = "nvvm.fp_rnd_mode"


@irdl_attr_definition
class SaturationModeAttr(AngledEnumAttr, EnumAttribute[SaturationMode]):
    name = "nvvm.sat_mode"


_F32 = Kind("an f32", Float32Type, fixed=Float32Type())


class ToTf32(UpstreamOp):
    """The bits of the tf32 that is next to an f32: `rn` to even, `rna` away from zero, `rz` toward it.

    ``relu`` makes zero of what is negative, and ``sat`` a finite number of what is infinite.
    """

    src = operand_def(_F32)
    rnd = opt_prop_def(Kind("an fp_rnd_mode", FPRoundingModeAttr))
    sat = opt_prop_def(Kind("a sat_mode", SaturationModeAttr))
    relu = opt_prop_def(BOOL)
    res = result_def(I32)

    traits = traits_def(Pure())
    SYNTAX: ClassVar = syntax("$src attr-dict")

    @property
    def rounding(self) -> str:
        """The keyword of the rounding mode; `none` where there is none."""
        found = self.properties.get("rnd")
        return str(found.data.value) if isinstance(found, FPRoundingModeAttr) else "none"

    @property
    def saturates(self) -> bool:
        """Whether the result is finite where it would be an infinity."""
        found = self.properties.get("sat")
        return isinstance(found, SaturationModeAttr) and found.data is SaturationMode.SATFINITE

    @property
    def drops_negative(self) -> bool:
        """Whether negative numbers become zero."""
        found = self.properties.get("relu")
        return isinstance(found, IntegerAttr) and bool(found.value.data)

    def check(self, report: Report) -> None:
        if self.rounding not in ("rn", "rna", "rz"):
            report.error(
                codes.NVVM_ROUNDING,
                f"expected the rounding mode rn, rna or rz, got {self.rounding}",
                attr("rnd"),
            )
        elif self.rounding == "rna" and self.drops_negative:
            report.error(codes.NVVM_ROUNDING, "relu requires rounding rn or rz", attr("relu"))


@upstream_op("nvvm", "cvt.float.to.tf32")
class CvtFloatToTF32Op(ToTf32):
    __doc__ = ToTf32.__doc__

    EXAMPLES: ClassVar = examples(
        """
        %x = arith.constant 1.0 : f32
        %t = nvvm.cvt.float.to.tf32 %x {rnd = #nvvm.fp_rnd_mode<rna>}
        """
    )


@upstream_op("nvvm", "convert.float.to.tf32")
class ConvertFloatToTF32Op(ToTf32):
    """`nvvm.cvt.float.to.tf32` by its name of LLVM 21 and later."""

    EXAMPLES: ClassVar = examples(
        """
        %x = arith.constant 1.0 : f32
        %t = nvvm.convert.float.to.tf32 %x {rnd = #nvvm.fp_rnd_mode<rna>}
        """
    )


ATTRIBUTE_TYPES = (FPRoundingModeAttr, SaturationModeAttr)
