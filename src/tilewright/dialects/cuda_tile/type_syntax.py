"""How the types of ``cuda_tile`` are written and read.

Inside the syntax of an operation or of another type the ``!cuda_tile.`` prefix may be left out;
it is never printed there. Everywhere else MLIR's rules hold and the prefix is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from io import StringIO

from xdsl.dialects.builtin import IntAttr, NoneAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

import tilewright.dialects.cuda_tile.types as T
from tilewright.dialects.cuda_tile.enums import PaddingValue, PaddingValueAttr, PtrAttr, PtrAttrAttr
from tilewright.dialects.syntax.tokens import (
    consume,
    content,
    fail,
    is_identifier,
    token_start,
    token_text,
)
from tilewright.dialects.syntax.types import (
    INVALID_TYPE,
    UNKNOWN_TYPE,
    TypeSyntax,
    read_once,
)

_PREFIX = "!cuda_tile."


def parse_type(parser: AttrParser) -> Attribute:
    """A type in a slot of the custom syntax: short, prefixed or any other MLIR type.

    Raises CodedParseError (``unknown-type``) where none stands.
    """
    text = token_text(parser)
    if text == "token" and is_identifier(parser):
        consume(parser)
        return T.TOKEN
    mnemonic = text.removeprefix(_PREFIX)
    if mnemonic in named_types():
        return read_once(parser, "cuda_tile", lambda: _parse_named(parser, mnemonic))
    if is_identifier(parser) and (element := element_by_spelling(text)):
        consume(parser)
        return element
    if (found := parser.parse_optional_type()) is None:
        if is_identifier(parser):
            fail(parser, f"unknown type: {text}", code=UNKNOWN_TYPE)
        fail(parser, f"expected a type, found {_found(parser)}", code=UNKNOWN_TYPE)
    return found


def element_by_spelling(text: str) -> Attribute | None:
    """The number type that a text names, in our spelling or that of other tools; None for any other text."""
    if (found := T.ELEMENT_TYPES.get(text)) is not None:
        return found
    return next((T.ELEMENT_TYPES[k] for k, v in T.PRINTED_NAMES.items() if v == text), None)


def _found(parser: AttrParser) -> str:
    text = token_text(parser)
    return f"'{text}'" if text else "the end of the file"


def _parse_named(parser: AttrParser, mnemonic: str) -> Attribute:
    start = token_start(parser)
    consume(parser)
    cls = named_types()[mnemonic]
    parameters = cls.parse_parameters(parser)
    try:
        return cls.new(list(parameters))
    except VerifyException as error:
        fail(parser, str(error), start, _end_of_type(parser, start), code=INVALID_TYPE)


def _end_of_type(parser: AttrParser, start: int) -> int:
    return content(parser).rfind(">", start, token_start(parser)) + 1


def parse_element(parser: AttrParser) -> Attribute:
    """An element type: a scalar, or a pointer. Raises CodedParseError where no type stands."""
    return parse_type(parser)


def _parse_shape(parser: AttrParser, allow_dynamic: bool) -> tuple[int, ...]:
    """``(INT|? x)*`` before an element type; consumes the last ``x``."""
    dims: list[int] = []
    while (text := token_text(parser)) and (text[0].isdigit() or text == "?"):
        if text == "?" and not allow_dynamic:
            fail(parser, "expected static shape, found '?'")
        start = token_start(parser)
        dim = parser.parse_shape_dimension()
        dims.append(T.DYNAMIC if text == "?" else dim)
        if dim > 2**63 - 1:
            fail(parser, f"dimension {dim} does not fit a signed 64-bit integer", start)
        parser.parse_shape_delimiter()
    return tuple(dims)


def parse_tile(parser: AttrParser) -> Sequence[Attribute]:
    """The parameters of a tile type from ``<4x8xf32>``: extents and element type."""
    with parser.in_angle_brackets():
        dims = _parse_shape(parser, allow_dynamic=False)
        element = parse_element(parser)
    return (T.DimsAttr(dims), element)


def parse_ptr(parser: AttrParser) -> Sequence[Attribute]:
    """The parameters of a pointer type from ``<f32>``: what it points to, and its attribute or
    none."""
    with parser.in_angle_brackets():
        pointee = parse_element(parser)
        attr: Attribute = NoneAttr()
        if parser.parse_optional_punctuation(","):
            attr = _parse_ptr_attr(parser)
    return (pointee, attr)


def _parse_ptr_attr(parser: AttrParser) -> Attribute:
    if token_text(parser) == "#cuda_tile.ptr_attr":
        consume(parser)
    with parser.in_angle_brackets():
        return PtrAttrAttr(PtrAttr(parser.parse_keyword_in([str(m) for m in PtrAttr])))


def parse_tensor_view(parser: AttrParser) -> Sequence[Attribute]:
    """The parameters of a tensor view from ``<?x4xf32, strides=[4,1]>``, in elements.

    Raises CodedParseError where a view with axes has no strides, or one without has some.
    """
    strides: tuple[int, ...] = ()
    attr: Attribute = NoneAttr()
    with parser.in_angle_brackets():
        dims = _parse_shape(parser, allow_dynamic=True)
        element = parse_element(parser)
        if dims:
            if not parser.parse_optional_punctuation(","):
                fail(parser, "expected 'strides' after the element type of a ranked tensor_view")
            parser.parse_keyword("strides")
            parser.parse_punctuation("=")
            strides = tuple(
                parser.parse_comma_separated_list(
                    parser.Delimiter.SQUARE, lambda: _parse_stride(parser)
                )
            )
        if parser.parse_optional_punctuation(","):
            if not dims and token_text(parser) == "strides":
                fail(parser, "strides must not be provided for 0-d tiles")
            attr = _parse_ptr_attr(parser)
        if not dims and token_text(parser) != ">":
            fail(parser, "unexpected token after element type in 0-d tensor_view")
    return (element, T.DimsAttr(dims), T.DimsAttr(strides), attr)


def _parse_stride(parser: AttrParser) -> int:
    if parser.parse_optional_punctuation("?"):
        return T.DYNAMIC
    start = token_start(parser)
    value = parser.parse_optional_integer(allow_boolean=False)
    if value is None:
        fail(parser, "expected either 64-bit integer or question mark")
    if not 0 < value < 2**63:
        fail(parser, f"expected strictly positive integer, got {value}", start)
    return value


def _parse_assignment(parser: AttrParser, name: str) -> None:
    parser.parse_keyword(name)
    parser.parse_punctuation("=")


def _parse_tile_shape(parser: AttrParser) -> tuple[int, ...]:
    """``tile=(4x2)``"""
    _parse_assignment(parser, "tile")
    parser.parse_punctuation("(")
    dims: list[int] = []
    if token_text(parser) != ")":
        while True:
            start = token_start(parser)
            dim = parser.parse_shape_dimension(allow_dynamic=False)
            if dim > 2**31 - 1:
                fail(parser, f"tile dimension {dim} exceeds i32 limitations", start)
            dims.append(dim)
            if not token_text(parser).startswith("x"):
                break
            parser.parse_shape_delimiter()
    parser.parse_punctuation(")")
    return tuple(dims)


def _parse_padding(parser: AttrParser) -> PaddingValueAttr | None:
    """``padding_value = zero``, if it stands here."""
    if not parser.parse_optional_keyword("padding_value"):
        return None
    parser.parse_punctuation("=")
    return PaddingValueAttr(PaddingValue(parser.parse_keyword_in([str(m) for m in PaddingValue])))


def _parse_view(parser: AttrParser) -> T.TensorViewType:
    """A tensor view; the published type chapter writes ``view=`` before it."""
    if parser.parse_optional_keyword("view"):
        parser.parse_punctuation("=")
    start = token_start(parser)
    view = parse_type(parser)
    if not isinstance(view, T.TensorViewType):
        fail(
            parser,
            f"expected a tensor_view type, found '{format_type(view)}'",
            start,
            _end_of_type(parser, start) or None,
            code=INVALID_TYPE,
        )
    return view


def _parse_int_list(parser: AttrParser) -> tuple[int, ...]:
    return tuple(
        parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False)
        )
    )


def _parse_padded_view(parser: AttrParser) -> tuple[T.TensorViewType, Attribute]:
    """The padding, if any, and the tensor view."""
    padding = _parse_padding(parser)
    if padding is not None:
        parser.parse_punctuation(",")
    return _parse_view(parser), padding or NoneAttr()


def _parse_view_tail(
    parser: AttrParser, rank: int, padding: Attribute
) -> tuple[T.DimsAttr, Attribute]:
    """What may follow a tensor view: a dim_map, and the padding where the published type chapter
    writes it."""
    dim_map: T.DimsAttr | None = None
    while parser.parse_optional_punctuation(","):
        if isinstance(padding, NoneAttr) and (late := _parse_padding(parser)) is not None:
            padding = late
        elif dim_map is None:
            _parse_assignment(parser, "dim_map")
            dim_map = T.DimsAttr(_parse_int_list(parser))
        else:
            fail(parser, f"expected '>' after the parts of a view, found {_found(parser)}")
    return dim_map or T.DimsAttr(tuple(range(rank))), padding


def parse_partition_view(parser: AttrParser) -> Sequence[Attribute]:
    """The parameters of a partition view: the extents of a tile, the tensor view, which axis goes
    along which dimension, padding."""
    with parser.in_angle_brackets():
        dims = _parse_tile_shape(parser)
        parser.parse_punctuation(",")
        view, padding = _parse_padded_view(parser)
        dim_map, padding = _parse_view_tail(parser, len(dims), padding)
    return (T.DimsAttr(dims), view, dim_map, padding)


def parse_strided_view(parser: AttrParser) -> Sequence[Attribute]:
    """The same of a strided view, with the steps from tile to tile in elements."""
    with parser.in_angle_brackets():
        dims = _parse_tile_shape(parser)
        parser.parse_punctuation(",")
        _parse_assignment(parser, "traversal_strides")
        strides = _parse_int_list(parser)
        parser.parse_punctuation(",")
        view, padding = _parse_padded_view(parser)
        dim_map, padding = _parse_view_tail(parser, len(dims), padding)
    return (T.DimsAttr(dims), T.DimsAttr(strides), view, dim_map, padding)


def parse_gather_scatter_view(parser: AttrParser) -> Sequence[Attribute]:
    """The same of a gather-scatter view, with the dimension whose indices are given one by one."""
    with parser.in_angle_brackets():
        dims = _parse_tile_shape(parser)
        parser.parse_punctuation(",")
        view, padding = _parse_padded_view(parser)
        parser.parse_punctuation(",")
        _parse_assignment(parser, "sparse_dim")
        sparse_dim = parser.parse_integer(allow_boolean=False)
    return (T.DimsAttr(dims), view, IntAttr(sparse_dim), padding)


@cache
def named_types() -> dict[str, type[ParametrizedAttribute]]:
    """The types that have a mnemonic, by it. A function, as this module and ``types`` need
    each other."""
    classes = (
        T.PtrType,
        T.TileType,
        T.TokenType,
        T.TensorViewType,
        T.PartitionViewType,
        T.StridedViewType,
        T.GatherScatterViewType,
    )
    return {cls.name.removeprefix("cuda_tile."): cls for cls in classes}


@lru_cache(maxsize=8192)
def format_type(ty: Attribute) -> str:
    """The short spelling used in type slots: no prefix on types of ``cuda_tile``."""
    if (name := T.ELEMENT_NAMES.get(ty)) is not None:
        return T.PRINTED_NAMES.get(name, name)
    if ty.name.startswith("cuda_tile."):
        mnemonic = ty.name.removeprefix("cuda_tile.")
        body = _BODIES.get(mnemonic)
        return mnemonic + (body(ty) if body else "")
    out = StringIO()
    Printer(out).print_attribute(ty)
    return out.getvalue()


def print_type(printer: Printer, ty: Attribute) -> None:
    """Print a type as :func:`format_type` spells it."""
    printer.print_string(format_type(ty))


def _dims(dims: Sequence[int], separator: str) -> str:
    return separator.join("?" if d == T.DYNAMIC else str(d) for d in dims)


def _shaped(dims: Sequence[int], element: Attribute) -> str:
    return "".join(("?" if d == T.DYNAMIC else str(d)) + "x" for d in dims) + format_type(element)


def tile_body(ty: T.TileType) -> str:
    """What ``parse_tile`` reads."""
    return f"<{_shaped(ty.dims, ty.element_type)}>"


def ptr_body(ty: T.PtrType) -> str:
    """What ``parse_ptr`` reads."""
    attr = ty.ptr_attr
    suffix = f", <{attr.data.value}>" if isinstance(attr, PtrAttrAttr) else ""
    return f"<{format_type(ty.pointee)}{suffix}>"


def tensor_view_body(ty: T.TensorViewType) -> str:
    """What ``parse_tensor_view`` reads."""
    strides = f", strides=[{_dims(ty.stride_dims, ',')}]" if ty.dims else ""
    attr = ty.ptr_attr
    suffix = f", #cuda_tile.ptr_attr<{attr.data.value}>" if isinstance(attr, PtrAttrAttr) else ""
    return f"<{_shaped(ty.dims, ty.element_type)}{strides}{suffix}>"


def _view_parts(ty: T.TileViewType) -> tuple[str, str, str]:
    padding = f"padding_value = {ty.padding.value}, " if ty.padding else ""
    return f"tile=({_dims(ty.tile_dims, 'x')})", padding, format_type(ty.tensor_view)


def _dim_map_suffix(dim_map: tuple[int, ...]) -> str:
    if dim_map == tuple(range(len(dim_map))):
        return ""
    return f", dim_map=[{_dims(dim_map, ', ')}]"


def partition_view_body(ty: T.PartitionViewType) -> str:
    """What ``parse_partition_view`` reads."""
    shape, padding, view = _view_parts(ty)
    return f"<{shape}, {padding}{view}{_dim_map_suffix(ty.dim_map_dims)}>"


def strided_view_body(ty: T.StridedViewType) -> str:
    """What ``parse_strided_view`` reads."""
    shape, padding, view = _view_parts(ty)
    strides = f"traversal_strides=[{_dims(ty.traversal, ',')}]"
    return f"<{shape}, {strides}, {padding}{view}{_dim_map_suffix(ty.dim_map_dims)}>"


def gather_scatter_view_body(ty: T.GatherScatterViewType) -> str:
    """What ``parse_gather_scatter_view`` reads."""
    shape, padding, view = _view_parts(ty)
    return f"<{shape}, {padding}{view}, sparse_dim={ty.sparse_dim.data}>"


_BODIES: dict[str, Callable[..., str]] = {
    "ptr": ptr_body,
    "tile": tile_body,
    "tensor_view": tensor_view_body,
    "partition_view": partition_view_body,
    "strided_view": strided_view_body,
    "gather_scatter_view": gather_scatter_view_body,
}


TYPE_SYNTAX = TypeSyntax(parse_type, format_type)
