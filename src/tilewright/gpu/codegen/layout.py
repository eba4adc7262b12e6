"""Maps MLIR types to LLVM types, and memrefs to pointers with extents and strides.

A value becomes a tuple of LLVM values. A scalar or a one-dimensional vector is one of them; a vector of more dimensions is one
per row, so that a fragment has one per register; an accumulator one per register; a memref the pointer and
whatever its type leaves dynamic.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import prod

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatTF32Type,
    IndexType,
    IntegerType,
    MemRefType,
    NoneAttr,
    StridedLayoutAttr,
    UnrankedMemRefType,
    VectorType,
)
from xdsl.dialects.llvm import LLVMPointerType, LLVMStructType
from xdsl.ir import Attribute

from tilewright.diagnostics import SourceLocation, TileIRError
from tilewright.dialects.nvgpu.types import (
    DeviceAsyncTokenType,
    MBarrierGroupType,
    MBarrierTokenType,
    TensorMapDescriptorType,
    WarpgroupAccumulatorType,
    WarpgroupMatrixDescriptorType,
)
from tilewright.dialects.syntax.types import format_type
from tilewright.dialects.upstream.base.shapes import bit_width
from tilewright.dialects.upstream.gpu.spaces import space_number
from tilewright.gpu.codegen.ir import GENERIC, I32, I64, SHARED, Value, pointer
from tilewright.gpu.codes import UNSUPPORTED

#: The memory spaces that pointers may have: generic, global, shared, constant, local.
SPACES = frozenset({0, 1, 3, 4, 5})

_FLOATS: dict[type[Attribute], str] = {
    Float16Type: "half",
    BFloat16Type: "bfloat",
    Float32Type: "float",
    Float64Type: "double",
    # A register of tf32 holds the bits of an f32.
    FloatTF32Type: "float",
}
#: Rows of the accumulator that one instruction of a warpgroup computes.
WGMMA_ROWS = 64


def unsupported(what: str, location: SourceLocation | None, help: str = "") -> TileIRError:
    """The error for what cannot be compiled."""
    return TileIRError.single(UNSUPPORTED, what, location, help=help)


def address_space(ty: LLVMPointerType) -> int:
    """The number of the space that pointers of a type point into."""
    return 0 if isinstance(ty.addr_space, NoneAttr) else ty.addr_space.data


def scalar(ty: Attribute) -> str | None:
    """LLVM's type of numbers and pointers; None for what is none of both."""
    if isinstance(ty, IndexType):
        return I64
    if isinstance(ty, IntegerType):
        return f"i{ty.width.data}"
    if (found := _FLOATS.get(type(ty))) is not None:
        return found
    if isinstance(ty, LLVMPointerType):
        return pointer(address_space(ty))
    width = bit_width(ty)
    # Floats that LLVM does not know only travel: as integers.
    return f"i{width}" if width else None


def element_bytes(ty: Attribute) -> int:
    """The bytes of an element that loads and stores reach; i1 has a byte of its own."""
    return 8 if isinstance(ty, IndexType | LLVMPointerType) else max(1, (bit_width(ty) + 7) // 8)


def is_packed(ty: Attribute) -> bool:
    """Whether several elements share a byte."""
    return 1 < bit_width(ty) < 8


def vector_rows(ty: VectorType) -> tuple[str, int]:
    """LLVM's type of a row, the vector's last dimension, and how many rows there are."""
    shape = ty.get_shape()
    element = scalar(ty.element_type)
    assert element is not None
    return f"<{shape[-1] if shape else 1} x {element}>", prod(shape[:-1])


def accumulator_registers(ty: WarpgroupAccumulatorType) -> tuple[str, int, int]:
    """The type of a register of an accumulator, how many a block of 64 rows has, and the blocks."""
    rows, columns = ty.fragmented.get_shape()
    element = ty.fragmented.element_type
    blocks = rows // WGMMA_ROWS
    if bit_width(element) == 16:
        return I32, columns // 4, blocks
    register = "float" if isinstance(element, Float32Type) else I32
    return register, columns // 2, blocks


@dataclass(frozen=True, slots=True)
class MemrefLayout:
    """What the type of a memref says: None for what it leaves open."""

    space: int
    element: Attribute
    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    offset: int | None

    @property
    def pointer(self) -> str:
        """LLVM's type of a pointer to its memory."""
        return pointer(self.space)

    def parts(self) -> tuple[str, ...]:
        """The pointer, then what is open: offset, sizes, strides."""
        fields = (self.offset, *self.sizes, *self.strides)
        return self.pointer, *(I64 for field in fields if field is None)


def _known(number: int | None) -> int | None:
    return None if number == DYNAMIC_INDEX else number


@cache
def memref_layout(ty: MemRefType) -> MemrefLayout | None:
    """The layout of a memref; None where it is no strided one, or its space is unknown."""
    space = space_number(ty.memory_space)
    if space not in SPACES:
        return None
    sizes = tuple(_known(extent) for extent in ty.get_shape())
    if isinstance(ty.layout, NoneAttr):
        strides: list[int | None] = []
        step: int | None = 1
        for extent in reversed(sizes):
            strides.insert(0, step)
            step = None if step is None or extent is None else step * extent
        return MemrefLayout(space, ty.element_type, sizes, tuple(strides), 0)
    if isinstance(ty.layout, StridedLayoutAttr):
        found = ty.layout.get_strides()
        offset = ty.layout.get_offset()
        strides = [_known(stride) for stride in found]
        return MemrefLayout(space, ty.element_type, sizes, tuple(strides), _known(offset))
    found = ty.get_strides()
    if found is None:
        return None
    return MemrefLayout(space, ty.element_type, sizes, tuple(map(_known, found)), 0)


@dataclass(frozen=True, slots=True)
class Memref:
    """A memref as it is used: the pointer, and offset, sizes and strides in elements."""

    pointer: Value
    offset: Value
    sizes: tuple[Value, ...]
    strides: tuple[Value, ...]

    def flatten(self, layout: MemrefLayout) -> tuple[Value, ...]:
        """What ``layout.parts`` names."""
        known = (layout.offset, *layout.sizes, *layout.strides)
        given = (self.offset, *self.sizes, *self.strides)
        return self.pointer, *(v for k, v in zip(known, given, strict=True) if k is None)


def memref_of(layout: MemrefLayout, parts: tuple[Value, ...]) -> Memref:
    """The memref of what ``flatten`` gave."""
    base, *rest = parts
    left = iter(rest)

    def take(known: int | None) -> Value:
        return next(left) if known is None else Value(I64, str(known))

    offset = take(layout.offset)
    sizes = tuple(map(take, layout.sizes))
    return Memref(base, offset, sizes, tuple(map(take, layout.strides)))


def parts(ty: Attribute, location: SourceLocation | None = None) -> tuple[str, ...]:
    """LLVM's types of what a value of a type becomes; a TileIRError for types that have none."""
    if (number := scalar(ty)) is not None:
        return (number,)
    if isinstance(ty, VectorType) and not ty.get_num_scalable_dims():
        if scalar(ty.element_type) is not None:
            row, count = vector_rows(ty)
            return (row,) * count
    elif isinstance(ty, MemRefType):
        if (layout := memref_layout(ty)) is not None:
            return layout.parts()
    elif isinstance(ty, LLVMStructType):
        return tuple(part for member in ty.types.data for part in parts(member, location))
    elif isinstance(ty, UnrankedMemRefType):
        space = space_number(ty.memory_space)
        if space in SPACES:
            return I64, pointer(space)
    elif isinstance(ty, WarpgroupAccumulatorType):
        register, count, blocks = accumulator_registers(ty)
        return (register,) * (count * blocks)
    elif (found := _OPAQUE.get(type(ty))) is not None:
        return (found,)
    raise unsupported(f"values of '{format_type(ty)}' cannot be compiled for GPUs", location)


_OPAQUE: dict[type[Attribute], str] = {
    DeviceAsyncTokenType: I32,
    MBarrierGroupType: pointer(SHARED),
    MBarrierTokenType: I64,
    TensorMapDescriptorType: pointer(GENERIC),
    WarpgroupMatrixDescriptorType: I64,
}
