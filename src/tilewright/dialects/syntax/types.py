"""How types are written and read: what a dialect says of it, and MLIR's own spelling."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from io import StringIO
from typing import TypeVar

from xdsl.ir import Attribute
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tilewright.diagnostics import define_code
from tilewright.dialects.syntax.tokens import (
    content,
    fail,
    previous_end,
    resume_at,
    token_start,
    token_text,
)

UNKNOWN_TYPE = define_code(
    "unknown-type",
    "A known type is expected here.",
    "Types of the cuda_tile dialect may be written with or without `!cuda_tile.`; builtin "
    "element types are i1, i4, i8, i16, i32, i64, f16, bf16, f32, tf32, f64, f8E4M3FN, f8E5M2, "
    "f8E8M0FNU, f4E2M1FN and f8E5M3FNU.",
)
INVALID_TYPE = define_code(
    "invalid-type",
    "A type is well-formed but invalid.",
    "Tile extents are positive powers of two with at most 2**24 elements in all; view tiles have "
    "the rank of their tensor view; a dim_map is a permutation; paddings other than zero need "
    "float elements.",
)


TypeT = TypeVar("TypeT", bound=Attribute | None)

#: What may stand between angle brackets: no strings, comments or aliases, whose names have no dot.
_INSIDE = r'[^<>"#!/\n]*+(?:[#!](?=[A-Za-z_]\w*\.)[^<>"#!/\n]*+)*+'
#: A type with up to three levels of angle brackets, whose meaning is the same wherever it stands.
_WHOLE_TYPE = re.compile(
    rf"!?[A-Za-z_][\w.]*+<{_INSIDE}(?:<{_INSIDE}(?:<{_INSIDE}>{_INSIDE})*+>{_INSIDE})*+>", re.ASCII
)
_MOST_REMEMBERED, _LONGEST_REMEMBERED = 4096, 256

#: Types by their text, for each way of reading types.
TypeMemos = dict[str, dict[str, Attribute]]


def read_once(parser: AttrParser, way: str, read: Callable[[], TypeT]) -> TypeT:
    """The type that ``read`` reads, which begins with the current token; a text that has been read before
    in this ``way`` is skipped.

    A parser's ``type_memos`` say what has been read, those of its own where it has none. Such a type has few levels, which do not
    count as nesting around it: so the limit does not depend on what has been read before.
    """
    start = token_start(parser)
    match = _WHOLE_TYPE.match(content(parser), start)
    known = parser.__dict__
    if match is None:
        return read()
    memos: TypeMemos = known.setdefault("type_memos", {})
    memo = memos.setdefault(way, {})
    text, end = match[0], match.end()
    if (found := memo.get(text)) is not None:
        resume_at(parser, end)
        return found  # pyright: ignore[reportReturnType]
    depth = known.get("depth", 0)
    known["depth"] = 0
    try:
        new = read()
    finally:
        known["depth"] = depth
    # Some texts end elsewhere: `->` is no bracket.
    if isinstance(new, Attribute) and previous_end(parser) == end <= start + _LONGEST_REMEMBERED:
        if len(memo) >= _MOST_REMEMBERED:
            memo.clear()
        memo[text] = new
    return new


@dataclass(frozen=True, slots=True)
class TypeSyntax:
    """How types are read and written in the type slots of a dialect's operations."""

    parse: Callable[[AttrParser], Attribute]
    format: Callable[[Attribute], str]


def parse_type(parser: AttrParser) -> Attribute:
    """Any MLIR type.

    Raises CodedParseError: ``unknown-type`` where none stands, ``invalid-type`` for one that does not verify.
    """
    start, text = token_start(parser), token_text(parser)
    try:
        found = parser.parse_optional_type()
    except VerifyException as error:
        fail(parser, str(error), start, previous_end(parser), code=INVALID_TYPE)
    if found is None:
        shown = f"'{text}'" if text else "the end of the file"
        fail(parser, f"expected a type, found {shown}", code=UNKNOWN_TYPE)
    return found


@lru_cache(maxsize=4096)
def format_type(ty: Attribute) -> str:
    """The type as MLIR spells it."""
    out = StringIO()
    Printer(out).print_attribute(ty)
    return out.getvalue()


MLIR_TYPES = TypeSyntax(parse_type, format_type)
