"""The few things that the syntax engine needs from xDSL's parser beyond its public methods.

Private names of xDSL are used here and in ``tilewright.text`` only, so that a change of theirs
is mended in one place.
"""

from __future__ import annotations

import re
from typing import NoReturn

from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Span
from xdsl.utils.mlir_lexer import MLIRToken, MLIRTokenKind

from tilewright.diagnostics import define_code
from tilewright.diagnostics.display import encoded

SYNTAX = define_code(
    "syntax",
    "The text does not follow the grammar.",
    "The parser found a token that the grammar does not allow at this location. `tilewright "
    "explain OP` shows the syntax of an operation.",
)


class _Inside(AttrParser):
    """What xDSL's parser gives to its subclasses only."""

    @staticmethod
    def token(parser: AttrParser) -> MLIRToken:
        return parser._current_token

    @staticmethod
    def take(parser: AttrParser) -> MLIRToken:
        return parser._consume_token()

    @staticmethod
    def resume(parser: AttrParser, offset: int) -> None:
        parser._resume_from(offset)


class _Lines(Printer):
    """What xDSL's printer gives to its subclasses only."""

    @staticmethod
    def end(printer: Printer) -> None:
        printer._print_new_line()


def _string_literal(self: Printer, string: str) -> None:
    """Any string in quotes, escaped as MLIR does; lone surrogates as the bytes that they stand for."""
    self.print_bytes_literal(encoded(string))


# The readers keep bytes that are no UTF-8 as lone surrogates. xDSL's printer, which spells attributes for
# every message, of its own and of ours, cannot write those: a diagnostic about one would be a traceback.
Printer.print_string_literal = _string_literal


class CodedParseError(ParseError):
    """A parse error that carries a diagnostic code, and notes as (message, span) pairs."""

    def __init__(
        self,
        span: Span,
        code: str,
        message: str,
        notes: tuple[tuple[str, Span | None], ...] = (),
        help: str = "",
    ):
        super().__init__(span, message)
        self.code = code
        self.message = message
        self.notes = notes
        self.help = help


_NUMBER_OF_RESULTS = re.compile(r"[ \t]*:[ \t]*\d+(?=[ \t]*[,=])")


def fail(
    parser: AttrParser,
    message: str,
    start: int | None = None,
    end: int | None = None,
    *,
    code: str = SYNTAX,
    notes: tuple[tuple[str, Span | None], ...] = (),
    help: str = "",
) -> NoReturn:
    """Raise CodedParseError over [start, end), offsets in the text, by default over the current token.

    ``start`` alone marks a position. ``help`` replaces the one of the code.
    """
    current = _Inside.token(parser).span
    begin = current.start if start is None else start
    stop = (current.end if start is None else begin) if end is None else end
    span = Span(begin, stop, parser.lexer.input)
    raise CodedParseError(span, code, message, notes, help)


def current_token(parser: AttrParser) -> MLIRToken:
    """The token that is read next, with its kind."""
    return _Inside.token(parser)


def new_line(printer: Printer) -> None:
    """End the line and begin the next one at the indentation of the printer."""
    _Lines.end(printer)


def token_text(parser: AttrParser) -> str:
    """The current token as written; empty at the end of the file."""
    return _Inside.token(parser).text


def token_start(parser: AttrParser) -> int:
    """Where the next token begins, in characters from the beginning of the file."""
    return _Inside.token(parser).span.start


def token_end(parser: AttrParser) -> int:
    """The offset in the text at which the next token ends."""
    return _Inside.token(parser).span.end


def content(parser: AttrParser) -> str:
    """The whole text that is read."""
    return parser.lexer.input.content


def resume_at(parser: AttrParser, offset: int) -> None:
    """Go on at a character, forwards or backwards."""
    _Inside.resume(parser, offset)


def is_identifier(parser: AttrParser) -> bool:
    """Whether the next token is a bare word."""
    return _Inside.token(parser).kind is MLIRTokenKind.BARE_IDENT


def is_value_name(parser: AttrParser) -> bool:
    """Whether the next token is a value, ``%name``."""
    return _Inside.token(parser).kind is MLIRTokenKind.PERCENT_IDENT


def begins_operation(parser: AttrParser) -> bool:
    """Whether the value name here is the result of the next operation (``%x = ...``, ``%x:2 = ...``)."""
    at = token_end(parser)
    rest = _NUMBER_OF_RESULTS.sub("", content(parser)[at : at + 400]).lstrip(" \t")
    return rest.startswith("=") or (rest.startswith(",") and _names_then_equals(rest))


def _names_then_equals(rest: str) -> bool:
    line = rest.partition("\n")[0]
    head, equals, _ = line.partition("=")
    return bool(equals) and not set(head) & set('{}:()<>[]"')


def consume(parser: AttrParser) -> str:
    """Take the current token whatever it is; returns its text."""
    return _Inside.take(parser).text


def previous_end(parser: AttrParser) -> int:
    """The offset just after the last consumed character that is not white space.

    Parsers that keep a record of it (``previous_end``) are asked; for others, white space and
    comments before the current token are skipped backwards, line by line for comments.
    """
    recorded: int | None = getattr(parser, "previous_end", None)
    if recorded is not None:
        return recorded
    text = content(parser)
    end = token_start(parser)
    while True:
        stripped = len(text[:end].rstrip()) if end - 256 < 0 else _rstrip(text, end)
        line = text.rfind("\n", 0, stripped) + 1
        comment = text.find("//", line, stripped)
        if comment < 0 or '"' in text[line:comment]:
            return stripped
        end = comment


def _rstrip(text: str, end: int) -> int:
    while end > 0 and text[end - 1].isspace():
        end -= 1
    return end
