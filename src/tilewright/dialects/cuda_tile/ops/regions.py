"""What operations with bodies share: arguments, terminators and their syntax."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.type_syntax import format_type, parse_type
from tilewright.dialects.declare import ensure_terminator
from tilewright.dialects.narrowing import is_array
from tilewright.dialects.syntax.directives import parse_operand, parse_type_into, parse_types
from tilewright.dialects.syntax.engine import ParseState, print_argument_location, values_of
from tilewright.dialects.syntax.tokens import previous_end, token_start, token_text


def parse_body(
    parser: Parser,
    state: ParseState,
    arguments: Sequence[Parser.Argument] | None,
    terminator: type[TileOp] | None,
) -> None:
    """Read a region; append the implicit terminator where the text leaves it out."""
    start = token_start(parser)
    region = parser.parse_region(arguments)
    if terminator is not None:
        if not region.blocks:
            types = [a.type for a in arguments or ()]
            region.add_block(Block(arg_types=types))
        ensure_terminator(region, terminator)
    state.mark(("region", "", len(state.regions)), start, previous_end(parser))
    state.regions.append(region)


def print_body(printer: Printer, region: Region, hide: type[TileOp] | None = None) -> None:
    """Print a region; an operand-less last operation of kind ``hide`` is left out."""
    printer.print_string(" ")
    last = region.blocks[-1].last_op if region.blocks else None
    hidden = (
        hide is not None and isinstance(last, hide) and not last.operands and not last.attributes
    )
    printer.print_region(
        region,
        print_entry_block_args=False,
        print_empty_block=False,
        print_block_terminators=not hidden,
    )


def parse_typed_arguments(parser: Parser) -> list[Parser.Argument]:
    """``(%a: T, %b: T)``"""

    def argument() -> Parser.Argument:
        unresolved = parser.parse_argument(expect_type=False)
        parser.parse_punctuation(":")
        resolved = unresolved.resolve(parse_type(parser))
        resolved.location = parser.parse_optional_location()
        return resolved

    return parser.parse_comma_separated_list(parser.Delimiter.PAREN, argument)


def print_typed_arguments(
    printer: Printer, block: Block, dictionaries: Attribute | None = None
) -> None:
    """``(%a: T, %b: T)``, with a dictionary behind each type where there are some."""
    shown = dictionaries.data if is_array(dictionaries) else ()
    printer.print_string("(")
    for index, argument in enumerate(block.args):
        printer.print_string(", " if index else "")
        printer.print_ssa_value(argument)
        printer.print_string(f": {format_type(argument.type)}")
        entry = shown[index] if index < len(shown) else None
        if isinstance(entry, DictionaryAttr):
            printer.print_op_attributes(entry.data)
        print_argument_location(printer, argument)
    printer.print_string(")")


@dataclass(slots=True)
class IterValues:
    """The carried values of a loop as written: argument names and initial values."""

    names: list[Parser.UnresolvedArgument]
    operands: list[UnresolvedOperand]


def parse_iter_values(parser: Parser, state: ParseState) -> IterValues:
    """``iter_values(%a = %x, ...)``, if it is there."""
    found = IterValues([], state.operands.setdefault("initValues", []))
    if not parser.parse_optional_keyword("iter_values"):
        return found

    def pair() -> None:
        found.names.append(parser.parse_argument(expect_type=False))
        parser.parse_punctuation("=")
        parse_operand(parser, state, "initValues")

    parser.parse_comma_separated_list(parser.Delimiter.PAREN, pair)
    return found


def print_iter_values(printer: Printer, op: TileOp, first_argument: int) -> None:
    """Print ``iter_values(%argument = %initial, ...)`` for the arguments from ``first_argument``
    on; nothing where none are."""
    initial = values_of(op, "initValues")
    if not initial:
        return
    arguments = op.regions[0].blocks[0].args[first_argument:]
    printer.print_string(" iter_values(")
    for index, (argument, value) in enumerate(zip(arguments, initial, strict=True)):
        printer.print_string(", " if index else "")
        printer.print_ssa_value(argument)
        printer.print_string(" = ")
        printer.print_ssa_value(value)
    printer.print_string(")")


def parse_type_list(parser: Parser, state: ParseState, group: str) -> None:
    """Read types with commas between them as those of a group: one at least."""
    state.types[group] = []
    parse_types(parser, state, group)


def parse_paren_types(parser: Parser, state: ParseState, group: str) -> None:
    """``(T, ...)`` or one bare type."""
    if token_text(parser) != "(":
        parse_type_list(parser, state, group)
        return
    state.types[group] = []
    parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, lambda: parse_type_into(parser, state, group)
    )


def type_list(values: Sequence[SSAValue]) -> str:
    """The types of values, with commas between them."""
    return ", ".join(format_type(v.type) for v in values)
