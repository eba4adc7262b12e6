"""Argument attributes of functions without a body, which xDSL skips when reading and does not print."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.ir import Attribute, Operation
from xdsl.parser import Parser

from tilewright.dialects.syntax.tokens import (
    consume,
    is_value_name,
    previous_end,
    resume_at,
    token_text,
)

_FUNCTIONS = ("func.func", "llvm.func")


def is_function(op: Operation) -> bool:
    """Whether an operation is a function of upstream, whose form is xDSL's."""
    return op.name in _FUNCTIONS


def is_declaration(op: Operation) -> bool:
    """Whether an operation is an upstream function without a body."""
    return is_function(op) and not op.regions[0].blocks


def has_lost_attributes(op: Operation) -> bool:
    """Whether xDSL's custom form would omit attributes of arguments or results."""
    return is_declaration(op) and any(name in op.properties for name in ("arg_attrs", "res_attrs"))


def read_argument_attributes(parser: Parser, op: Operation, start: int) -> None:
    """Parse the arguments of a declaration again for their attributes; its text begins after ``start``."""
    end = previous_end(parser)
    resume_at(parser, start)
    while not token_text(parser).startswith("@"):
        consume(parser)
    consume(parser)
    read = parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, lambda: _attributes_of_argument(parser)
    )
    resume_at(parser, end)
    attributes = [found for found in read if found is not None]
    if any(attributes):
        op.properties["arg_attrs"] = ArrayAttr(DictionaryAttr(found) for found in attributes)


def _attributes_of_argument(parser: Parser) -> dict[str, Attribute] | None:
    if parser.parse_optional_punctuation("..."):
        return None
    if is_value_name(parser):
        consume(parser)
        parser.parse_punctuation(":")
    parser.parse_type()
    found = parser.parse_optional_dictionary_attr_dict()
    parser.parse_optional_location()
    return found
