"""Reductions over a block of threads: ``gpu.all_reduce``."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import AnyFloat, IntegerType
from xdsl.ir import Attribute, Region
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    opt_prop_def,
    region_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove

from tilewright.dialects.declare import Report, attr, enum_property, examples, same_type
from tilewright.dialects.syntax.directives import Flag
from tilewright.dialects.syntax.engine import Directive, ParseState
from tilewright.dialects.syntax.tokens import previous_end, token_start
from tilewright.dialects.syntax.types import format_type
from tilewright.dialects.upstream.base import codes
from tilewright.dialects.upstream.base.constraints import FLAG, Kind
from tilewright.dialects.upstream.base.directives import Choice, OneToOne, syntax
from tilewright.dialects.upstream.base.operations import UpstreamOp, upstream_op
from tilewright.dialects.upstream.gpu.attributes import AllReduceOperationAttr, combines

_NUMBER = Kind("an integer or float", Attribute, lambda t: isinstance(t, IntegerType | AnyFloat))


class Body(Directive):
    """A region, whose braces hold nothing where an operation is named."""

    def parse(self, parser: Parser, state: ParseState) -> None:
        start = token_start(parser)
        state.regions.append(parser.parse_region())
        state.mark(("region", "", 0), start, previous_end(parser))

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        printer.print_string(" ")
        if op.regions[0].blocks:
            printer.print_region(op.regions[0])
        else:
            printer.print_string("{\n}")

    def grammar(self) -> str:
        return "REGION"


@upstream_op("gpu", "all_reduce")
class AllReduceOp(UpstreamOp):
    """The values of all threads of the block, combined by a named operation or by a body.

    The order in which they are combined is open.
    """

    value = operand_def(_NUMBER)
    op = opt_prop_def(Kind("an all_reduce_op", AllReduceOperationAttr))
    uniform = opt_prop_def(FLAG)
    result = result_def(_NUMBER)
    body: Region = region_def()

    traits = traits_def(IsolatedFromAbove())
    RELATIONS: ClassVar = (same_type("value", "result"),)
    OPTIONAL_BODIES: ClassVar = frozenset({0})
    HIDDEN: ClassVar = frozenset({"op", "uniform"})
    SYNTAX: ClassVar = syntax(
        Choice("op", AllReduceOperationAttr, optional=True),
        "$value",
        Flag("uniform"),
        Body(),
        "attr-dict",
        OneToOne("value", "result"),
    )
    UNDEFINED: ClassVar = ("a thread of the block does not come",)
    EXAMPLES: ClassVar = examples(
        """
        %x = arith.constant 1.0 : f32
        %sum = gpu.all_reduce add %x uniform {
        } : (f32) -> f32
        """,
        """
        %x = arith.constant 1.0 : f32
        %largest = gpu.all_reduce %x {
        ^bb0(%a1: f32, %b1: f32):
          %m = arith.maximumf %a1, %b1 : f32
          gpu.yield %m : f32
        } : (f32) -> f32
        """,
    )

    def check(self, report: Report) -> None:
        blocks = self.body.blocks
        if bool(blocks) == (self.op is not None):
            what = "both" if blocks else "neither"
            report.error(
                codes.REDUCTION,
                f"expected an operation or a body that combines two values, got {what}",
                attr("op") if blocks else ("region", "", 0),
            )
        elif isinstance(self.op, AllReduceOperationAttr):
            kind = enum_property(self, "op")
            if not combines(kind, self.value.type):
                report.error(
                    codes.REDUCTION,
                    f"'{kind}' does not combine values of '{format_type(self.value.type)}'",
                    attr("op"),
                )
        elif [arg.type for arg in blocks[0].args] != [self.value.type] * 2:
            report.error(
                codes.REDUCTION,
                f"expected a body of two values of '{format_type(self.value.type)}'",
                ("region", "", 0),
            )
