"""How types stand in the text of upstream operations, and how they are shown to people."""

from __future__ import annotations

from functools import lru_cache
from io import StringIO

from xdsl.ir import Attribute
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tilewright.dialects.cuda_tile.type_syntax import INVALID_TYPE, UNKNOWN_TYPE
from tilewright.dialects.syntax.engine import TypeSyntax
from tilewright.dialects.syntax.tokens import fail, previous_end, token_start, token_text


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


TYPE_SYNTAX = TypeSyntax(parse_type, format_type)
