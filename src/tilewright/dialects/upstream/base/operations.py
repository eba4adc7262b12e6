"""What the operations around ``nvgpu`` declare, and the directives that only they need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType
from xdsl.dialects.utils.enum_attribute import EnumAttribute
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser
from xdsl.printer import Printer

from tilewright.dialects.declare import DeclaredOp, declare_op
from tilewright.dialects.nvgpu.enums import parse_keyword
from tilewright.dialects.syntax.directives import parse_operand, parse_type_into
from tilewright.dialects.syntax.engine import Directive, ParseState, shown_type, values_of
from tilewright.dialects.syntax.tokens import is_value_name, previous_end, token_start, token_text
from tilewright.dialects.upstream.base.type_syntax import TYPE_SYNTAX


class SupportOp(DeclaredOp):
    """An operation of a dialect around ``nvgpu``."""

    TYPE_SYNTAX: ClassVar = TYPE_SYNTAX


_OpT = TypeVar("_OpT", bound=type[SupportOp])

#: The operations of each dialect, by mnemonic, in the order of definition.
OPERATIONS: dict[str, dict[str, type[SupportOp]]] = {}


def support_op(dialect: str, mnemonic: str) -> Callable[[_OpT], _OpT]:
    """Declare an operation of a dialect."""

    def declare(cls: _OpT) -> _OpT:
        defined = declare_op(cls, dialect, mnemonic, dialect)
        OPERATIONS.setdefault(dialect, {})[mnemonic] = defined
        return defined

    return declare


@dataclass(frozen=True, slots=True)
class Choice(Directive):
    """A property of an enumeration, written as its bare keyword; ``optional`` ones may be absent."""

    name: str
    cls: type[EnumAttribute]
    optional: bool = False

    def parse(self, parser: Parser, state: ParseState) -> None:
        if self.optional and token_text(parser) not in {m.value for m in self.cls.enum_type}:
            return
        start = token_start(parser)
        member = parse_keyword(parser, self.cls.enum_type, self.name)
        state.properties[self.name] = self.cls(member)
        state.mark(("attr", self.name, 0), start, previous_end(parser))

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        found = op.properties.get(self.name)
        if isinstance(found, EnumAttribute):
            printer.print_string(f" {found.data.value}")

    def grammar(self) -> str:
        listed = "(" + " | ".join(f"`{m.value}`" for m in self.cls.enum_type) + ")"
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
        start = token_start(parser)
        ty = IntegerType(self.width) if self.width else IndexType()
        state.properties[self.name] = IntegerAttr(parser.parse_integer(allow_boolean=False), ty)
        state.mark(("attr", self.name, 0), start, previous_end(parser))

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        found = op.properties.get(self.name)
        if isinstance(found, IntegerAttr):
            word = f" {self.word}" if self.word else ""
            printer.print_string(f"{word} {found.value.data}")

    def grammar(self) -> str:
        return f"[`{self.word}` INT]" if self.word else "INT"


@dataclass(frozen=True, slots=True)
class NamedOperand(Directive):
    """An optional operand: ``word = %name``, or ``word %name`` where not ``equals``."""

    name: str
    word: str
    equals: bool = True

    def parse(self, parser: Parser, state: ParseState) -> None:
        if parser.parse_optional_keyword(self.word):
            if self.equals:
                parser.parse_punctuation("=")
            parse_operand(parser, state, self.name)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        if values := values_of(op, self.name):
            printer.print_string(f" {self.word} {'= ' if self.equals else ''}")
            printer.print_ssa_value(values[0])

    def grammar(self) -> str:
        return f"[`{self.word}` {'`=` ' if self.equals else ''}%{self.name}]"


@dataclass(frozen=True, slots=True)
class TypedValues(Directive):
    """Operands and their types, or nothing: ``%a, %b : T, U``."""

    name: str

    def parse(self, parser: Parser, state: ParseState) -> None:
        state.operands[self.name], state.types[self.name] = [], []
        if not is_value_name(parser):
            return
        parse_operand(parser, state, self.name)
        while parser.parse_optional_punctuation(","):
            parse_operand(parser, state, self.name)
        parser.parse_punctuation(":")
        parse_type_into(parser, state, self.name)
        while parser.parse_optional_punctuation(","):
            parse_type_into(parser, state, self.name)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        if values := values_of(op, self.name):
            printer.print_string(" ")
            printer.print_list(values, printer.print_ssa_value)
            printer.print_string(" : " + ", ".join(shown_type(op, value) for value in values))

    def grammar(self) -> str:
        return f"[%{self.name} {{`,` %{self.name}}} `:` types(%{self.name})]"


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
