"""Parses ``loc(...)``, the location of an operation according to its producer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from xdsl.dialects.builtin import (
    ArrayAttr,
    FileLineColLoc,
    FusedLoc,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute

from tilewright.dialects.cuda_tile.debug_info import (
    BAD_DEBUG_INFO,
    CALL_SITES,
    FUSED,
    NAMED,
    CallSiteAttr,
    DILocAttr,
    FusedLocAttr,
    NamedLocAttr,
    file_position,
)
from tilewright.dialects.syntax.tokens import fail, token_start

if TYPE_CHECKING:
    from tilewright.text.attribute_parser import TileAttrParser

#: Every attribute class that can be the location of an operation.
LOCATIONS = (UnknownLoc, FileLineColLoc, DILocAttr, *NAMED, *FUSED, *CALL_SITES)

#: The possible parts of xDSL's own named and fused locations; others hold more and may be deep.
_SIMPLE = (UnknownLoc, FileLineColLoc)


def parse_location_body(parser: TileAttrParser) -> Attribute:
    """Parse what is between the parentheses of ``loc(...)``.

    Raises CodedParseError (``bad-debug-info``) for an attribute that is no location.
    """
    start = token_start(parser)
    text = parser.token.text
    if (parse := _FORMS.get(text)) is not None:
        parser.parse_keyword(text)
        return parse(parser, start)
    if text[:1] == '"':
        return _parse_named_or_position(parser, start)
    if text[:1] == "#":
        found = parser.parse_attribute()
        if not isinstance(found, LOCATIONS):
            fail(
                parser,
                "expected a location, found another attribute",
                start,
                parser.previous_end,
                code=BAD_DEBUG_INFO,
            )
        return found
    if text == "loc":
        parser.parse_keyword("loc")
        parser.parse_punctuation("(")
        found = parse_location_body(parser)
        parser.parse_punctuation(")")
        return found
    return _no_location(parser)


def _no_location(parser: TileAttrParser) -> NoReturn:
    fail(
        parser,
        'expected a location: unknown, "file":line:column, a name, callsite, fused or an alias, '
        f"found {parser.found()}",
        code=BAD_DEBUG_INFO,
    )


def _parse_named_or_position(parser: TileAttrParser, start: int) -> Attribute:
    text = parser.parse_str_literal()
    if parser.parse_optional_punctuation(":"):
        line = parser.parse_integer(allow_boolean=False, allow_negative=False)
        parser.parse_punctuation(":")
        column = parser.parse_integer(allow_boolean=False, allow_negative=False)
        _skip_end(parser)
        return file_position(text, line, column)
    name = StringAttr(text)
    if parser.token.text != "(":
        return NameLoc(name, NoneAttr())
    with parser.in_parens():
        child = parse_location_body(parser)
    return NameLoc(name, child) if isinstance(child, _SIMPLE) else NamedLocAttr(name, child)


def _skip_end(parser: TileAttrParser) -> None:
    """Skip the end of a range, `to 3:4`, or `to :4` on the same line; bytecode cannot store it."""
    if parser.parse_optional_keyword("to"):
        parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
        parser.parse_punctuation(":")
        parser.parse_integer(allow_boolean=False, allow_negative=False)


def _parse_unknown(parser: TileAttrParser, start: int) -> Attribute:
    return UnknownLoc()


def _parse_callsite(parser: TileAttrParser, start: int) -> Attribute:
    with parser.in_parens():
        callee = parse_location_body(parser)
        parser.parse_keyword("at")
        caller = parse_location_body(parser)
    return CallSiteAttr(callee, caller)


def _parse_fused(parser: TileAttrParser, start: int) -> Attribute:
    metadata: Attribute = NoneAttr()
    if parser.token.text == "<":
        with parser.in_angle_brackets():
            metadata = parser.parse_attribute()
    parts = parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parse_location_body(parser)
    )
    if all(isinstance(part, _SIMPLE) for part in parts):
        return FusedLoc(tuple(parts), metadata)
    return FusedLocAttr(ArrayAttr(parts), metadata)


_FORMS: dict[str, Callable[[TileAttrParser, int], Attribute]] = {
    "unknown": _parse_unknown,
    "callsite": _parse_callsite,
    "fused": _parse_fused,
}
