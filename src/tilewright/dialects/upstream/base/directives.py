"""The directives that operations of several upstream dialects are written with."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, UnitAttr
from xdsl.dialects.utils.enum_attribute import EnumAttribute
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser
from xdsl.printer import Printer

from tilewright.dialects.declare import DeclaredOp
from tilewright.dialects.narrowing import is_enum, is_sized_integer_type
from tilewright.dialects.syntax.assembly import assembly
from tilewright.dialects.syntax.directives import one_of, parse_type_into
from tilewright.dialects.syntax.engine import Directive, ParseState, shown_type, values_of
from tilewright.dialects.syntax.tokens import (
    content,
    fail,
    previous_end,
    token_end,
    token_start,
    token_text,
)
from tilewright.dialects.upstream.base.constraints import INT32
from tilewright.dialects.upstream.base.enums import parse_keyword

_SEGMENTS = "operandSegmentSizes"
_INTEGER_TYPE = re.compile(r":\s*i[0-9]+\b")


def _number(parser: Parser) -> Attribute:
    """A number of 32 bits with its type or without; other types may follow behind a colon."""
    value = parser.parse_integer(allow_boolean=False)
    if _INTEGER_TYPE.match(content(parser), token_start(parser)):
        parser.parse_punctuation(":")
        ty = parser.parse_type()
        assert is_sized_integer_type(ty)
        return IntegerAttr(value, ty)
    return IntegerAttr(value, IntegerType(32))


@dataclass(frozen=True, slots=True)
class Dictionary(Directive):
    """Properties and discardable attributes in one pair of braces.

    Properties in ``HIDDEN`` are written elsewhere. Properties may also stand apart in ``<{...}>``
    in front, as in the generic form, and each for itself.
    """

    def parse(self, parser: Parser, state: ParseState) -> None:
        if token_text(parser) == "<" and content(parser)[token_end(parser) :].startswith("{"):
            parser.parse_punctuation("<")
            self._entries(parser, state)
            parser.parse_punctuation(">")
        self._bare(parser, state)
        if token_text(parser) == "{":
            self._entries(parser, state)

    def _bare(self, parser: Parser, state: ParseState) -> None:
        """Properties without braces, as newer tools write them: ``numTiles = 1 transpose = true``.

        Numbers need no type there: it is the one that the property must have.
        """
        cls = state.op_class
        assert issubclass(cls, DeclaredOp)
        properties = cls.get_irdl_definition().properties
        while (name := token_text(parser)) in properties and name not in cls.HIDDEN:
            self._entry(parser, state, is_number=properties[name].constr == INT32)
            parser.parse_optional_punctuation(",")

    def _entries(self, parser: Parser, state: ParseState) -> None:
        parser.parse_comma_separated_list(
            parser.Delimiter.BRACES, lambda: self._entry(parser, state)
        )

    def _entry(self, parser: Parser, state: ParseState, *, is_number: bool = False) -> None:
        start = token_start(parser)
        name = parser.parse_identifier_or_str_literal()
        if name in state.properties or name in state.attributes:
            fail(parser, f"'{name}' is written twice", start, previous_end(parser))
        cls = state.op_class
        assert issubclass(cls, DeclaredOp)
        known = name in cls.get_irdl_definition().properties and name not in cls.HIDDEN
        value: Attribute = UnitAttr()
        if parser.parse_optional_punctuation("="):
            start = token_start(parser)
            value = _number(parser) if is_number else parser.parse_attribute()
        (state.properties if known else state.attributes)[name] = value
        state.mark(("attr", name, 0), start, previous_end(parser))

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        assert isinstance(op, DeclaredOp)
        left_out = op.HIDDEN | {_SEGMENTS}
        shown = {n: value for n, value in op.properties.items() if n not in left_out}
        printer.print_op_attributes({**op.attributes, **shown})

    def grammar(self) -> str:
        return "[`{` NAME [`=` VALUE] {`,` ...} `}`]"


@dataclass(frozen=True, slots=True)
class Choice(Directive):
    """A property of an enumeration, written as its bare keyword; ``optional`` ones may be absent."""

    name: str
    cls: type[EnumAttribute[Any]]
    optional: bool = False

    def parse(self, parser: Parser, state: ParseState) -> None:
        if self.optional and token_text(parser) not in {m.value for m in self.cls.enum_type}:
            return
        enum = self.cls.enum_type
        state.read(parser, self.name, lambda: self.cls(parse_keyword(parser, enum, self.name)))

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        found = op.properties.get(self.name)
        if is_enum(found):
            printer.print_string(f" {found.data.value}")

    def grammar(self) -> str:
        listed = one_of(m.value for m in self.cls.enum_type)
        return f"[{listed}]" if self.optional else listed


@dataclass(frozen=True, slots=True)
class Number(Directive):
    """An integer property behind a word, if there is one; with a word it may be absent."""

    name: str
    word: str = ""
    width: int = 0

    def parse(self, parser: Parser, state: ParseState) -> None:
        if self.word and not parser.parse_optional_keyword(self.word):
            return
        ty = IntegerType(self.width) if self.width else IndexType()
        state.read(
            parser, self.name, lambda: IntegerAttr(parser.parse_integer(allow_boolean=False), ty)
        )

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        found = op.properties.get(self.name)
        if isinstance(found, IntegerAttr):
            word = f" {self.word}" if self.word else ""
            printer.print_string(f"{word} {found.value.data}")

    def grammar(self) -> str:
        return f"[`{self.word}` INT]" if self.word else "INT"


@dataclass(frozen=True, slots=True)
class OneToOne(Directive):
    """``: (T) -> U`` for one operand and one result."""

    operand: str
    result: str

    def parse(self, parser: Parser, state: ParseState) -> None:
        parser.parse_punctuation(":")
        parser.parse_punctuation("(")
        parse_type_into(parser, state, self.operand)
        parser.parse_punctuation(")")
        parser.parse_punctuation("->")
        parse_type_into(parser, state, self.result)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        types = [shown_type(op, values_of(op, n)[0]) for n in (self.operand, self.result)]
        printer.print_string(f" : ({types[0]}) -> {types[1]}")

    def grammar(self) -> str:
        return f"`:` `(` type(%{self.operand}) `)` `->` type(%{self.result})"


def infer_types(*types: Attribute) -> Callable[[ParseState], list[Attribute]]:
    """The rule for a group that always has these types."""
    return lambda state: list(types)


ATTRIBUTES = Dictionary()
syntax = assembly({"attr-dict": ATTRIBUTES})
