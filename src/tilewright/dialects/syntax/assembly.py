"""Syntax written as MLIR writes assembly formats: ``"$lhs, $rhs attr-dict : type($lhs)"``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.mlir_lexer import MLIRTokenKind

from tilewright.dialects.syntax.directives import (
    ATTR_DICT,
    Keyword,
    Operand,
    Operands,
    Punct,
    TypeOf,
    TypesOf,
    parse_operand,
)
from tilewright.dialects.syntax.engine import Directive, ParseState, values_of

Syntax = tuple[Directive, ...]


@dataclass(frozen=True, slots=True)
class Index(Directive):
    """One operand in brackets, glued to what precedes."""

    name: str

    def parse(self, parser: Parser, state: ParseState) -> None:
        parser.parse_punctuation("[")
        parse_operand(parser, state, self.name)
        parser.parse_punctuation("]")

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        printer.print_string("[")
        printer.print_ssa_value(values_of(op, self.name)[0])
        printer.print_string("]")

    def grammar(self) -> str:
        return f"`[` %{self.name} `]`"


@dataclass(frozen=True, slots=True)
class OptionalOperand(Directive):
    """An operand that may be absent, with the signs and words in front of it, by the first of which
    the parser knows that it is there."""

    leading: tuple[Punct | Keyword, ...]
    operand: Operand

    def parse(self, parser: Parser, state: ParseState) -> None:
        if not self.leading[0].parse_optional(parser):
            return
        for part in self.leading[1:]:
            part.parse(parser, state)
        self.operand.parse(parser, state)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        if values_of(op, self.operand.name):
            for part in (*self.leading, self.operand):
                part.print(printer, op)

    def grammar(self) -> str:
        return f"[{' '.join(part.grammar() for part in (*self.leading, self.operand))}]"


_TOKEN = re.compile(
    r"""\s*(?:
      \((?P<leading>[^()$]+)\$(?P<optional>\w+)\)\?
    | types\(\$(?P<types>\w+)\)
    | type\(\$(?P<type>\w+)\)
    | \[\$(?P<index>\w+)(?P<all>\*?)\]
    | \$(?P<operand>\w+)(?P<group>\*?)
    | (?P<word>[A-Za-z][\w.-]*)
    | (?P<sign>->|[,:=])
    )""",
    re.VERBOSE,
)


def assembly(vocabulary: Mapping[str, Directive]) -> Callable[..., Syntax]:
    """A function that makes the ``SYNTAX`` of operations from texts and directives, in their order.

    In a text, ``$x`` is an operand and ``$x*`` a group of them, ``[$x]`` and ``[$x*]`` the same in
    brackets; ``type($x)`` and ``types($x)`` are the types of a value and of a group; ``(, $x)?`` and
    ``(word = $x)?`` are an operand that may be absent. Words of the vocabulary stand for its
    directives, other words and signs for themselves. A text that is none of this is a ValueError.
    """

    def syntax(*parts: str | Directive) -> Syntax:
        directives: list[Directive] = []
        for part in parts:
            directives += _read(part, vocabulary) if isinstance(part, str) else [part]
        return tuple(directives)

    return syntax


def _read(text: str, vocabulary: Mapping[str, Directive]) -> list[Directive]:
    found: list[Directive] = []
    at = 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"no syntax at {text[at:]!r}")
        found.append(_directive(match, vocabulary))
        at = match.end()
    return found


def _directive(match: re.Match[str], vocabulary: Mapping[str, Directive]) -> Directive:
    text = match[match.lastgroup or 0]
    if name := match["operand"]:
        return Operands(name) if match["group"] else Operand(name)
    if name := match["index"]:
        return Operands(name, brackets=True) if match["all"] else Index(name)
    if name := match["optional"]:
        parts = _read(match["leading"], {})
        leading = tuple(part for part in parts if isinstance(part, Punct | Keyword))
        assert len(leading) == len(parts), text
        return OptionalOperand(leading, Operand(name))
    if name := match["type"]:
        return TypeOf(name)
    if name := match["types"]:
        return TypesOf(name)
    if word := match["word"]:
        return vocabulary.get(word) or Keyword(word)
    sign = match["sign"]
    assert MLIRTokenKind.is_spelling_of_punctuation(sign), sign
    return Punct(sign)


syntax = assembly({"attr-dict": ATTR_DICT})
