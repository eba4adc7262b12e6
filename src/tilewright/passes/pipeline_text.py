"""Parses pipeline text such as ``canonicalize,loop-split{split-threshold=2}``.

The syntax is xDSL's: names separated by commas, options in braces separated by spaces, values
separated by commas. Blanks around commas and braces are ignored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from xdsl.utils.arg_spec import ParameterListType, ParameterType

from tilewright.diagnostics import SourceFile, Span, TileIRError, define_code

BAD_PIPELINE = define_code(
    "bad-pipeline",
    "The text of a pipeline is malformed.",
    "A pipeline is a list such as `canonicalize,loop-split{split-threshold=2},O1`: names of "
    "passes or pipelines separated by commas, the options of a pass in braces.",
)

_TOKEN = re.compile(
    r"\s*(?:(?P<name>[A-Za-z0-9_+.-]+)|(?P<string>\"[^\"]*\")|(?P<mark>[{},=])|(?P<other>\S)|$)"
)
_INTEGER = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?[0-9]+\.[0-9]*([eE][-+]?[0-9]+)?")
_WORDS: dict[str, bool] = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class OptionText:
    """An option as written, ``key=value,value``; a bare key has no values."""

    key: str
    values: ParameterListType
    location: Span


@dataclass(frozen=True, slots=True)
class ElementText:
    """A pass or pipeline as written, with its options."""

    name: str
    options: tuple[OptionText, ...]
    location: Span


def parse_elements(text: str) -> list[ElementText]:
    """Parse a pipeline's text into its elements. Raises ``TileIRError`` (``bad-pipeline``)."""
    return _Reader(SourceFile("<pipeline>", text)).elements()


class _Reader:
    def __init__(self, file: SourceFile):
        self.file = file
        self.kind = self.token = ""
        self.start = self.end = self.last_end = 0
        self.advance()

    def advance(self) -> None:
        self.last_end = self.end
        match = _TOKEN.match(self.file.text, self.end)
        assert match is not None
        self.kind = match.lastgroup or "end"
        self.token = match.group(self.kind) if self.kind != "end" else ""
        self.start = match.end() - len(self.token)
        self.end = match.end()

    def take(self, kind: str, what: str) -> tuple[str, int]:
        if self.kind != kind:
            found = f"'{self.token}'" if self.token else "the end"
            place = Span(self.file, self.start, max(self.end, self.start + bool(self.token)))
            raise TileIRError.single(BAD_PIPELINE, f"expected {what}, found {found}", place)
        taken = self.token, self.start
        self.advance()
        return taken

    def mark(self, text: str) -> bool:
        if self.kind != "mark" or self.token != text:
            return False
        self.advance()
        return True

    def elements(self) -> list[ElementText]:
        found: list[ElementText] = []
        while self.kind != "end":
            name, start = self.take("name", "the name of a pass or pipeline")
            place = Span(self.file, start, start + len(name))
            found.append(ElementText(name, self.options(), place))
            if self.kind == "end":
                break
            if not self.mark(","):
                self.take("end", "',' between two passes")
        return found

    def options(self) -> tuple[OptionText, ...]:
        found: list[OptionText] = []
        if self.mark("{"):
            while not self.mark("}"):
                key, start = self.take("name", "the name of an option or '}'")
                end = start + len(key)
                values: list[ParameterType] = []
                more = self.mark("=")
                while more:
                    values.append(self.value())
                    end = self.last_end
                    more = self.mark(",")
                found.append(OptionText(key, tuple(values), Span(self.file, start, end)))
        return tuple(found)

    def value(self) -> ParameterType:
        if self.kind == "string":
            return self.take("string", "a value")[0][1:-1]
        text, _ = self.take("name", "a value")
        if _INTEGER.fullmatch(text):
            return int(text)
        if _FLOAT.fullmatch(text):
            return float(text)
        return _WORDS.get(text, text)
