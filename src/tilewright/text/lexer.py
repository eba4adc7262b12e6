"""A lexer for MLIR text: one regular expression, tokens made on demand, never an exception.

A character or literal that is no token becomes a token of its own that fits nowhere; the parser
then complains where it stands, and :func:`lexical_problem` says what is wrong with it. So a bad
character costs one operation, not the file.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import ClassVar

from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import KIND_BY_PUNCTUATION_SPELLING, MLIRLexer, MLIRTokenKind


class NoToken(Enum):
    """The kind of what is no token."""

    UNKNOWN = "unknown"


Kind = MLIRTokenKind | NoToken

#: Longer number literals fit no type; Python itself refuses to convert very long ones.
MAX_NUMBER_LENGTH = 1000

_SKIP = r"(?:[ \t\n\r\f\v]++|//[^\n]*+)*+"
_STRING = r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"'
_SUFFIX = r"(?:[0-9]+|[A-Za-z$._-][\w$.-]*)"

#: What follows white space and comments; the number of the matched group tells the kind.
TOKEN = re.compile(
    _SKIP
    + "(?:"
    + "|".join(
        (
            rf"(%{_SUFFIX})",
            # Of `4x8xf32`, the `x` before `8` is a token, so that a long shape is not read again
            # for each of its extents.
            r"((?<=[0-9?])x(?=[0-9?])|[A-Za-z_][\w$.]*)",
            r"(->|\.\.\.|\{-\#|\#-\}|[:,=>{(\[<+?/})\]*|])",
            r"(0x[0-9a-fA-F]+|[0-9]++(?!\.))",
            r"([0-9]++\.[0-9]*+(?:[eE][+-]?[0-9]++)?)",
            r"(-)",
            rf"(!{_SUFFIX})",
            rf"(\#{_SUFFIX})",
            rf"(@(?:[A-Za-z_][\w$.]*|{_STRING}))",
            rf"({_STRING})",
            rf"(\^{_SUFFIX})",
            r"(\Z)",
            r"(.)",
        )
    )
    + ")",
    re.ASCII | re.DOTALL,
)

_PUNCTUATION_GROUP = 3
_INTEGER_GROUP, _FLOAT_GROUP, _STRING_GROUP = 4, 5, 10
_KINDS: tuple[Kind, ...] = (
    NoToken.UNKNOWN,
    MLIRTokenKind.PERCENT_IDENT,
    MLIRTokenKind.BARE_IDENT,
    NoToken.UNKNOWN,
    MLIRTokenKind.INTEGER_LIT,
    MLIRTokenKind.FLOAT_LIT,
    MLIRTokenKind.MINUS,
    MLIRTokenKind.EXCLAMATION_IDENT,
    MLIRTokenKind.HASH_IDENT,
    MLIRTokenKind.AT_IDENT,
    MLIRTokenKind.STRING_LIT,
    MLIRTokenKind.CARET_IDENT,
    MLIRTokenKind.EOF,
    NoToken.UNKNOWN,
)


class TileToken(Span):
    """A token that is its own span: one object where xDSL makes two.

    ``text`` is stored, not computed.
    """

    text: ClassVar[str] = ""  # pyright: ignore[reportIncompatibleMethodOverride]
    kind: Kind

    def __init__(self, kind: Kind, start: int, end: int, source: Input, text: str) -> None:
        fields = self.__dict__
        fields["kind"] = kind
        fields["start"] = start
        fields["end"] = end
        fields["input"] = source
        fields["text"] = text

    @property
    def span(self) -> TileToken:
        """The token itself, which has the ``start`` and ``end`` that xDSL asks a span for."""
        return self


class TileLexer(MLIRLexer):
    """Gives :class:`TileToken` objects; the end of the text gives end-of-file tokens for ever."""

    def __init__(self, source: Input) -> None:
        super().__init__(source)
        self._text = source.content

    def lex(self) -> TileToken:  # pyright: ignore[reportIncompatibleMethodOverride]
        match = TOKEN.match(self._text, self.pos)
        assert match is not None
        group = match.lastindex
        assert group is not None
        text = match[group]
        start, end = match.span(group)
        self.pos = end
        if group == _PUNCTUATION_GROUP:
            kind: Kind = KIND_BY_PUNCTUATION_SPELLING[text]
        else:
            kind = _KINDS[group]
            if group in (_INTEGER_GROUP, _FLOAT_GROUP) and end - start > MAX_NUMBER_LENGTH:
                kind = NoToken.UNKNOWN
        return TileToken(kind, start, end, self.input, text)


def lexical_problem(token: TileToken) -> str:
    """What is wrong with a token of no kind."""
    first = token.text[:1]
    if first.isdigit():
        return f"a number literal has at most {MAX_NUMBER_LENGTH} characters"
    if first == '"':
        line = token.input.content[token.start : token.start + 4096].split("\n", 1)[0]
        if line.count('"') > 1:
            return "unknown escape sequence or control character in a string literal"
        return "unterminated string literal"
    if first in "%#!^@":
        return f"expected a name after '{first}'"
    return f"unexpected character {first!a}"
