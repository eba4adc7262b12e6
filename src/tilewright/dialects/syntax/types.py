"""How types are written and read: what a dialect says of it, and MLIR's own spelling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from io import StringIO

from xdsl.ir import Attribute
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tilewright.diagnostics import define_code
from tilewright.dialects.syntax.tokens import fail, previous_end, token_start, token_text

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


@dataclass(frozen=True, slots=True)
class TypeSyntax:
    """How types are read and written in the type slots of a dialect's operations."""

    parse: Callable[[AttrParser], Attribute]
    format: Callable[[Attribute], str]


def parse_type(parser: AttrParser) -> Attribute:
    """Any MLIR type."""
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
