"""What attributes of enumerations of upstream dialects have in common."""

from __future__ import annotations

from typing import Any

from xdsl.ir import SpacedOpaqueSyntaxAttribute
from xdsl.parser import AttrParser
from xdsl.utils.str_enum import StrEnum

from tilewright.dialects.keywords import AngledAttr, KeywordAttr
from tilewright.dialects.syntax.directives import take_word
from tilewright.dialects.syntax.tokens import token_text


def parse_keyword(parser: AttrParser, enum: type[StrEnum], what: str) -> StrEnum:
    """A bare keyword of an enumeration. Raises CodedParseError (``bad-keyword``) for another; ``what`` is in its
    message.
    """
    return enum(take_word(parser, [member.value for member in enum], what))


class BareEnumAttr(KeywordAttr, SpacedOpaqueSyntaxAttribute):
    """One that is written as a bare keyword; ``<value>`` is read, too."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Any:
        """The member whose keyword stands here, in angle brackets or without."""
        what = _title(cls)
        if token_text(parser) != "<":
            return parse_keyword(parser, cls.enum_type, what)
        with parser.in_angle_brackets():
            return parse_keyword(parser, cls.enum_type, what)


class AngledEnumAttr(AngledAttr):
    """One that is written ``#DIALECT.NAME<value>``."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Any:
        """The member whose keyword stands in angle brackets."""
        what = _title(cls)
        with parser.in_angle_brackets():
            return parse_keyword(parser, cls.enum_type, what)


def _title(cls: type[KeywordAttr]) -> str:
    """What an attribute is called in messages: its name without the dialect."""
    return cls.name.partition(".")[2].replace("_", " ")
