"""Layouts as attributes, and the types of ``nv_tileas``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

from xdsl.dialects.builtin import NoneAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tilewright.dialects.cuda_tile.attributes import parse_int_list
from tilewright.dialects.cuda_tile.types import DimsAttr
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.type_syntax import format_type, parse_type
from tilewright.dialects.syntax.tokens import fail, token_start, token_text
from tilewright.layouts import Layout, SharedLayout
from tilewright.layouts.layout import permuted_bits
from tilewright.numerics.element_types import FORMATS

#: The warps that a block may have, and the elements that a thread may hold, as powers of two.
MAX_WARP_BITS, MAX_REGISTER_BITS = 5, T.MAX_TILE_ELEMENTS.bit_length() - 1
RESIDENCIES = ("gmem", "smem", "rmem", "tmem")


@lru_cache(maxsize=4096)
def _layout(register: tuple[int, ...], lane: tuple[int, ...], warp: tuple[int, ...]) -> Layout:
    size = 1 << max((basis.bit_length() for basis in (*register, *lane, *warp)), default=0)
    return Layout(size, register, lane, warp)


@lru_cache(maxsize=4096)
def _shared(basis: tuple[int, ...]) -> SharedLayout:
    return SharedLayout(basis)


@irdl_attr_definition
class LayoutAttr(T.ElementLayout):
    """Which threads hold which elements of a tile: a linear map over GF(2).

    Each number is the row-major number of the element that a bit of the register's, lane's or warp's
    number stands for; the element of several bits is their XOR. 0 stands for copies.
    """

    name = "nv_tileas.layout"
    register: DimsAttr
    lane: DimsAttr
    warp: DimsAttr

    @classmethod
    def of(cls, layout: Layout) -> LayoutAttr:
        """The attribute of a layout: a basis vector for each bit of register, lane and warp."""
        return cls(DimsAttr(layout.register), DimsAttr(layout.lane), DimsAttr(layout.warp))

    @property
    def layout(self) -> Layout:
        """The map; its size is that of what its vectors span."""
        return _layout(self.register.data, self.lane.data, self.warp.data)

    def verify(self) -> None:
        if len(self.lane.data) != 5:
            raise VerifyException(f"a layout has 5 vectors for lanes, got {len(self.lane.data)}")
        for name, part, most in (
            ("warps", self.warp, MAX_WARP_BITS),
            ("registers", self.register, MAX_REGISTER_BITS),
        ):
            if len(part.data) > most:
                raise VerifyException(
                    f"a layout has at most {most} vectors for {name}, got {len(part.data)}"
                )
        if any(value < 0 for part in (self.register, self.lane, self.warp) for value in part.data):
            raise VerifyException("the numbers of a layout are not negative")
        try:
            assert self.layout
        except ValueError as error:
            raise VerifyException(str(error)) from error

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        found: list[Attribute] = []
        with parser.in_angle_brackets():
            for name in ("register", "lane", "warp"):
                if found:
                    parser.parse_punctuation(",")
                parser.parse_keyword(name)
                parser.parse_punctuation("=")
                found.append(parse_int_list(parser))
        return found

    def print_parameters(self, printer: Printer) -> None:
        shown = ", ".join(
            f"{name} = [{T.show_dims(part.data)}]"
            for name, part in (
                ("register", self.register),
                ("lane", self.lane),
                ("warp", self.warp),
            )
        )
        printer.print_string(f"<{shown}>")


@irdl_attr_definition
class SharedAttr(ParametrizedAttribute):
    """Where the elements of a tile lie in shared memory: number i is the place of element ``1 << i``, in
    elements; the place of another element is the XOR over its bits."""

    name = "nv_tileas.shared"
    basis: DimsAttr

    @classmethod
    def of(cls, layout: SharedLayout) -> SharedAttr:
        """The attribute of a layout of shared memory: a basis vector for each bit of an element's
        number."""
        return cls(DimsAttr(layout.basis))

    @property
    def layout(self) -> SharedLayout:
        """The layout that the basis gives."""
        return _shared(self.basis.data)

    def verify(self) -> None:
        try:
            assert self.layout
        except ValueError as error:
            raise VerifyException(str(error)) from error

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return [parse_int_list(parser)]

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<[{T.show_dims(self.basis.data)}]>")


@irdl_attr_definition
class TiledViewType(ParametrizedAttribute, TypeAttribute):
    """Storage of a block: ``stages`` tiles one behind the other, all in the layout."""

    name = "nv_tileas.tiled_view"
    shape: DimsAttr
    element_type: Attribute
    residency: StringAttr
    layout: Attribute

    def __init__(
        self,
        shape: Sequence[int],
        element_type: Attribute,
        residency: str = "smem",
        layout: Attribute | None = None,
    ):
        super().__init__(
            DimsAttr(tuple(shape)), element_type, StringAttr(residency), layout or NoneAttr()
        )

    @property
    def dims(self) -> tuple[int, ...]:
        """The extents, in elements."""
        return self.shape.data

    @property
    def shared(self) -> SharedLayout:
        """Where elements lie; row-major where the type does not say."""
        if isinstance(self.layout, SharedAttr):
            return self.layout.layout
        return SharedLayout.row_major(prod(self.dims))

    @property
    def stages(self) -> int:
        """How many tiles there are: the layout says how many axes one has."""
        return prod(self.dims) // self.shared.size

    def verify(self) -> None:
        if T.element_name(self.element_type) not in FORMATS:
            raise VerifyException(
                f"the elements of a tiled_view are numbers, but got '{format_type(self.element_type)}'"
            )
        if self.residency.data not in RESIDENCIES:
            raise VerifyException(
                f"'{self.residency.data}' is not a residency; expected one of {', '.join(RESIDENCIES)}"
            )
        if not self.dims or any(extent <= 0 for extent in self.dims):
            raise VerifyException("all dimensions must be positive constants")
        if prod(self.dims) > T.MAX_TILE_ELEMENTS:
            raise VerifyException(
                f"view would exceed the maximum of {T.MAX_TILE_ELEMENTS} elements"
            )
        tile = self.dims[1:] if len(self.dims) > 1 else self.dims
        if any(extent & (extent - 1) for extent in tile):
            raise VerifyException("all dimensions of a tile must be powers of two")
        if not isinstance(self.layout, NoneAttr | SharedAttr):
            raise VerifyException("the layout of a tiled_view is #nv_tileas.shared")
        if isinstance(self.layout, SharedAttr):
            size = self.layout.layout.size
            if size not in (prod(self.dims), prod(self.dims[1:])):
                raise VerifyException(
                    f"the layout is of {size} elements, and the view's tiles have "
                    f"{prod(self.dims)} or, in stages, {prod(self.dims[1:])}"
                )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        layout: Attribute = NoneAttr()
        residency = "gmem"
        with parser.in_angle_brackets():
            dims: list[int] = []
            while (text := token_text(parser)) and text[0].isdigit():
                dims.append(parser.parse_shape_dimension())
                parser.parse_shape_delimiter()
            element = parse_type(parser)
            if parser.parse_optional_punctuation(","):
                start = token_start(parser)
                residency = parser.parse_identifier()
                if residency not in RESIDENCIES:
                    known = ", ".join(RESIDENCIES)
                    fail(
                        parser, f"'{residency}' is not a residency; expected one of {known}", start
                    )
                if parser.parse_optional_punctuation(","):
                    layout = parser.parse_attribute()
        return (DimsAttr(tuple(dims)), element, StringAttr(residency), layout)

    def print_parameters(self, printer: Printer) -> None:
        extents = "".join(f"{extent}x" for extent in self.dims)
        layout = "" if isinstance(self.layout, NoneAttr) else f", {format_type(self.layout)}"
        printer.print_string(
            f"<{extents}{format_type(self.element_type)}, {self.residency.data}{layout}>"
        )


@irdl_attr_definition
class AsyncTokenType(ParametrizedAttribute, TypeAttribute):
    """The completion of what was issued."""

    name = "nv_tileas.async_token"


ASYNC_TOKEN = AsyncTokenType()
TYPES = (TiledViewType, AsyncTokenType)
ATTRIBUTES = (LayoutAttr, SharedAttr)


def layout_of(ty: Attribute) -> Layout | None:
    """The layout of a tile type, if it has one."""
    if isinstance(ty, T.TileType) and isinstance(ty.layout, LayoutAttr):
        return ty.layout.layout
    return None


def is_held_whole(ty: Attribute) -> bool:
    """Whether each thread holds every element of a value of a type: no tile, or one whose layout says so."""
    if not isinstance(ty, T.TileType):
        return True
    layout = layout_of(ty)
    return layout is not None and not any(layout.thread)


def layout_or_dealt(ty: Attribute, threads: int) -> Layout:
    """The layout of a tile type; where it has none, that of operations without a rule for layouts, which deal elements
    to ``threads`` in order."""
    return layout_of(ty) or Layout.dealt(prod(T.dims_of(ty)), threads)


def with_layout(ty: Attribute, layout: Layout) -> T.TileType:
    """A tile type with another layout."""
    assert isinstance(ty, T.TileType)
    return T.TileType(ty.dims, ty.element_type, LayoutAttr.of(layout))


def permuted_view(ty: TiledViewType, order: Sequence[int]) -> TiledViewType:
    """The type of a storage for one tile whose axis i is axis ``order[i]`` of ``ty``: each element stays
    at its place."""
    basis = [0] * len(ty.shared.basis)
    for bit, target in enumerate(permuted_bits(ty.dims, order)):
        basis[target] = ty.shared.basis[bit]
    layout = SharedAttr.of(_shared(tuple(basis)))
    dims = [ty.dims[axis] for axis in order]
    return TiledViewType(dims, ty.element_type, ty.residency.data, layout)
