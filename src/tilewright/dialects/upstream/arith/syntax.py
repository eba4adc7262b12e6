"""How operations of ``arith`` are written, whatever their values are: vectors here, or tiles."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.arith import FastMathFlagsAttr, IntegerOverflowAttr, IntegerOverflowFlag
from xdsl.dialects.builtin import IntegerAttr, i1, i64
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser
from xdsl.printer import Printer

from tilewright.dialects.declare import int_property
from tilewright.dialects.syntax.directives import one_of, parse_type_into, take_word
from tilewright.dialects.syntax.engine import Directive, ParseState, shown_type, values_of
from tilewright.dialects.syntax.tokens import consume, previous_end, token_start, token_text

#: The predicates of ``cmpi`` and ``cmpf``; their places are their numbers.
INTEGER_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
FLOAT_PREDICATES = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
)


@dataclass(frozen=True, slots=True)
class Predicate(Directive):
    """The predicate of a comparison by its name; ``names`` by number, ``known`` those that exist."""

    names: tuple[str, ...]
    known: tuple[str, ...]

    def parse(self, parser: Parser, state: ParseState) -> None:
        start, text = token_start(parser), token_text(parser).strip('"')
        if text in self.known:
            consume(parser)
        else:
            take_word(parser, self.known, "predicate")
        state.properties["predicate"] = IntegerAttr(self.names.index(text), i64)
        state.mark(("attr", "predicate", 0), start, previous_end(parser))

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        printer.print_string(f" {predicate_name(op, self.names)}")

    def grammar(self) -> str:
        return one_of(self.known)


def predicate_name(op: IRDLOperation, names: tuple[str, ...]) -> str:
    """The name of the predicate of a comparison; its number where none has it."""
    number = int_property(op, "predicate")
    return names[number] if 0 <= number < len(names) else str(number)


@dataclass(frozen=True, slots=True)
class OverflowFlags(Directive):
    """``overflow<nsw, nuw>``; nothing where there are no flags."""

    def parse(self, parser: Parser, state: ParseState) -> None:
        if token_text(parser) == "overflow":
            state.read(parser, "overflowFlags", lambda: _flags(parser))

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        flags = op.properties.get("overflowFlags")
        if isinstance(flags, IntegerOverflowAttr) and flags.data:
            shown = ", ".join(f.value for f in IntegerOverflowFlag if f in flags.data)
            printer.print_string(f" overflow<{shown}>")

    def grammar(self) -> str:
        return "[`overflow` `<` (`nsw` | `nuw`) {`,` ...} `>`]"


def _flags(parser: Parser) -> IntegerOverflowAttr:
    parser.parse_keyword("overflow")
    known = [*(flag.value for flag in IntegerOverflowFlag), "none"]
    words = parser.parse_comma_separated_list(
        parser.Delimiter.ANGLE, lambda: take_word(parser, known, "overflow flag")
    )
    return IntegerOverflowAttr(IntegerOverflowFlag(word) for word in words if word != "none")


class FastMath(Directive):
    """``fastmath<...>``; nothing where there are no flags."""

    def parse(self, parser: Parser, state: ParseState) -> None:
        if parser.parse_optional_keyword("fastmath"):
            flags = FastMathFlagsAttr.parse_parameter(parser)
            state.properties["fastmath"] = FastMathFlagsAttr(flags)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        found = op.properties.get("fastmath")
        if isinstance(found, FastMathFlagsAttr) and found.data:
            printer.print_string(" fastmath")
            found.print_parameter(printer)

    def grammar(self) -> str:
        return "[`fastmath` `<` FLAGS `>`]"


@dataclass(frozen=True, slots=True)
class SelectTypes(Directive):
    """``T``, the type of the values, behind ``C,`` where the condition is no single i1."""

    def parse(self, parser: Parser, state: ParseState) -> None:
        parse_type_into(parser, state, "result")
        if not parser.parse_optional_punctuation(","):
            state.types["condition"] = [i1]
            return
        state.types["condition"] = state.types.pop("result")
        state.parts[("type", "condition", 0)] = state.parts.pop(("type", "result", 0))
        parse_type_into(parser, state, "result")

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        condition, result = (values_of(op, name)[0] for name in ("condition", "result"))
        if condition.type != i1:
            printer.print_string(f" {shown_type(op, condition)},")
        printer.print_string(f" {shown_type(op, result)}")

    def grammar(self) -> str:
        return "[type(%condition) `,`] type(%result)"
