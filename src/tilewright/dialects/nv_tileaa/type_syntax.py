"""How the types of ``nv_tileaa`` are written and read.

Inside the syntax of an operation or of another type, tiles are written without their prefix and
all other types with it, as in ``tile<128x!nv_tileaa.ptr<f16, 1>>``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from io import StringIO

from xdsl.dialects.builtin import ArrayAttr, IntAttr, NoneAttr, UnitAttr
from xdsl.ir import Attribute
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

import tilewright.dialects.nv_tileaa.types as T
from tilewright.dialects.cuda_tile.type_syntax import element_by_spelling
from tilewright.dialects.cuda_tile.types import DYNAMIC, ELEMENT_NAMES, DimsAttr
from tilewright.dialects.syntax import types
from tilewright.dialects.syntax.tokens import (
    consume,
    fail,
    is_identifier,
    previous_end,
    token_start,
    token_text,
)
from tilewright.dialects.syntax.types import INVALID_TYPE, TypeSyntax, read_once


def parse_type(parser: AttrParser) -> Attribute:
    """A type in a slot of the custom syntax: a short tile, an element or any other MLIR type."""
    text = token_text(parser)
    if is_identifier(parser):
        if text == "tile":
            return read_once(parser, "nv_tileaa", lambda: _parse_short_tile(parser))
        if (element := element_by_spelling(text)) is not None:
            consume(parser)
            return element
    return types.parse_type(parser)


def _parse_short_tile(parser: AttrParser) -> Attribute:
    start = token_start(parser)
    consume(parser)
    parameters = parse_tile(parser)
    try:
        return T.TileType.new(list(parameters))
    except VerifyException as error:
        fail(parser, str(error), start, previous_end(parser), code=INVALID_TYPE)


@lru_cache(maxsize=4096)
def format_type(ty: Attribute) -> str:
    """The spelling used in type slots."""
    if isinstance(ty, T.TileType):
        return "tile" + tile_body(ty)
    if (name := ELEMENT_NAMES.get(ty)) is not None:
        return name
    out = StringIO()
    Printer(out).print_attribute(ty)
    return out.getvalue()


TYPE_SYNTAX = TypeSyntax(parse_type, format_type)


def _parse_shape(parser: AttrParser, allow_dynamic: bool) -> DimsAttr:
    """``(INT|? x)*`` before an element type; takes the last ``x``."""
    dims: list[int] = []
    while (text := token_text(parser)) and (text[0].isdigit() or text == "?"):
        if text == "?" and not allow_dynamic:
            fail(parser, "expected static shape, found '?'")
        start = token_start(parser)
        dim = parser.parse_shape_dimension()
        if dim > 2**63 - 1:
            fail(parser, f"dimension {dim} does not fit a signed 64-bit integer", start)
        dims.append(DYNAMIC if text == "?" else dim)
        parser.parse_shape_delimiter()
    return DimsAttr(tuple(dims))


def _shaped(dims: Sequence[int], element: Attribute) -> str:
    extents = "".join(("?" if d == DYNAMIC else str(d)) + "x" for d in dims)
    return extents + format_type(element)


def parse_tile(parser: AttrParser) -> Sequence[Attribute]:
    """The parameters of a tile type from ``<4x8xf32>``: extents, element type, and its layout or
    none."""
    with parser.in_angle_brackets():
        dims = _parse_shape(parser, allow_dynamic=False)
        element = parse_type(parser)
        layout: Attribute = NoneAttr()
        if parser.parse_optional_punctuation(","):
            layout = parser.parse_attribute()
    return (dims, element, layout)


def tile_body(ty: T.TileType) -> str:
    """What ``parse_tile`` reads."""
    layout = "" if isinstance(ty.layout, NoneAttr) else f", {format_type(ty.layout)}"
    return f"<{_shaped(ty.dims, ty.element_type)}{layout}>"


def parse_ptr(parser: AttrParser) -> Sequence[Attribute]:
    """The parameters of a pointer type from ``<f32, 1>``: what it points to, and the address space,
    global where none is said."""
    space = T.GLOBAL_SPACE
    with parser.in_angle_brackets():
        pointee = parse_type(parser)
        if parser.parse_optional_punctuation(","):
            space = parser.parse_integer(allow_boolean=False)
    return (pointee, IntAttr(space))


def ptr_body(ty: T.PtrType) -> str:
    """What ``parse_ptr`` reads; the address space is always printed."""
    return f"<{format_type(ty.pointee)}, {ty.space}>"


def _parse_stride(parser: AttrParser) -> int:
    if parser.parse_optional_punctuation("?"):
        return DYNAMIC
    return parser.parse_integer(allow_boolean=False)


def parse_memref(parser: AttrParser) -> Sequence[Attribute]:
    """The parameters of a memref: the fields behind the element type may stand in any order, each once.

    Extents and strides count elements; strides that are not written are dynamic. Raises CodedParseError for a field
    written twice.
    """
    fields: dict[str, Attribute] = {}
    with parser.in_angle_brackets():
        dims = _parse_shape(parser, allow_dynamic=True)
        element = parse_type(parser)
        while parser.parse_optional_punctuation(","):
            start, name = token_start(parser), token_text(parser)
            if name in ("strides", "alias_scope"):
                consume(parser)
                parser.parse_punctuation("=")
            else:
                name = "address space"
            if name in fields:
                fail(parser, f"the {name} of a memref is written twice", start)
            if name == "strides":
                values = parser.parse_comma_separated_list(
                    parser.Delimiter.SQUARE, lambda: _parse_stride(parser)
                )
                fields[name] = DimsAttr(tuple(values))
            else:
                fields[name] = IntAttr(parser.parse_integer(allow_boolean=False))
    return (
        element,
        dims,
        fields.get("strides", DimsAttr((DYNAMIC,) * len(dims.data))),
        fields.get("address space", IntAttr(T.GLOBAL_SPACE)),
        fields.get("alias_scope", NoneAttr()),
    )


def memref_body(ty: T.MemrefType) -> str:
    """A memref's parameters behind its name; strides are left out where all are dynamic."""
    known = any(stride != DYNAMIC for stride in ty.stride_dims)
    strides = f", strides = [{T.show_dims(ty.stride_dims)}]" if known else ""
    scope = "" if ty.alias_scope is None else f", alias_scope = {ty.alias_scope}"
    return f"<{_shaped(ty.dims, ty.element_type)}{strides}{scope}, {ty.space}>"


def parse_tiled_view(parser: AttrParser) -> Sequence[Attribute]:
    """The parameters of a tiled view: the extents of a tile, what it is cut from, and its layout or
    none.

    Raises CodedParseError (``invalid-type``) if its element type is not that of the source.
    """
    layout: Attribute = NoneAttr()
    with parser.in_angle_brackets():
        dims = _parse_shape(parser, allow_dynamic=False)
        start = token_start(parser)
        element = parse_type(parser)
        end = previous_end(parser)
        parser.parse_punctuation(",")
        parser.parse_keyword("source")
        parser.parse_punctuation("=")
        source = parse_type(parser)
        if parser.parse_optional_punctuation(","):
            parser.parse_keyword("layout")
            parser.parse_punctuation("=")
            layout = parser.parse_attribute()
    held = getattr(source, "element_type", None)
    if isinstance(held, Attribute) and held != element:
        fail(
            parser,
            f"the element type of a tiled_view is that of its source, '{format_type(held)}', got "
            f"'{format_type(element)}'",
            start,
            end,
            code=INVALID_TYPE,
        )
    return (dims, source, layout)


def tiled_view_body(ty: T.TiledViewType) -> str:
    """What ``parse_tiled_view`` reads."""
    layout = "" if isinstance(ty.layout, NoneAttr) else f", layout = {format_type(ty.layout)}"
    return f"<{_shaped(ty.dims, ty.element_type)}, source = {format_type(ty.source)}{layout}>"


def parse_queue(parser: AttrParser) -> Sequence[Attribute]:
    """The parameters of a queue: the types of an item's values, and whether it is ``isolated``."""
    items: list[Attribute] = []
    isolated: Attribute = NoneAttr()
    with parser.in_angle_brackets():
        items.append(parse_type(parser))
        while parser.parse_optional_punctuation(","):
            if parser.parse_optional_keyword("isolated"):
                isolated = UnitAttr()
                break
            items.append(parse_type(parser))
    return (ArrayAttr(items), isolated)


def queue_body(ty: T.QueueType) -> str:
    """What ``parse_queue`` reads."""
    isolated = ", isolated" if ty.is_isolated else ""
    return f"<{', '.join(map(format_type, ty.item_types))}{isolated}>"
