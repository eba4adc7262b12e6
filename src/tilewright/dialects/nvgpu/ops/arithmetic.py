"""Element-wise arithmetic."""

from __future__ import annotations

from typing import ClassVar

from xdsl.irdl import operand_def, opt_prop_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from tilewright.dialects.declare import Report, attr, enum_property, examples, same_type
from tilewright.dialects.nvgpu import codes
from tilewright.dialects.nvgpu.base import NvgpuOp, nvgpu_op
from tilewright.dialects.nvgpu.constraints import F32_VECTOR, RCP_ROUNDING
from tilewright.dialects.nvgpu.signature import RcpModes, syntax
from tilewright.dialects.upstream.base.constraints import FLAG

GROUP = "arithmetic"


@nvgpu_op("rcp", group=GROUP)
class RcpOp(NvgpuOp):
    """``1 / in`` for each element, within one unit in the last place.

    Subnormal arguments count as zeros of their sign, and subnormal results become such.
    """

    in_ = operand_def(F32_VECTOR)
    rounding = prop_def(RCP_ROUNDING)
    ftz = opt_prop_def(FLAG)
    out = result_def(F32_VECTOR)

    traits = traits_def(Pure())
    RELATIONS: ClassVar = (same_type("in_", "out"),)
    INFER: ClassVar = {"in_": "out"}
    HIDDEN: ClassVar = frozenset({"rounding", "ftz"})
    SYNTAX: ClassVar = syntax("$in_", RcpModes(), "attr-dict : type($out)")
    EXAMPLES: ClassVar = examples("%r = nvgpu.rcp %v {rounding = approx, ftz} : vector<2x2xf32>")

    def check(self, report: Report) -> None:
        rounding = enum_property(self, "rounding")
        if rounding != "approx":
            report.error(
                codes.RCP, f"expected the rounding 'approx', got '{rounding}'", attr("rounding")
            )
        if self.ftz is None:
            report.error(
                codes.RCP,
                "expected 'ftz': the approximate reciprocal flushes subnormals",
                attr("rounding"),
            )
