"""Error recovery: finds the start of the next operation of the same block."""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from dataclasses import dataclass

from tilewright.text.lexer import TOKEN

_RESULT = r"%[\w$.-]+(?:[ \t]*:[ \t]*[0-9]+)?"
_RESULTS = re.compile(rf"{_RESULT}(?:\s*,\s*{_RESULT})*\s*=(?!=)", re.ASCII)
_OPERATION_WITH_RESULTS = re.compile(_RESULTS.pattern + r'\s*["A-Za-z_]', re.ASCII)
_GENERIC_OPERATION = re.compile(r'"[\w$.]+"[ \t]*\(', re.ASCII)
_WORD = re.compile(r"[A-Za-z_][\w$.]*", re.ASCII)
_NAME = re.compile(r"%([\w$.-]+)", re.ASCII)


#: Words that start a line in the middle of an operation.
_CONTINUATIONS = frozenset({"attributes", "else", "loc", "optimization_hints"})


@dataclass(frozen=True, slots=True)
class Resumption:
    """``offset``: where to resume. ``body``: a region of the failed operation before that, whose
    operations can still be parsed."""

    offset: int
    body: int | None = None


def result_names(text: str, start: int) -> list[str]:
    """Return the names that the operation at ``start`` would have defined."""
    match = _RESULTS.match(text, start)
    return _NAME.findall(match.group()) if match else []


def names_between(text: str, start: int, end: int) -> list[str]:
    """Return every value name in a range of the text."""
    return _NAME.findall(text, start, end)


def find_resumption(
    text: str,
    start: int,
    error: int,
    is_operation: Callable[[str], bool],
    stops: Container[int] = (),
) -> Resumption:
    """Find the next position where an operation starts, a block label begins or the block ends.

    All numbers are offsets in ``text``. ``start`` is where the failed operation begins, ``error`` where parsing
    stopped, and ``stops`` are further offsets to end at. Braces are balanced from the start on. Even inside braces, a
    line that looks like an operation ends the search if it is indented no deeper than the failed operation, since a
    brace may be what is missing.
    """
    indent = _indent(text, start)
    depth = 0
    at = start
    while True:
        match = TOKEN.match(text, at)
        assert match is not None and match.lastindex is not None
        token_start, token_end = match.span(match.lastindex)
        token = text[token_start:token_end]
        if token_start == token_end:
            return Resumption(token_start)
        leads_line = "\n" in text[at:token_start]
        if token_start in stops and token_start > start:
            return Resumption(token_start)
        if token_start >= error and token_start > start and leads_line:
            shallow = token_start - text.rfind("\n", 0, token_start) - 1 <= indent
            if (depth == 0 or shallow) and _starts_operation(
                text, token_start, is_operation, shallow
            ):
                return Resumption(token_start)
        if token == "{":
            if depth == 0 and token_start >= error and _ends_line(text, token_end):
                return Resumption(token_end, token_start)
            depth += 1
        elif token == "}":
            outside = leads_line and token_start - text.rfind("\n", 0, token_start) - 1 < indent
            if depth == 0 or (outside and token_start >= error):
                return Resumption(token_start)
            depth -= 1
        at = token_end


def _indent(text: str, offset: int) -> int:
    line = text.rfind("\n", 0, offset) + 1
    return len(text[line:offset]) - len(text[line:offset].lstrip(" \t"))


def _ends_line(text: str, offset: int) -> bool:
    end = text.find("\n", offset)
    rest = text[offset : len(text) if end < 0 else end].strip()
    return not rest or rest.startswith("//")


def _starts_operation(
    text: str, offset: int, is_operation: Callable[[str], bool], shallow: bool
) -> bool:
    """Whether an operation seems to start here. If nothing indicates that the line continues the failed
    operation (``shallow``), any word may be a misspelt operation."""
    first = text[offset]
    if first == "%":
        return _OPERATION_WITH_RESULTS.match(text, offset) is not None
    if first == '"':
        return _GENERIC_OPERATION.match(text, offset) is not None
    if first == "^":
        return True
    word = _WORD.match(text, offset)
    if word is None:
        return False
    return is_operation(word.group()) or (shallow and word.group() not in _CONTINUATIONS)
