"""Calls of LLVM's intrinsics."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, StringAttr, i32
from xdsl.dialects.llvm import FastMathAttr
from xdsl.irdl import IRDLOperation, opt_prop_def, prop_def, var_operand_def, var_result_def
from xdsl.parser import Parser
from xdsl.printer import Printer

from tilewright.dialects.declare import Report, attr, examples, operand
from tilewright.dialects.syntax.directives import StringField, parse_operand, parse_type_into
from tilewright.dialects.syntax.engine import Directive, ParseState, shown_type, values_of
from tilewright.dialects.upstream.base import codes
from tilewright.dialects.upstream.base.constraints import ANY_VALUE, STRING, Kind
from tilewright.dialects.upstream.base.directives import ATTRIBUTES
from tilewright.dialects.upstream.base.operations import SEGMENTS, UpstreamOp, upstream_op
from tilewright.dialects.upstream.llvm.intrinsics import INTRINSICS, mismatch


class Arguments(Directive):
    """``(%a, %b)``: any number of operands."""

    def parse(self, parser: Parser, state: ParseState) -> None:
        state.operands["args"] = []
        # The generic form of LLVM 20 and later asks for it, though there are none.
        state.properties["op_bundle_sizes"] = DenseArrayBase.from_list(i32, [])
        parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parse_operand(parser, state, "args")
        )

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        with printer.in_parens():
            printer.print_list(values_of(op, "args"), printer.print_ssa_value)

    def grammar(self) -> str:
        return "`(` [%args {`,` %args}] `)`"


class CallType(Directive):
    """``: (T, U) -> V``, or ``-> ()`` for no result."""

    def parse(self, parser: Parser, state: ParseState) -> None:
        state.types["args"], state.types["ress"] = [], []
        parser.parse_punctuation(":")
        parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parse_type_into(parser, state, "args")
        )
        parser.parse_punctuation("->")
        if parser.parse_optional_punctuation("("):
            parser.parse_punctuation(")")
        else:
            parse_type_into(parser, state, "ress")

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        taken = ", ".join(shown_type(op, value) for value in values_of(op, "args"))
        given = ", ".join(shown_type(op, value) for value in values_of(op, "ress"))
        printer.print_string(f" : ({taken}) -> {given or '()'}")

    def grammar(self) -> str:
        return "`:` `(` types(%args) `)` `->` (type(%ress) | `(` `)`)"


@upstream_op("llvm", "call_intrinsic")
class CallIntrinsicOp(UpstreamOp):
    """What an intrinsic gives for these operands; `docs/nvgpu.md` lists those that kernels may call.

    Those of numbers apply to each element of vectors.
    """

    args = var_operand_def(ANY_VALUE)
    op_bundle_operands = var_operand_def(ANY_VALUE)
    intrin = prop_def(STRING)
    fastmathFlags = opt_prop_def(Kind("flags for floats", FastMathAttr))
    op_bundle_sizes = opt_prop_def(Kind("an array of 32-bit integers", DenseArrayBase))
    ress = var_result_def(ANY_VALUE)

    irdl_options = (SEGMENTS,)
    HIDDEN: ClassVar = frozenset({"intrin", "op_bundle_sizes"})
    SYNTAX: ClassVar = (StringField("intrin"), Arguments(), ATTRIBUTES, CallType())
    EXAMPLES: ClassVar = examples(
        """
        %x = arith.constant 1.0 : f32
        %y = llvm.call_intrinsic "llvm.nvvm.add.rz.ftz.f"(%x, %x) : (f32, f32) -> f32
        """
    )

    @property
    def callee(self) -> str:
        """The name of the intrinsic."""
        name = self.properties["intrin"]
        assert isinstance(name, StringAttr)
        return name.data

    def check(self, report: Report) -> None:
        if not self.callee.startswith("llvm."):
            report.error(
                codes.LLVM_INTRINSIC,
                f"expected the name of an intrinsic, llvm..., got '{self.callee}'",
                attr("intrin"),
            )
        known = INTRINSICS.get(self.callee)
        types = [v.type for v in self.args], [v.type for v in self.ress]
        if known is not None and (wrong := mismatch(known, *types)):
            report.error(codes.LLVM_INTRINSIC, wrong, operand("args"))
