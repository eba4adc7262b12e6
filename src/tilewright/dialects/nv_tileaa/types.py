"""The types of ``nv_tileaa``: tiles, pointers, memrefs, tiled views, queues and marks of order.

Scalars are the element types themselves, so a tile has at least one dimension. Construction
verifies: an ill-formed type raises ``VerifyException``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import (
    ArrayAttr,
    IndexType,
    IntAttr,
    NoneAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tilewright.dialects.cuda_tile.types import (
    DYNAMIC,
    ELEMENT_NAMES,
    MAX_TILE_ELEMENTS,
    NUMBER_NAMES,
    DimsAttr,
    ShapedType,
    StridedType,
    show_dims,
)
from tilewright.dialects.narrowing import is_int
from tilewright.dialects.nv_tileaa import type_syntax

if TYPE_CHECKING:
    from tilewright.layouts import Layout

#: The address spaces, by number.
SPACES: dict[int, str] = {
    0: "generic",
    1: "global",
    3: "shared",
    4: "constant",
    5: "local",
    6: "tensor memory",
}
GLOBAL_SPACE = 1
#: Spaces that only the regions of execute see.
INNER_SPACES = frozenset({3, 6})

INDEX = IndexType()


def element_name(element: Attribute) -> str:
    """The spelling of an element type; ``ptr`` for any pointer, ``?`` for what is no element."""
    if isinstance(element, PtrType):
        return "ptr"
    if isinstance(element, IndexType):
        return "index"
    return ELEMENT_NAMES.get(element, "?")


def _verify_space(space: int) -> None:
    if space not in SPACES:
        known = ", ".join(f"{number} ({name})" for number, name in SPACES.items())
        raise VerifyException(f"address space {space} does not exist; the spaces are {known}")


def _verify_number(element: Attribute, what: str) -> None:
    if element_name(element) not in NUMBER_NAMES:
        raise VerifyException(
            f"{what} must be an integer or float type other than i4, but got "
            f"'{type_syntax.format_type(element)}'"
        )


def _verify_tile_dims(dims: Sequence[int]) -> None:
    if any(d <= 0 or d & (d - 1) for d in dims):
        raise VerifyException(
            f"all dimensions must be positive powers of two, got [{show_dims(dims)}]"
        )
    if prod(dims) > MAX_TILE_ELEMENTS:
        raise VerifyException(
            f"tile would exceed the maximum of {MAX_TILE_ELEMENTS} elements, got [{show_dims(dims)}]"
        )


class ElementLayout(ParametrizedAttribute):
    """Which threads hold which elements of a tile. ``nv_tileas``, a level above, has the only one."""

    @property
    def layout(self) -> Layout:
        """Which thread of a block holds which element, as a linear map."""
        raise NotImplementedError


@irdl_attr_definition
class TileType(ShapedType, TypeAttribute):
    """An immutable array of numbers, indices or pointers; every extent is a power of two.

    ``layout`` says which threads hold which elements, once a pass of ``nv_tileas`` has decided that.
    """

    name = "nv_tileaa.tile"
    shape: DimsAttr
    element_type: Attribute
    layout: Attribute

    def __init__(
        self, shape: Sequence[int], element_type: Attribute, layout: Attribute | None = None
    ):
        super().__init__(DimsAttr(tuple(shape)), element_type, layout or NoneAttr())

    def verify(self) -> None:
        if element_name(self.element_type) == "?":
            raise VerifyException(
                f"tile element type must be a number, index or a pointer, but got "
                f"'{type_syntax.format_type(self.element_type)}'"
            )
        if not self.dims:
            raise VerifyException("a tile has at least one dimension; scalars are bare elements")
        _verify_tile_dims(self.dims)
        if isinstance(self.layout, NoneAttr):
            return
        if not isinstance(self.layout, ElementLayout):
            raise VerifyException("the layout of a tile is #nv_tileas.layout")
        size = self.layout.layout.size
        if size != prod(self.dims):
            raise VerifyException(
                f"the layout of a tile of {prod(self.dims)} elements is of {size}"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        return type_syntax.parse_tile(parser)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(type_syntax.tile_body(self))


@irdl_attr_definition
class PtrType(ParametrizedAttribute, TypeAttribute):
    """The address of elements of type ``pointee`` in an address space."""

    name = "nv_tileaa.ptr"
    pointee: Attribute
    address_space: IntAttr

    def __init__(self, pointee: Attribute, space: int = GLOBAL_SPACE):
        super().__init__(pointee, IntAttr(space))

    @property
    def space(self) -> int:
        """The number of the address space; 1 is global memory."""
        return self.address_space.data

    def verify(self) -> None:
        _verify_number(self.pointee, "pointee")
        _verify_space(self.space)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        return type_syntax.parse_ptr(parser)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(type_syntax.ptr_body(self))


@irdl_attr_definition
class MemrefType(StridedType, TypeAttribute):
    """Where data is: element type, extents, strides (in elements), address space, alias scope.

    Two memrefs whose alias scopes are both known and differ do not overlap.
    """

    name = "nv_tileaa.memref"
    element_type: Attribute
    shape: DimsAttr
    strides: DimsAttr
    address_space: IntAttr
    scope: Attribute

    def __init__(
        self,
        element_type: Attribute,
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
        space: int = GLOBAL_SPACE,
        alias_scope: int | None = None,
    ):
        super().__init__(
            element_type,
            DimsAttr(tuple(shape)),
            DimsAttr((DYNAMIC,) * len(shape) if strides is None else tuple(strides)),
            IntAttr(space),
            NoneAttr() if alias_scope is None else IntAttr(alias_scope),
        )

    @property
    def space(self) -> int:
        """The number of the address space; 1 is global memory."""
        return self.address_space.data

    @property
    def alias_scope(self) -> int | None:
        """The number of the alias scope; None where nothing is said."""
        return self.scope.data if is_int(self.scope) else None

    def verify(self) -> None:
        _verify_number(self.element_type, "memref element type")
        self.verify_extents()
        _verify_space(self.space)
        scope = self.alias_scope
        if scope is not None and not 0 <= scope < 2**32:
            raise VerifyException(f"alias_scope must be an unsigned 32-bit integer, got {scope}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        return type_syntax.parse_memref(parser)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(type_syntax.memref_body(self))


@irdl_attr_definition
class TiledViewType(ShapedType, TypeAttribute):
    """How tiles are cut out of ``source``; ``layout`` is filled in by layout passes."""

    name = "nv_tileaa.tiled_view"
    shape: DimsAttr
    source: Attribute
    layout: Attribute

    def __init__(
        self, shape: Sequence[int], source: Attribute, layout: Attribute | None = None
    ) -> None:
        super().__init__(DimsAttr(tuple(shape)), source, layout or NoneAttr())

    @property
    def element_type(self) -> Attribute:
        """The type of an element of the source."""
        source = self.source
        return source.element_type if isinstance(source, MemrefType | TileType) else source

    @property
    def space(self) -> int:
        """The address space of the memref behind the view; global memory where there is none."""
        return self.source.space if isinstance(self.source, MemrefType) else GLOBAL_SPACE

    @property
    def tile(self) -> TileType:
        """The type of a tile that is read through the view."""
        return TileType(self.dims, self.element_type)

    def verify(self) -> None:
        if not isinstance(self.source, MemrefType | TileType):
            raise VerifyException(
                f"the source of a tiled_view must be a memref or a tile, but got "
                f"'{type_syntax.format_type(self.source)}'"
            )
        if not self.dims:
            raise VerifyException("a tiled_view has at least one dimension")
        _verify_tile_dims(self.dims)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        return type_syntax.parse_tiled_view(parser)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(type_syntax.tiled_view_body(self))


@irdl_attr_definition
class MemTokenType(ParametrizedAttribute, TypeAttribute):
    """An ordering edge between memory effects; carries no data."""

    name = "nv_tileaa.mem_token"


@irdl_attr_definition
class ProgramIdType(ParametrizedAttribute, TypeAttribute):
    """The outcome of asking for the work of a block that has not started."""

    name = "nv_tileaa.program_id"


@irdl_attr_definition
class QueueType(ParametrizedAttribute, TypeAttribute):
    """A bounded first-in first-out channel of tuples of the given types.

    ``isolated``: its producers and consumers share nothing else.
    """

    name = "nv_tileaa.queue"
    items: ArrayAttr[Attribute]
    isolated: Attribute

    def __init__(self, items: Sequence[Attribute], isolated: bool = False):
        super().__init__(ArrayAttr(items), UnitAttr() if isolated else NoneAttr())

    @property
    def item_types(self) -> tuple[Attribute, ...]:
        """The types of the values that one item holds."""
        return self.items.data

    @property
    def is_isolated(self) -> bool:
        """Whether its producers and consumers share nothing else."""
        return isinstance(self.isolated, UnitAttr)

    def verify(self) -> None:
        if not self.item_types:
            raise VerifyException("a queue carries at least one value")
        for ty in self.item_types:
            if not isinstance(ty, TileType) and element_name(ty) == "?":
                raise VerifyException(
                    f"a queue carries tiles and scalars, but got '{type_syntax.format_type(ty)}'"
                )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        return type_syntax.parse_queue(parser)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(type_syntax.queue_body(self))


MEM_TOKEN = MemTokenType()
PROGRAM_ID = ProgramIdType()

TYPES = (
    TileType,
    PtrType,
    MemrefType,
    TiledViewType,
    MemTokenType,
    ProgramIdType,
    QueueType,
)


def without_layout(ty: Attribute) -> Attribute:
    """A type as it is before layouts are assigned."""
    return TileType(ty.dims, ty.element_type) if isinstance(ty, TileType) else ty


def is_scalar_or_tile(ty: Attribute) -> bool:
    """Whether a type is a tile, or the type of one element."""
    return isinstance(ty, TileType) or element_name(ty) != "?"


def element_of(ty: Attribute) -> Attribute:
    """The element type of a tile; a scalar is its own."""
    return ty.element_type if isinstance(ty, TileType) else ty


def dims_of(ty: Attribute) -> tuple[int, ...]:
    """The extents of a tile; none for a scalar."""
    return ty.dims if isinstance(ty, TileType) else ()


def tile_or_scalar(dims: Sequence[int], element: Attribute) -> Attribute:
    """The type of values of that shape; a shape without dimensions gives the bare element."""
    return TileType(dims, element) if dims else element


def strides_of(ty: MemrefType) -> tuple[int, ...]:
    """The strides of a memref, in elements, outermost first: where they are not static, those of row-major order."""
    strides: list[int] = []
    step = 1
    for extent, stride in zip(reversed(ty.dims), reversed(ty.stride_dims), strict=True):
        strides.append(step if stride == DYNAMIC else stride)
        step = strides[-1] * extent
    return tuple(reversed(strides))
