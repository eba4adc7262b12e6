"""The directives that only operations of ``nvgpu`` are written with."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import IndexType, IntegerAttr, UnitAttr
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tilewright.dialects.nvgpu.enums import RcpRoundingModeAttr
from tilewright.dialects.nvgpu.types import (
    MBarrierGroupType,
    NvgpuType,
    TensorMapDescriptorType,
    WarpgroupAccumulatorType,
    WarpgroupMatrixDescriptorType,
)
from tilewright.dialects.syntax.assembly import assembly
from tilewright.dialects.syntax.directives import (
    Property,
    parse_operand,
    parse_operands,
    parse_signed,
    parse_type_into,
)
from tilewright.dialects.syntax.engine import Directive, ParseState, shown_type, values_of
from tilewright.dialects.syntax.tokens import (
    begins_operation,
    fail,
    is_value_name,
    previous_end,
    token_start,
    token_text,
)
from tilewright.dialects.syntax.types import INVALID_TYPE
from tilewright.dialects.upstream.base.directives import ATTRIBUTES


@dataclass(frozen=True, slots=True)
class Tokens(Directive):
    """A comma-separated group of operands, or none; ``{}`` stands for none in front of a name."""

    name: str

    def parse(self, parser: Parser, state: ParseState) -> None:
        state.operands[self.name] = []
        if not is_value_name(parser) or begins_operation(parser):
            return
        parse_operands(parser, state, self.name)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        if values := values_of(op, self.name):
            printer.print_string(" ")
            printer.print_list(values, printer.print_ssa_value)
        elif not op.attributes:
            # Upstream takes the result of a next operation for an operand of this one.
            printer.print_string(" {}")

    def grammar(self) -> str:
        return f"[%{self.name} {{`,` %{self.name}}}]"


@dataclass(frozen=True, slots=True)
class Parenthesized(Directive):
    """Operands in parentheses, behind ``word`` if there is one."""

    names: tuple[str, ...]
    word: str = ""

    def parse(self, parser: Parser, state: ParseState) -> None:
        if self.word:
            parser.parse_keyword(self.word)
        parser.parse_punctuation("(")
        for position, name in enumerate(self.names):
            if position:
                parser.parse_punctuation(",")
            parse_operand(parser, state, name)
        parser.parse_punctuation(")")

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        printer.print_string(f" {self.word}" if self.word else "")
        values = [value for name in self.names for value in values_of(op, name)]
        with printer.in_parens():
            printer.print_list(values, printer.print_ssa_value)

    def grammar(self) -> str:
        word = f"`{self.word}` " if self.word else ""
        return f"{word}`(` {' `,` '.join('%' + name for name in self.names)} `)`"


def index_number(name: str) -> Property:
    """An integer property of type index, written as the bare number."""
    return Property(
        name,
        lambda parser: IntegerAttr(parse_signed(parser, 64), IndexType()),
        lambda number: number.value.data,
        "INT",
    )


@dataclass(frozen=True, slots=True)
class RcpModes(Directive):
    """``{rounding = approx, ftz}``: the properties of a reciprocal, in braces of their own."""

    def parse(self, parser: Parser, state: ParseState) -> None:
        parser.parse_punctuation("{")
        parser.parse_keyword("rounding")
        parser.parse_punctuation("=")
        mode = RcpRoundingModeAttr
        state.read(parser, "rounding", lambda: mode(mode.parse_parameter(parser)))
        if parser.parse_optional_punctuation(","):
            start = token_start(parser)
            parser.parse_keyword("ftz")
            state.properties["ftz"] = UnitAttr()
            state.mark(("attr", "ftz", 0), start, previous_end(parser))
        parser.parse_punctuation("}")

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        rounding = op.properties["rounding"]
        assert isinstance(rounding, RcpRoundingModeAttr)
        ftz = ", ftz" if "ftz" in op.properties else ""
        printer.print_string(f" {{rounding = {rounding.keyword}{ftz}}}")

    def grammar(self) -> str:
        return "`{` `rounding` `=` (approx | rn | rz | rm | rp) [`,` `ftz`] `}`"


@dataclass(frozen=True, slots=True)
class ShortType(Directive):
    """The type of an operand or result that must be of one class: its prefix may be left out."""

    name: str
    cls: type[NvgpuType]

    def parse(self, parser: Parser, state: ParseState) -> None:
        if token_text(parser) != "<":
            parse_type_into(parser, state, self.name)
            return
        start = token_start(parser)
        parameters = self.cls.parse_parameters(parser)
        end = previous_end(parser)
        try:
            made = self.cls.new(list(parameters))
        except VerifyException as error:
            fail(parser, str(error), start, end, code=INVALID_TYPE)
        state.types[self.name] = [made]
        state.mark(("type", self.name, 0), start, end)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        printer.print_string(" " + shown_type(op, values_of(op, self.name)[0]))

    def grammar(self) -> str:
        return f"type(%{self.name})"


@dataclass(frozen=True, slots=True)
class ParenthesizedTypes(Directive):
    """The types of operands, one each, in parentheses."""

    names: tuple[str, ...]

    def parse(self, parser: Parser, state: ParseState) -> None:
        parser.parse_punctuation("(")
        for position, name in enumerate(self.names):
            if position:
                parser.parse_punctuation(",")
            parse_type_into(parser, state, name)
        parser.parse_punctuation(")")

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        types = ", ".join(shown_type(op, values_of(op, name)[0]) for name in self.names)
        printer.print_string(f" ({types})")

    def grammar(self) -> str:
        return f"`(` {' `,` '.join(f'type(%{name})' for name in self.names)} `)`"


def map_type(name: str) -> ShortType:
    """The syntax of the type of a value that is a tensor map."""
    return ShortType(name, TensorMapDescriptorType)


def descriptor_type(name: str) -> ShortType:
    """The syntax of the type of a value that is a matrix descriptor of a warpgroup."""
    return ShortType(name, WarpgroupMatrixDescriptorType)


def accumulator_type(name: str) -> ShortType:
    """The syntax of the type of a value that is an accumulator of a warpgroup."""
    return ShortType(name, WarpgroupAccumulatorType)


syntax = assembly(
    {"attr-dict": ATTRIBUTES, "barrier-type": ShortType("barriers", MBarrierGroupType)}
)
