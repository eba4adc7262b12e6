"""The types of ``cuda_tile``: tiles, pointers, tokens and views, with their verifier rules.

Shapes are tuples of Python ints; ``DYNAMIC`` stands for an extent or stride known at run time
only. Construction verifies: an ill-formed type raises ``VerifyException``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects import builtin
from xdsl.dialects.builtin import IntegerType, NoneAttr
from xdsl.ir import Attribute, Data, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tilewright.dialects.cuda_tile import type_syntax
from tilewright.dialects.cuda_tile.enums import PaddingValue, PaddingValueAttr, PtrAttr, PtrAttrAttr

#: Marks a dynamic extent or stride; the value that bytecode uses.
DYNAMIC = -(2**63)

MAX_TILE_ELEMENTS = 2**24
_I32_MAX = 2**31 - 1


@irdl_attr_definition
class DimsAttr(Data[tuple[int, ...]]):
    """A list of extents, strides or axes: a parameter of the types below."""

    name = "cuda_tile.dims"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[int, ...]:
        return tuple(
            parser.parse_comma_separated_list(parser.Delimiter.ANGLE, parser.parse_integer)
        )

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_list(self.data, printer.print_int)


@irdl_attr_definition
class Float8E5M3FNUType(ParametrizedAttribute, TypeAttribute):
    """Unsigned 8-bit float with 5 exponent and 3 mantissa bits (13.4, preview)."""

    name = "cuda_tile.f8E5M3FNU"


f8E5M3FNU = Float8E5M3FNUType()
i1, i4, i8, i16, i32, i64 = (IntegerType(width) for width in (1, 4, 8, 16, 32, 64))

#: Every element type that is a number, by its spelling.
ELEMENT_TYPES: dict[str, TypeAttribute] = {
    "i1": i1,
    "i4": i4,
    "i8": i8,
    "i16": i16,
    "i32": i32,
    "i64": i64,
    "f16": builtin.f16,
    "bf16": builtin.bf16,
    "f32": builtin.f32,
    "tf32": builtin.tf32,
    "f64": builtin.f64,
    "f8E4M3FN": builtin.f8E4M3FN,
    "f8E5M2": builtin.f8E5M2,
    "f8E8M0FNU": builtin.f8E8M0FNU,
    "f4E2M1FN": builtin.f4E2M1FN,
    "f8E5M3FNU": f8E5M3FNU,
}
#: Spellings by which other tools print an element type.
PRINTED_NAMES = {"f8E5M3FNU": "fnv8E5M3FNU"}
ELEMENT_NAMES: dict[Attribute, str] = {ty: name for name, ty in ELEMENT_TYPES.items()}

INTEGER_NAMES = frozenset({"i1", "i8", "i16", "i32", "i64"})
FLOAT_NAMES = frozenset(ELEMENT_TYPES) - INTEGER_NAMES - {"i4"}
BASE_FLOAT_NAMES = frozenset({"f16", "bf16", "f32", "f64"})
NUMBER_NAMES = INTEGER_NAMES | FLOAT_NAMES


def element_name(element: Attribute) -> str:
    """The spelling of an element type; ``ptr`` for any pointer, ``?`` for what is no element."""
    if isinstance(element, PtrType):
        return "ptr"
    return ELEMENT_NAMES.get(element, "?")


def _is_power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def show_dims(dims: Sequence[int]) -> str:
    """Extents in words, ``?`` for a dynamic one."""
    return ", ".join("?" if d == DYNAMIC else str(d) for d in dims)


@irdl_attr_definition
class PtrType(ParametrizedAttribute, TypeAttribute):
    """A 64-bit address of elements of type ``pointee``.

    ``ptr_attr`` (13.4) tells how the memory behind it is reached; NoneAttr where not written.
    """

    name = "cuda_tile.ptr"
    pointee: Attribute
    ptr_attr: Attribute

    def __init__(self, pointee: Attribute, ptr_attr: PtrAttr | None = None):
        super().__init__(pointee, _optional_ptr_attr(ptr_attr))

    def verify(self) -> None:
        if element_name(self.pointee) not in NUMBER_NAMES:
            raise VerifyException(
                f"pointee must be an integer or float element type other than i4, but got "
                f"'{type_syntax.format_type(self.pointee)}'"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        return type_syntax.parse_ptr(parser)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(type_syntax.ptr_body(self))


class ShapedType(ParametrizedAttribute):
    """A type with extents."""

    if TYPE_CHECKING:
        shape: DimsAttr

    @property
    def dims(self) -> tuple[int, ...]:
        """The extents; ``DYNAMIC`` for those that the type does not tell."""
        return self.shape.data

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape.data)


class StridedType(ShapedType):
    """A type with extents and strides, in elements."""

    if TYPE_CHECKING:
        strides: DimsAttr

    @property
    def stride_dims(self) -> tuple[int, ...]:
        """The strides; ``DYNAMIC`` for those that the type does not tell."""
        return self.strides.data

    def verify_extents(self) -> None:
        """There is a stride for each axis, and what is static is positive. Raises VerifyException if not."""
        if len(self.dims) != len(self.stride_dims):
            raise VerifyException(
                f"expected as many strides as dimensions, got {len(self.stride_dims)} strides "
                f"for {len(self.dims)} dimensions"
            )
        for what, values in (("dimensions", self.dims), ("strides", self.stride_dims)):
            if any(v <= 0 and v != DYNAMIC for v in values):
                raise VerifyException(
                    f"all static {what} must be positive, got [{show_dims(values)}]"
                )


@irdl_attr_definition
class TileType(ShapedType, TypeAttribute):
    """An immutable N-dimensional array of ``element_type``; every extent is a power of two."""

    name = "cuda_tile.tile"
    shape: DimsAttr
    element_type: Attribute

    def __init__(self, shape: Sequence[int], element_type: Attribute):
        super().__init__(DimsAttr(tuple(shape)), element_type)

    @property
    def element_count(self) -> int:
        """The product of the extents; 1 for rank 0."""
        return prod(self.shape.data)

    @property
    def element(self) -> str:
        """The spelling of the element type; ``ptr`` for pointers."""
        return element_name(self.element_type)

    def with_shape(self, shape: Sequence[int]) -> TileType:
        """The type with other extents."""
        return tile(tuple(shape), self.element_type)

    def with_element(self, element_type: Attribute) -> TileType:
        """The type with another element type."""
        return tile(self.shape.data, element_type)

    def verify(self) -> None:
        verify_tile_shape(self.shape.data, self.element_type)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        return type_syntax.parse_tile(parser)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(type_syntax.tile_body(self))


def verify_tile_shape(dims: Sequence[int], element: Attribute) -> None:
    """The rules of a tile type, in the order in which they are reported. Raises VerifyException at the first broken
    one.

    The element is a number or a pointer; extents are positive powers of two, whose product is at most
    ``MAX_TILE_ELEMENTS``; f4E2M1FN comes in pairs.
    """
    name = element_name(element)
    if name == "?":
        raise VerifyException(
            f"tile element type must be a number or a pointer, but got "
            f"'{type_syntax.format_type(element)}'"
        )
    if name == "f4E2M1FN" and not any(d % 2 == 0 for d in dims):
        raise VerifyException("F4E2M1FN tiles must have an even number of elements")
    if dims and isinstance(element, PtrType) and element_name(element.pointee) == "f4E2M1FN":
        raise VerifyException("tiles of ptr<f4E2M1FN> must have rank 0; access f4 through views")
    shown = show_dims(dims)
    if any(d <= 0 for d in dims):
        raise VerifyException(f"all dimensions must be positive constants, got [{shown}]")
    if not all(map(_is_power_of_two, dims)):
        raise VerifyException(f"all dimensions must be powers of two, got [{shown}]")
    if prod(dims) > MAX_TILE_ELEMENTS:
        raise VerifyException(
            f"tile would exceed the maximum of {MAX_TILE_ELEMENTS} elements, got [{shown}]"
        )


@irdl_attr_definition
class TokenType(ParametrizedAttribute, TypeAttribute):
    """A compile-time ordering edge between memory operations; carries no bits."""

    name = "cuda_tile.token"


@irdl_attr_definition
class TensorViewType(StridedType, TypeAttribute):
    """A structured pointer: extents and strides (in elements), static or ``DYNAMIC``."""

    name = "cuda_tile.tensor_view"
    element_type: Attribute
    shape: DimsAttr
    strides: DimsAttr
    ptr_attr: Attribute

    def __init__(
        self,
        element_type: Attribute,
        shape: Sequence[int],
        strides: Sequence[int],
        ptr_attr: PtrAttr | None = None,
    ):
        super().__init__(
            element_type,
            DimsAttr(tuple(shape)),
            DimsAttr(tuple(strides)),
            _optional_ptr_attr(ptr_attr),
        )

    @property
    def pointer(self) -> TileType:
        """The type of the scalar pointer that such a view is made from."""
        attr = self.ptr_attr
        return tile((), PtrType(self.element_type, getattr(attr, "data", None)))

    def verify(self) -> None:
        if element_name(self.element_type) not in NUMBER_NAMES:
            raise VerifyException(
                f"tensor_view element type must be an integer or float type other than i4, but got "
                f"'{type_syntax.format_type(self.element_type)}'"
            )
        self.verify_extents()

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        return type_syntax.parse_tensor_view(parser)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(type_syntax.tensor_view_body(self))


@dataclass(frozen=True, slots=True)
class Cut:
    """How tiles are cut out of a tensor.

    Index k of tile dimension i begins at element ``k * steps[i]`` of tensor dimension
    ``dim_map[i]``; along ``sparse_dim`` every row has an element index of its own. Along dimension i
    ``groups[i]`` tiles count as one: an index is valid if the first of its group is.
    """

    tile_dims: tuple[int, ...]
    dim_map: tuple[int, ...]
    steps: tuple[int, ...]
    sparse_dim: int | None = None
    groups: tuple[int, ...] = ()


class TileViewType(ParametrizedAttribute, TypeAttribute):
    """What the three tile views share: a tile shape over a tensor view, and a padding value."""

    MNEMONIC: ClassVar[str]

    if TYPE_CHECKING:
        tile_shape: DimsAttr
        tensor_view: Attribute
        padding_value: Attribute

    @property
    def tile_dims(self) -> tuple[int, ...]:
        """The extents of a tile, in elements."""
        return self.tile_shape.data

    @property
    def view(self) -> TensorViewType:
        """The type of the tensor view that is cut into tiles."""
        assert isinstance(self.tensor_view, TensorViewType)
        return self.tensor_view

    @property
    def rank(self) -> int:
        """The rank of the index space, of the tile and of the tensor."""
        return len(self.tile_shape.data)

    @property
    def tile_type(self) -> TileType:
        """The type of a tile loaded through the view."""
        return tile(self.tile_shape.data, self.view.element_type)

    @property
    def padding(self) -> PaddingValue | None:
        """What elements outside of the tensor read as; None where that is not said, and they are
        undefined."""
        attr = self.padding_value
        return attr.data if isinstance(attr, PaddingValueAttr) else None

    @property
    def dim_map_dims(self) -> tuple[int, ...]:
        """Tile dimension ``i`` walks tensor dimension ``dim_map_dims[i]``."""
        return tuple(range(self.rank))

    @property
    def traversal(self) -> tuple[int, ...]:
        """The step, in elements, between neighbouring indices, by tile dimension."""
        return self.tile_dims

    @property
    def cut(self) -> Cut:
        """How tiles are cut out of the tensor."""
        return Cut(self.tile_dims, self.dim_map_dims, self.traversal)

    def _verify_common(self, dim_map: Sequence[int] | None) -> None:
        dims = self.tile_dims
        if not isinstance(self.tensor_view, TensorViewType):
            raise VerifyException(
                f"expected a tensor_view, but got '{type_syntax.format_type(self.tensor_view)}'"
            )
        if not dims:
            raise VerifyException("0-dimension tile shape is not supported")
        if self.view.rank != len(dims):
            raise VerifyException(
                f"expected tensor_view rank and tile rank to match, got tensor_view of rank "
                f"{self.view.rank} and tiles of rank {len(dims)}"
            )
        if dim_map is not None:
            _verify_dim_map(dim_map, len(dims))
        if any(d <= 0 or d > _I32_MAX for d in dims):
            raise VerifyException(
                f"tile dimensions must be positive i32 values, got [{show_dims(dims)}]"
            )
        if not all(map(_is_power_of_two, dims)):
            raise VerifyException(f"tile dimensions must be powers of two, got [{show_dims(dims)}]")
        verify_tile_shape(dims, self.view.element_type)
        padding, element = self.padding, self.view.element_type
        needs_floats = padding not in (None, PaddingValue.ZERO)
        if needs_floats and element_name(element) not in FLOAT_NAMES:
            raise VerifyException(
                f"padding_value {padding} can only be used with floating point element types, "
                f"got '{type_syntax.format_type(element)}'"
            )


def _verify_dim_map(dim_map: Sequence[int], rank: int) -> None:
    if len(dim_map) != rank:
        raise VerifyException(
            f"expected dim_map to map exactly all {rank} dimensions of the tile, got "
            f"{len(dim_map)} mappings"
        )
    first_use: dict[int, int] = {}
    for tile_dim, target in enumerate(dim_map):
        if not 0 <= target < rank:
            raise VerifyException(
                f"target dimension {target} is outside of tensor view dimensions, expected a "
                f"value in [0, {rank})"
            )
        if target in first_use:
            raise VerifyException(
                f"target dimension {target} mapped at least twice (for tile dimensions "
                f"{first_use[target]} and {tile_dim})"
            )
        first_use[target] = tile_dim


@irdl_attr_definition
class PartitionViewType(TileViewType):
    """Non-overlapping tiles that cover a tensor view; index ``I`` starts at ``I * tile extent``."""

    name = "cuda_tile.partition_view"
    MNEMONIC: ClassVar = "partition_view"
    tile_shape: DimsAttr
    tensor_view: Attribute
    dim_map: DimsAttr
    padding_value: Attribute

    def __init__(
        self,
        tile_shape: Sequence[int],
        tensor_view: Attribute,
        dim_map: Sequence[int] | None = None,
        padding_value: PaddingValue | None = None,
    ):
        mapping = tuple(range(len(tile_shape))) if dim_map is None else tuple(dim_map)
        super().__init__(
            DimsAttr(tuple(tile_shape)),
            tensor_view,
            DimsAttr(mapping),
            _optional_padding(padding_value),
        )

    @property
    def dim_map_dims(self) -> tuple[int, ...]:
        return self.dim_map.data

    def verify(self) -> None:
        self._verify_common(self.dim_map_dims)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        return type_syntax.parse_partition_view(parser)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(type_syntax.partition_view_body(self))


@irdl_attr_definition
class StridedViewType(TileViewType):
    """Tiles whose starts are ``traversal_strides`` elements apart; they may overlap or leave gaps."""

    name = "cuda_tile.strided_view"
    MNEMONIC: ClassVar = "strided_view"
    tile_shape: DimsAttr
    traversal_strides: DimsAttr
    tensor_view: Attribute
    dim_map: DimsAttr
    padding_value: Attribute

    def __init__(
        self,
        tile_shape: Sequence[int],
        traversal_strides: Sequence[int],
        tensor_view: Attribute,
        dim_map: Sequence[int] | None = None,
        padding_value: PaddingValue | None = None,
    ):
        mapping = tuple(range(len(tile_shape))) if dim_map is None else tuple(dim_map)
        super().__init__(
            DimsAttr(tuple(tile_shape)),
            DimsAttr(tuple(traversal_strides)),
            tensor_view,
            DimsAttr(mapping),
            _optional_padding(padding_value),
        )

    @property
    def dim_map_dims(self) -> tuple[int, ...]:
        return self.dim_map.data

    @property
    def traversal(self) -> tuple[int, ...]:
        return self.traversal_strides.data

    def verify(self) -> None:
        self._verify_common(self.dim_map_dims)
        strides = self.traversal
        if len(strides) != len(self.tile_dims):
            raise VerifyException(
                f"expected {len(self.tile_dims)} traversal strides, one for each tile dimension, "
                f"got {len(strides)}"
            )
        if any(s <= 0 for s in strides):
            raise VerifyException(f"traversal strides must be positive, got [{show_dims(strides)}]")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        return type_syntax.parse_strided_view(parser)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(type_syntax.strided_view_body(self))


@irdl_attr_definition
class GatherScatterViewType(TileViewType):
    """Tiles whose coordinates along ``sparse_dim`` come from a rank-1 index tile."""

    name = "cuda_tile.gather_scatter_view"
    MNEMONIC: ClassVar = "gather_scatter_view"
    tile_shape: DimsAttr
    tensor_view: Attribute
    sparse_dim: builtin.IntAttr
    padding_value: Attribute

    def __init__(
        self,
        tile_shape: Sequence[int],
        tensor_view: Attribute,
        sparse_dim: int,
        padding_value: PaddingValue | None = None,
    ):
        super().__init__(
            DimsAttr(tuple(tile_shape)),
            tensor_view,
            builtin.IntAttr(sparse_dim),
            _optional_padding(padding_value),
        )

    @property
    def cut(self) -> Cut:
        """Scalar indices count elements."""
        return Cut(self.tile_dims, self.dim_map_dims, (1,) * self.rank, self.sparse_dim.data)

    def verify(self) -> None:
        self._verify_common(None)
        if not 0 <= self.sparse_dim.data < self.rank:
            raise VerifyException(
                f"gather dimension is outside of tensor view dimensions: sparse_dim is "
                f"{self.sparse_dim.data}, expected a value in [0, {self.rank})"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        return type_syntax.parse_gather_scatter_view(parser)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(type_syntax.gather_scatter_view_body(self))


def _optional_padding(padding: PaddingValue | None) -> Attribute:
    return NoneAttr() if padding is None else PaddingValueAttr(padding)


def _optional_ptr_attr(ptr_attr: PtrAttr | None) -> Attribute:
    return NoneAttr() if ptr_attr is None else PtrAttrAttr(ptr_attr)


@lru_cache(maxsize=4096)
def tile(dims: tuple[int, ...], element: Attribute) -> TileType:
    """The tile type of this shape; the same object for the same arguments."""
    return TileType(dims, element)


@lru_cache(maxsize=1024)
def scalar(element: str) -> TileType:
    """``tile<element>``, by the element's spelling."""
    return TileType((), ELEMENT_TYPES[element])


TOKEN = TokenType()

TYPES = (
    Float8E5M3FNUType,
    PtrType,
    TileType,
    TokenType,
    TensorViewType,
    PartitionViewType,
    StridedViewType,
    GatherScatterViewType,
)
