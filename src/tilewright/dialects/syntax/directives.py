"""The directives that most operations are written with.

Each prints its own leading space, so a syntax tuple reads like the text that it prints.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, IntegerType, StringAttr, SymbolRefAttr, UnitAttr
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.utils.mlir_lexer import PunctuationSpelling

from tilewright.diagnostics import define_code
from tilewright.diagnostics.display import encoded
from tilewright.dialects.keywords import KeywordAttr
from tilewright.dialects.narrowing import is_enum
from tilewright.dialects.syntax.engine import (
    Directive,
    ParseState,
    property_of,
    shown_type,
    values_of,
)
from tilewright.dialects.syntax.tokens import (
    begins_operation,
    consume,
    fail,
    is_value_name,
    previous_end,
    token_end,
    token_start,
    token_text,
)

BAD_KEYWORD = define_code(
    "bad-keyword",
    "The keyword is not one of those expected here.",
)


@dataclass(frozen=True, slots=True)
class Punct(Directive):
    """A punctuation sign: ``,`` binds to what precedes it, others have a space before them."""

    sign: PunctuationSpelling

    def parse(self, parser: Parser, state: ParseState) -> None:
        parser.parse_punctuation(self.sign)

    def parse_optional(self, parser: Parser) -> bool:
        """Whether the sign stands here; it is read if so."""
        return parser.parse_optional_punctuation(self.sign) is not None

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        printer.print_string(self.sign if self.sign in ",[]" else f" {self.sign}")

    def grammar(self) -> str:
        return f"`{self.sign}`"


@dataclass(frozen=True, slots=True)
class Keyword(Directive):
    """A fixed word."""

    word: str

    def parse(self, parser: Parser, state: ParseState) -> None:
        parser.parse_keyword(self.word)

    def parse_optional(self, parser: Parser) -> bool:
        """Whether the word stands here; it is read if so."""
        return parser.parse_optional_keyword(self.word) is not None

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        printer.print_string(f" {self.word}")

    def grammar(self) -> str:
        return f"`{self.word}`"


@dataclass(frozen=True, slots=True)
class Operand(Directive):
    """One required operand."""

    name: str

    def parse(self, parser: Parser, state: ParseState) -> None:
        parse_operand(parser, state, self.name)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(values_of(op, self.name)[0])

    def grammar(self) -> str:
        return f"%{self.name}"


def parse_operand(parser: Parser, state: ParseState, name: str) -> None:
    """Read one more operand of a group. Raises CodedParseError if the next token is no value."""
    start = token_start(parser)
    if not is_value_name(parser):
        found = token_text(parser) or "the end of the file"
        fail(parser, f"expected an SSA operand for '{name}', found '{found}'")
    group = state.operands.setdefault(name, [])
    end = token_end(parser)
    group.append(parser.parse_unresolved_operand())
    state.mark(("operand", name, len(group) - 1), start, end)


def parse_operands(parser: Parser, state: ParseState, name: str) -> None:
    """Read further operands of a group, at least one, with commas between them. Raises CodedParseError as
    ``parse_operand`` does.
    """
    parse_operand(parser, state, name)
    while parser.parse_optional_punctuation(","):
        parse_operand(parser, state, name)


def parse_type_into(parser: Parser, state: ParseState, name: str) -> None:
    """Read one more type of a group."""
    start = token_start(parser)
    ty = state.type_syntax.parse(parser)
    group = state.types.setdefault(name, [])
    state.mark(("type", name, len(group)), start, previous_end(parser))
    group.append(ty)


def parse_types(parser: Parser, state: ParseState, name: str) -> None:
    """Read further types of a group, at least one, with commas between them."""
    parse_type_into(parser, state, name)
    while parser.parse_optional_punctuation(","):
        parse_type_into(parser, state, name)


@dataclass(frozen=True, slots=True)
class Operands(Directive):
    """A comma-separated group of operands; ``brackets`` puts it in ``[...]``, glued to what
    precedes."""

    name: str
    brackets: bool = False

    def parse(self, parser: Parser, state: ParseState) -> None:
        state.operands.setdefault(self.name, [])
        if self.brackets:
            parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: parse_operand(parser, state, self.name)
            )
        elif is_value_name(parser):
            parse_operands(parser, state, self.name)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        values = values_of(op, self.name)
        if self.brackets:
            printer.print_string("[")
            printer.print_list(values, printer.print_ssa_value)
            printer.print_string("]")
        elif values:
            printer.print_string(" ")
            printer.print_list(values, printer.print_ssa_value)

    def grammar(self) -> str:
        items = f"[%{self.name} {{`,` %{self.name}}}]"
        return f"`[` {items} `]`" if self.brackets else items


@dataclass(frozen=True, slots=True)
class TypeOf(Directive):
    """The type of one operand or result."""

    name: str

    def parse(self, parser: Parser, state: ParseState) -> None:
        parse_type_into(parser, state, self.name)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        printer.print_string(" " + shown_type(op, values_of(op, self.name)[0]))

    def grammar(self) -> str:
        return f"type(%{self.name})"


@dataclass(frozen=True, slots=True)
class TypesOf(Directive):
    """The comma-separated types of a group of values."""

    name: str

    def parse(self, parser: Parser, state: ParseState) -> None:
        parse_types(parser, state, self.name)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        types = ", ".join(shown_type(op, v) for v in values_of(op, self.name))
        printer.print_string(f" {types}")

    def grammar(self) -> str:
        return f"types(%{self.name})"


@dataclass(frozen=True, slots=True)
class TypedValues(Directive):
    """Operands and their types, or nothing: ``%a, %b : T, U``. What begins the next operation is none of them."""

    name: str

    def parse(self, parser: Parser, state: ParseState) -> None:
        state.operands[self.name], state.types[self.name] = [], []
        if is_value_name(parser) and not begins_operation(parser):
            parse_operands(parser, state, self.name)
            parser.parse_punctuation(":")
            parse_types(parser, state, self.name)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        if values := values_of(op, self.name):
            printer.print_string(" ")
            printer.print_list(values, printer.print_ssa_value)
            printer.print_string(" : " + ", ".join(shown_type(op, value) for value in values))

    def grammar(self) -> str:
        return f"[%{self.name} {{`,` %{self.name}}} `:` types(%{self.name})]"


@dataclass(frozen=True, slots=True)
class AttrDict(Directive):
    """The optional dictionary of discardable attributes, behind ``keyword`` if there is one.

    Names of the operation's own properties are accepted in it, as in MLIR's generic form.
    """

    keyword: str = ""

    def parse(self, parser: Parser, state: ParseState) -> None:
        if self.keyword and not parser.parse_optional_keyword(self.keyword):
            return
        if token_text(parser) == "{":
            state.attributes.update(parser.parse_optional_attr_dict())

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        printer.print_op_attributes(op.attributes, print_keyword=bool(self.keyword))

    def grammar(self) -> str:
        return f"[`{self.keyword}` attr-dict]" if self.keyword else "[attr-dict]"


@dataclass(frozen=True, slots=True)
class Flag(Directive):
    """A unit property, written as a keyword when set."""

    name: str
    word: str = ""

    def parse(self, parser: Parser, state: ParseState) -> None:
        start = token_start(parser)
        if parser.parse_optional_keyword(self.word or self.name):
            state.properties[self.name] = UnitAttr()
            state.mark(("attr", self.name, 0), start, previous_end(parser))

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        if self.name in op.properties:
            printer.print_string(f" {self.word or self.name}")

    def grammar(self) -> str:
        return f"[`{self.word or self.name}`]"


@dataclass(frozen=True, slots=True)
class Flags(Directive):
    """Unit properties in any order, each at most once, printed in the order given."""

    names: tuple[str, ...]

    def parse(self, parser: Parser, state: ParseState) -> None:
        while (name := token_text(parser)) in self.names:
            if name in state.properties:
                fail(parser, f"'{name}' is written twice")
            Flag(name).parse(parser, state)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        for name in self.names:
            Flag(name).print(printer, op)

    def grammar(self) -> str:
        return "{" + " | ".join(f"`{name}`" for name in self.names) + "}"


@dataclass(frozen=True, slots=True)
class Property(Directive):
    """A property that is always written, by how its value is read and shown; ``spelled`` is for people."""

    name: str
    value: Callable[[Parser], Attribute]
    show: Callable[[Any], str]
    spelled: str

    def parse(self, parser: Parser, state: ParseState) -> None:
        state.read(parser, self.name, lambda: self.value(parser))

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        printer.print_string(f" {self.show(op.properties[self.name])}")

    def grammar(self) -> str:
        return self.spelled


def take_word(parser: AttrParser, words: Collection[str], what: str) -> str:
    """Read one of some words. Raises CodedParseError (``bad-keyword``) with those there are where another stands."""
    text = token_text(parser)
    if text not in words:
        listed = ", ".join(f"'{word}'" for word in words)
        found = f"'{text}'" if text else "the end of the file"
        fail(parser, f"expected {what} to be one of: {listed}, got: {found}", code=BAD_KEYWORD)
    return consume(parser)


def one_of(words: Iterable[str]) -> str:
    """The grammar of a choice between words."""
    return "(" + " | ".join(f"`{word}`" for word in words) + ")"


@dataclass(frozen=True, slots=True)
class NumberedWord(Directive):
    """An integer property of 64 bits that is written as a word; ``numbers`` by words."""

    name: str
    numbers: Mapping[str, int]

    def parse(self, parser: Parser, state: ParseState) -> None:
        what = self.name.replace("_", " ")
        state.read(
            parser,
            self.name,
            lambda: IntegerAttr(self.numbers[take_word(parser, self.numbers, what)], 64),
        )

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        number = property_of(op, self.name, IntegerAttr).value.data
        word = next((word for word, known in self.numbers.items() if known == number), str(number))
        printer.print_string(f" {word}")

    def grammar(self) -> str:
        return one_of(self.numbers)


@cache
def enum_member(attribute: type[KeywordAttr], value: str) -> KeywordAttr:
    """The attribute of an enumeration's value; the same object for the same arguments."""
    return attribute.of(value)


def parse_enum_keyword(
    parser: Parser,
    state: ParseState,
    name: str,
    attribute: type[KeywordAttr],
    what: str = "",
) -> None:
    """Read a bare keyword, or the ``#cuda_tile.x<value>`` spelling, into a property."""
    values = tuple(m.value for m in attribute.enum_type)
    what = (what or name).replace("_", " ")

    def member() -> KeywordAttr:
        if token_text(parser) != f"#{attribute.name}":
            return enum_member(attribute, take_word(parser, values, what))
        consume(parser)
        with parser.in_angle_brackets():
            return enum_member(attribute, take_word(parser, values, what))

    state.read(parser, name, member)


@dataclass(frozen=True, slots=True)
class EnumKeyword(Directive):
    """A mandatory enumeration property, written as its bare keyword."""

    name: str
    attribute: type[KeywordAttr]
    what: str = ""

    def parse(self, parser: Parser, state: ParseState) -> None:
        parse_enum_keyword(parser, state, self.name, self.attribute, what=self.what)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        printer.print_string(f" {property_of(op, self.name, self.attribute).data.value}")

    def grammar(self) -> str:
        return one_of(m.value for m in self.attribute.enum_type)


@dataclass(frozen=True, slots=True)
class EnumSlot(Directive):
    """An optional ``word<value>`` whose default is not printed.

    ``keeps_space`` prints the slot's space even when it is empty, as the reference tools do for
    rounding modes. ``allowed`` narrows what the parser takes; ``stored`` says whether a property
    is made when nothing is written.
    """

    name: str
    attribute: type[KeywordAttr]
    word: str
    default: str
    allowed: tuple[str, ...] = ()
    keeps_space: bool = False

    def parse(self, parser: Parser, state: ParseState) -> None:
        start = token_start(parser)
        value = self.default
        if parser.parse_optional_keyword(self.word):
            values = self.allowed or tuple(m.value for m in self.attribute.enum_type)
            with parser.in_angle_brackets():
                what = "rounding mode" if self.word == "rounding" else self.word
                value = take_word(parser, values, what)
            state.mark(("attr", self.name, 0), start, previous_end(parser))
        state.properties[self.name] = enum_member(self.attribute, value)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        attribute = op.properties.get(self.name)
        value = attribute.data.value if is_enum(attribute) else self.default
        if value != self.default:
            printer.print_string(f" {self.word}<{value}>")
        elif self.keeps_space:
            printer.print_string(" ")

    def grammar(self) -> str:
        values = self.allowed or tuple(m.value for m in self.attribute.enum_type)
        return f"[`{self.word}` `<` ({' | '.join(values)}) `>`]"


def parse_signed(parser: Parser, width: int) -> int:
    """Read an integer that a signed one of so many bits can hold. Raises CodedParseError for another."""
    start, value = token_start(parser), parser.parse_integer(allow_boolean=False)
    limit = 1 << (width - 1)
    if not -limit <= value < limit:
        fail(parser, f"{value} does not fit a signed {width}-bit integer", start)
    return value


def parse_integers(parser: AttrParser) -> list[int]:
    """Read integers in square brackets, of any size. Raises ParseError for anything else."""
    return parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False)
    )


@dataclass(frozen=True, slots=True)
class IntField(Directive):
    """An integer property written ``word = 3`` (or ``word=3`` where not ``spaced``)."""

    name: str
    width: int
    word: str = ""
    spaced: bool = True

    def parse(self, parser: Parser, state: ParseState) -> None:
        parser.parse_keyword(self.word or self.name)
        parser.parse_punctuation("=")
        ty = IntegerType(self.width)
        state.read(parser, self.name, lambda: IntegerAttr(parse_signed(parser, self.width), ty))

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        value = property_of(op, self.name, IntegerAttr).value.data
        equals = " = " if self.spaced else "="
        printer.print_string(f" {self.word or self.name}{equals}{value}")

    def grammar(self) -> str:
        return f"`{self.word or self.name}` `=` INT"


@dataclass(frozen=True, slots=True)
class StringField(Directive):
    """A string literal property."""

    name: str

    def parse(self, parser: Parser, state: ParseState) -> None:
        state.read(parser, self.name, lambda: StringAttr(parser.parse_str_literal()))

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        text = property_of(op, self.name, StringAttr).data
        printer.print_string(" " + quote(text))

    def grammar(self) -> str:
        return "STRING"


@dataclass(frozen=True, slots=True)
class SymbolField(Directive):
    """A reference to a symbol: ``@name``."""

    name: str

    def parse(self, parser: Parser, state: ParseState) -> None:
        state.read(parser, self.name, lambda: SymbolRefAttr(parser.parse_symbol_name()))

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        text = property_of(op, self.name, SymbolRefAttr).root_reference.data
        printer.print_string(" " + format_symbol(text))

    def grammar(self) -> str:
        return "@NAME"


_PLAIN = frozenset(range(0x20, 0x7F)) - {0x22, 0x5C}


def quote(text: str) -> str:
    """A string literal as MLIR escapes it: `` \\22 ``, `` \\\\ `` and two hex digits for each
    byte outside printable ASCII.

    Bytes that were no UTF-8 are kept as surrogate escapes and come out as they went in.
    """
    return '"' + "".join(_escape(b) for b in encoded(text)) + '"'


def _escape(byte: int) -> str:
    if byte in _PLAIN:
        return chr(byte)
    return "\\\\" if byte == 0x5C else f"\\{byte:02X}"


def format_symbol(name: str) -> str:
    """``@name``, quoted where it is no plain identifier."""
    plain = (
        bool(name)
        and name.isascii()
        and (name[0].isalpha() or name[0] == "_")
        and all(c.isalnum() or c in "_$." for c in name)
    )
    return "@" + (name if plain else quote(name))


ARROW = Punct("->")
ATTR_DICT = AttrDict()
