"""A lexer for MLIR text: one regular expression, tokens created on demand, no exceptions.

An invalid character or literal becomes a token that no rule accepts. The parser reports it there, and
:func:`lexical_problem` describes it. A bad character thus costs one operation, not the file.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import ClassVar

from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import KIND_BY_PUNCTUATION_SPELLING, MLIRLexer, MLIRTokenKind


class NoToken(Enum):
    """The kind of invalid tokens."""

    UNKNOWN = "unknown"


Kind = MLIRTokenKind | NoToken

#: Longer number literals fit no type, and Python refuses to convert very long ones.
MAX_NUMBER_LENGTH = 1000

_SKIP = r"(?:[ \t\n\r\f\v]++|//[^\n]*+)*+"
_STRING = r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"'
_SUFFIX = r"(?:[0-9]+|[A-Za-z$._-][\w$.-]*)"

#: A token after white space and comments; the index of the matched group is its kind.
TOKEN = re.compile(
    _SKIP
    + "(?:"
    + "|".join(
        (
            rf"(%{_SUFFIX})",
            # In `4x8xf32`, an `x` before a digit is its own token, so that a long shape is not rescanned
            # for each extent.
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
    """A token that is its own span: one object where xDSL creates two.

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
        """The token itself, which has the ``start`` and ``end`` that xDSL expects of a span."""
        return self


class TileLexer(MLIRLexer):
    """Creates :class:`TileToken` objects; after the end of the text, end-of-file tokens forever."""

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
    """Describe what is wrong with an invalid token, for messages."""
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
