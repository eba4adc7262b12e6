"""The directives of the common syntax: ``op %a[%i], %b {attributes} : T, T, T -> T``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, Region
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser
from xdsl.printer import Printer

from tilewright.dialects.declare import DeclaredOp
from tilewright.dialects.nv_tileaa.constraints import PropertyKind
from tilewright.dialects.nv_tileaa.groups import BRACKETED, RESULTS, SEGMENTS, WRITTEN, GroupedOp
from tilewright.dialects.nv_tileaa.type_syntax import format_type
from tilewright.dialects.syntax.directives import (
    Property,
    format_symbol,
    parse_operand,
    parse_type_into,
    parse_types,
)
from tilewright.dialects.syntax.engine import COUNT_MISMATCH, Directive, ParseState, values_of
from tilewright.dialects.syntax.tokens import (
    begins_operation,
    fail,
    is_identifier,
    is_value_name,
    previous_end,
    token_start,
    token_text,
)


def _groups(op: IRDLOperation) -> list[str]:
    return [name for name, _ in op.get_irdl_definition().operands]


@dataclass(frozen=True, slots=True)
class Arguments(Directive):
    """The operands, comma-separated, with bracketed indices behind the first; in parentheses
    where ``parens``."""

    parens: bool = False

    def parse(self, parser: Parser, state: ParseState) -> None:
        cls = state.op_class
        assert issubclass(cls, GroupedOp)
        state.operands[WRITTEN] = []
        if self.parens:
            parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: parse_operand(parser, state, WRITTEN)
            )
            return
        if not is_value_name(parser) or begins_operation(parser):
            return
        parse_operand(parser, state, WRITTEN)
        if cls.BRACKETS and token_text(parser) == "[":
            before = len(state.operands[WRITTEN])
            parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: parse_operand(parser, state, WRITTEN)
            )
            state.operands[BRACKETED] = state.operands[WRITTEN][before:]
        while parser.parse_optional_punctuation(","):
            parse_operand(parser, state, WRITTEN)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        assert isinstance(op, GroupedOp)
        if self.parens:
            with printer.in_parens():
                printer.print_list(op.operands, printer.print_ssa_value)
            return
        separator = " "
        for position, name in enumerate(_groups(op)):
            values = values_of(op, name)
            if name == op.BRACKETS and op.BRACKETS:
                continue
            for value in values:
                printer.print_string(separator)
                printer.print_ssa_value(value)
                separator = ", "
            if position == 0 and op.BRACKETS and (indices := values_of(op, op.BRACKETS)):
                with printer.in_square_brackets():
                    printer.print_list(indices, printer.print_ssa_value)

    def grammar(self) -> str:
        return "`(` [%v {`,` %v}] `)`" if self.parens else "[%v [`[` %i {`,` %i} `]`] {`,` %v}]"


@dataclass(frozen=True, slots=True)
class Dictionary(Directive):
    """The dictionary of properties and discardable attributes, in one pair of braces.

    Enumerations may be written as bare keywords.
    """

    keyword: str = ""

    def parse(self, parser: Parser, state: ParseState) -> None:
        if self.keyword and not parser.parse_optional_keyword(self.keyword):
            return
        if token_text(parser) == "{":
            parser.parse_comma_separated_list(
                parser.Delimiter.BRACES, lambda: self._entry(parser, state)
            )

    def _entry(self, parser: Parser, state: ParseState) -> None:
        start = token_start(parser)
        name = parser.parse_identifier_or_str_literal()
        if name in state.properties or name in state.attributes:
            fail(parser, f"'{name}' is written twice", start, previous_end(parser))
        known = state.op_class.get_irdl_definition().properties.get(name)
        value: Attribute = UnitAttr()
        if parser.parse_optional_punctuation("="):
            start = token_start(parser)
            value = (
                self._value(parser, known.constr)
                if known is not None
                else self._discardable(parser, state, name)
            )
        (state.properties if known is not None else state.attributes)[name] = value
        state.mark(("attr", name, 0), start, previous_end(parser))

    def _discardable(self, parser: Parser, state: ParseState, name: str) -> Attribute:
        """The value of what is no property, and so no keyword: maybe one that is misspelt."""
        value = parser.parse_optional_attribute()
        if value is None:
            near = get_close_matches(name, state.op_class.get_irdl_definition().properties, 1)
            fail(
                parser,
                f"expected an attribute for '{name}', which is not a property of "
                f"'{state.op_class.name}', found '{token_text(parser)}'",
                help=f"did you mean '{near[0]}'?" if near else "",
            )
        return value

    def _value(self, parser: Parser, kind: object) -> Attribute:
        if not isinstance(kind, PropertyKind):
            return parser.parse_attribute()
        enum, text = kind.enum, token_text(parser)
        if enum is not None and is_identifier(parser):
            return enum(enum.parse_parameter(parser))
        if text in ("true", "false") and enum is None:
            return parser.parse_attribute()
        return kind.narrowed(parser.parse_attribute())

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        assert isinstance(op, DeclaredOp)
        declared = [n for n in op.get_irdl_definition().properties if n != SEGMENTS]
        entries = {
            name: op.properties[name]
            for name in (*declared, SEGMENTS)
            if name in op.properties and name not in op.HIDDEN
        }
        printer.print_op_attributes({**op.attributes, **entries}, print_keyword=bool(self.keyword))

    def grammar(self) -> str:
        word = f"`{self.keyword}` " if self.keyword else ""
        return f"[{word}`{{` NAME [`=` VALUE] {{`,` ...}} `}}`]"


@dataclass(frozen=True, slots=True)
class Types(Directive):
    """``: operand types -> result types``; either list may stand in parentheses.

    ``shared`` lets one type stand for all values. ``through`` gives each result the type of its
    operand. ``parens`` prints the parentheses. The arrow is left out where there are no operands
    or no results; without both, nothing is written, save before a body (``before_body``), whose
    brace would else be read as that of the dictionary.
    """

    shared: bool = False
    through: bool = False
    parens: bool = False
    before_body: bool = False

    def parse(self, parser: Parser, state: ParseState) -> None:
        count = len(state.operands.get(WRITTEN, ()))
        state.types[WRITTEN], state.types[RESULTS] = [], []
        if not parser.parse_optional_punctuation(":"):
            if count:
                fail(parser, f"expected ':' and types, found '{token_text(parser)}'")
            return
        self._list(parser, state, WRITTEN)
        if parser.parse_optional_punctuation("->"):
            self._list(parser, state, RESULTS)
        elif not count:
            self._move_to_results(state)
        elif self.through:
            state.types[RESULTS] = list(state.types[WRITTEN])
        elif self.shared and len(state.types[WRITTEN]) == 1:
            (ty,) = state.types[WRITTEN]
            state.types[WRITTEN], state.types[RESULTS] = [ty] * count, [ty]
        if len(state.types[WRITTEN]) != count:
            fail(
                parser,
                f"expected {count} types for the operands, got {len(state.types[WRITTEN])}",
                state.start,
                previous_end(parser),
                code=COUNT_MISMATCH,
            )

    def _list(self, parser: Parser, state: ParseState, name: str) -> None:
        if token_text(parser) == "(":
            parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: parse_type_into(parser, state, name)
            )
            return
        parse_types(parser, state, name)

    def _move_to_results(self, state: ParseState) -> None:
        state.types[RESULTS], state.types[WRITTEN] = state.types[WRITTEN], []
        for index in range(len(state.types[RESULTS])):
            state.parts[("type", RESULTS, index)] = state.parts.pop(("type", WRITTEN, index))

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        operands = [v.type for v in op.operands]
        results = [v.type for v in op.results]
        if not operands and not results:
            printer.print_string(" : () -> ()" if self.before_body and op.regions else "")
            return
        if self.shared and operands and len({*operands, *results}) == 1 and len(results) == 1:
            text = format_type(operands[0])
        elif self.shared and not results:
            text = f"{self._shown(operands)} -> ()"
        elif (self.through and operands == results) or not results:
            text = self._shown(operands)
        elif not operands:
            text = self._shown(results)
        else:
            text = f"{self._shown(operands)} -> {self._shown(results, True)}"
        printer.print_string(f" : {text}")

    def _shown(self, types: Sequence[Attribute], are_results: bool = False) -> str:
        text = ", ".join(map(format_type, types))
        return f"({text})" if self.parens and (len(types) > 1 or not are_results) else text

    def grammar(self) -> str:
        return "[`:` types [`->` types]]"


#: The symbol that an operation defines: ``@name``.
DEFINITION = Property(
    "sym_name", Parser.parse_symbol_name, lambda name: format_symbol(name.data), "@NAME"
)


@dataclass(frozen=True, slots=True)
class Body(Directive):
    """A region with its labelled block arguments; left out where ``optional`` and empty."""

    optional: bool = False

    def parse(self, parser: Parser, state: ParseState) -> None:
        if self.optional and token_text(parser) != "{":
            state.regions.append(Region())
            return
        start = token_start(parser)
        region = parser.parse_region()
        state.mark(("region", "", len(state.regions)), start, previous_end(parser))
        state.regions.append(region)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        for region in op.regions:
            if region.blocks or not self.optional:
                printer.print_string(" ")
                printer.print_region(region, print_empty_block=False)

    def grammar(self) -> str:
        return "[REGION]" if self.optional else "REGION"


@dataclass(frozen=True, slots=True)
class Bodies(Directive):
    """Regions, with commas between them; one at least."""

    def parse(self, parser: Parser, state: ParseState) -> None:
        while not state.regions or parser.parse_optional_punctuation(","):
            start = token_start(parser)
            region = parser.parse_region()
            state.mark(("region", "", len(state.regions)), start, previous_end(parser))
            state.regions.append(region)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        for number, region in enumerate(op.regions):
            printer.print_string(", " if number else " ")
            printer.print_region(region, print_empty_block=False)

    def grammar(self) -> str:
        return "REGION {, REGION}"


#: The syntax of most operations.
COMMON = (Arguments(), Dictionary(), Types())
#: The same where all values may share one type.
UNIFORM = (Arguments(), Dictionary(), Types(shared=True))
#: The same where each result has the type of its operand.
THROUGH = (Arguments(), Dictionary(), Types(through=True))
