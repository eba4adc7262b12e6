"""Maps MLIR types to LLVM types, and memrefs to pointers with extents and strides.

A value becomes a tuple of LLVM values. A scalar or a one-dimensional vector is one of them; a vector of more dimensions
is one per row, so that a fragment has one per register; an accumulator one per register; a memref the pointer and
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

#: The memory spaces of pointers: generic, global, shared, constant, local.
SPACES = frozenset({0, 1, 3, 4, 5})

_FLOATS: dict[type[Attribute], str] = {
    Float16Type: "half",
    BFloat16Type: "bfloat",
    Float32Type: "float",
    Float64Type: "double",
    # A tf32 is held as an f32.
    FloatTF32Type: "float",
}
#: The rows of an accumulator that one ``wgmma`` computes.
WGMMA_ROWS = 64


def unsupported(what: str, location: SourceLocation | None, help: str = "") -> TileIRError:
    """The error (``gpu-unsupported``) for an unsupported construct, to be raised."""
    return TileIRError.single(UNSUPPORTED, what, location, help=help)


def address_space(ty: LLVMPointerType) -> int:
    """The address space of pointers of a type."""
    return 0 if isinstance(ty.addr_space, NoneAttr) else ty.addr_space.data


def scalar(ty: Attribute) -> str | None:
    """The LLVM type of a number or pointer type; None for other types."""
    if isinstance(ty, IndexType):
        return I64
    if isinstance(ty, IntegerType):
        return f"i{ty.width.data}"
    if (found := _FLOATS.get(type(ty))) is not None:
        return found
    if isinstance(ty, LLVMPointerType):
        return pointer(address_space(ty))
    width = bit_width(ty)
    # Floats without LLVM type are held as integers.
    return f"i{width}" if width else None


def element_bytes(ty: Attribute) -> int:
    """The size of an element in memory, in bytes; an i1 takes a byte."""
    return 8 if isinstance(ty, IndexType | LLVMPointerType) else max(1, (bit_width(ty) + 7) // 8)


def is_packed(ty: Attribute) -> bool:
    """Whether elements share bytes."""
    return 1 < bit_width(ty) < 8


def vector_rows(ty: VectorType) -> tuple[str, int]:
    """The LLVM type of a row, the vector's last dimension, and the number of rows."""
    shape = ty.get_shape()
    element = scalar(ty.element_type)
    assert element is not None
    return f"<{shape[-1] if shape else 1} x {element}>", prod(shape[:-1])


def accumulator_registers(ty: WarpgroupAccumulatorType) -> tuple[str, int, int]:
    """The type of an accumulator's registers, their number per block of 64 rows, and the number of blocks.

    Per thread of a warpgroup; two f16 share a register (PTX instruction set, "Register Fragments for wgmma").
    """
    rows, columns = ty.fragmented.get_shape()
    element = ty.fragmented.element_type
    blocks = rows // WGMMA_ROWS
    if bit_width(element) == 16:
        return I32, columns // 4, blocks
    register = "float" if isinstance(element, Float32Type) else I32
    return register, columns // 2, blocks


@dataclass(frozen=True, slots=True)
class MemrefLayout:
    """The layout of a memref type; None for dynamic fields."""

    space: int
    element: Attribute
    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    offset: int | None

    @property
    def pointer(self) -> str:
        """The LLVM type of a pointer to its memory."""
        return pointer(self.space)

    def parts(self) -> tuple[str, ...]:
        """The types of the parts: the pointer, then dynamic fields of offset, sizes and strides, which count
        elements.
        """
        fields = (self.offset, *self.sizes, *self.strides)
        return self.pointer, *(I64 for field in fields if field is None)


def _known(number: int | None) -> int | None:
    return None if number == DYNAMIC_INDEX else number


@cache
def memref_layout(ty: MemRefType) -> MemrefLayout | None:
    """The layout of a memref type; None if it is not strided, or its memory space is unknown."""
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
    """A memref: the pointer, and offset, sizes and strides in elements."""

    pointer: Value
    offset: Value
    sizes: tuple[Value, ...]
    strides: tuple[Value, ...]

    def flatten(self, layout: MemrefLayout) -> tuple[Value, ...]:
        """The parts of the memref, as in ``MemrefLayout.parts``."""
        known = (layout.offset, *layout.sizes, *layout.strides)
        given = (self.offset, *self.sizes, *self.strides)
        return self.pointer, *(v for k, v in zip(known, given, strict=True) if k is None)


def memref_of(layout: MemrefLayout, parts: tuple[Value, ...]) -> Memref:
    """The memref of parts; the inverse of ``flatten``."""
    base, *rest = parts
    left = iter(rest)

    def take(known: int | None) -> Value:
        return next(left) if known is None else Value(I64, str(known))

    offset = take(layout.offset)
    sizes = tuple(map(take, layout.sizes))
    return Memref(base, offset, sizes, tuple(map(take, layout.strides)))


def parts(ty: Attribute, location: SourceLocation | None = None) -> tuple[str, ...]:
    """The LLVM types of a value's parts.

    One for a number or pointer, one for each row of a vector, address and dynamic fields of a memref, those of its
    members for a struct. Raises ``TileIRError`` (``gpu-unsupported``) for other types.
    """
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
