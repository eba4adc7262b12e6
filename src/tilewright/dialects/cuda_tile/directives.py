"""The directives that only operations of ``cuda_tile`` are written with: those of tokens."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.irdl import IRDLOperation
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer

from tilewright.dialects.cuda_tile.enums import IntegerOverflowAttr, SignednessAttr
from tilewright.dialects.cuda_tile.type_syntax import format_type, parse_type
from tilewright.dialects.cuda_tile.types import TOKEN
from tilewright.dialects.syntax.assembly import assembly
from tilewright.dialects.syntax.directives import AttrDict, EnumKeyword, EnumSlot, parse_operand
from tilewright.dialects.syntax.engine import Directive, ParseState, values_of
from tilewright.dialects.syntax.tokens import fail, previous_end, token_start, token_text


def parse_token_type(parser: AttrParser) -> None:
    """The type of a token: ``token``, also with its prefix or by an alias. Raises CodedParseError for another."""
    start = token_start(parser)
    if not token_text(parser).startswith("!"):
        parser.parse_keyword("token")
    elif (found := parse_type(parser)) != TOKEN:
        fail(parser, f"expected 'token', found '{format_type(found)}'", start, previous_end(parser))


@dataclass(frozen=True, slots=True)
class TokenType(Directive):
    """The type ``token``, where no other can stand."""

    def parse(self, parser: Parser, state: ParseState) -> None:
        parse_token_type(parser)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        printer.print_string(" token")

    def grammar(self) -> str:
        return "`token`"


@dataclass(frozen=True, slots=True)
class TokenOperand(Directive):
    """The optional token operand: `` token=%t``."""

    name: str = "token"

    def parse(self, parser: Parser, state: ParseState) -> None:
        if parser.parse_optional_keyword("token"):
            parser.parse_punctuation("=")
            parse_operand(parser, state, self.name)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        if values := values_of(op, self.name):
            printer.print_string(" token=")
            printer.print_ssa_value(values[0])

    def grammar(self) -> str:
        return "[`token` `=` %token]"


SIGNED_WORD = EnumKeyword("signedness", SignednessAttr)
OVERFLOW_SLOT = EnumSlot("overflow", IntegerOverflowAttr, "overflow", "none")
#: What words in texts of :func:`syntax` stand for; modules of operations add their own.
VOCABULARY: dict[str, Directive] = {
    "attr-dict": AttrDict(),
    "attr-dict-with-keyword": AttrDict("attributes"),
    "token-operand": TokenOperand(),
    "token-type": TokenType(),
}
syntax = assembly(VOCABULARY)
