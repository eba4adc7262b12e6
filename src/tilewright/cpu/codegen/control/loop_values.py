"""Values other than tiles as the LLVM scalars they consist of, for phis and arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llvmlite import ir
from xdsl.ir import Attribute

from tilewright.cpu.codegen.ir.elements import I64, PTR, element_of
from tilewright.cpu.codegen.ir.types import Builder, Type, Value
from tilewright.cpu.codegen.memory.views import Extent, Memref, View, as_value, padding_value
from tilewright.dialects.cuda_tile.types import DYNAMIC
from tilewright.dialects.nv_tileaa import types as T


def parts_of(held: object) -> list[Value]:
    """The numbers of a value; none of a token or a tile."""
    if isinstance(held, ir.Value):
        return [held]
    if isinstance(held, Memref):
        return [held.pointer, *map(as_value, (*held.sizes, *held.strides))]
    if isinstance(held, View):
        seen = along_tile(held.memref, held.axes)
        padding = padding_value(held.padding, held.memref.element)
        return [*parts_of(seen), *map(as_value, held.steps), padding]
    return []


def types_of_parts(ty: Attribute) -> list[Type]:
    """The types of the numbers that a value of a type consists of; that of an element for a tile."""
    if isinstance(ty, T.MemTokenType):
        return []
    if isinstance(ty, T.QueueType):
        return [PTR]
    if isinstance(ty, T.ProgramIdType):
        return [I64]
    if isinstance(ty, T.MemrefType):
        return [PTR, *[I64] * (2 * ty.rank)]
    if isinstance(ty, T.TiledViewType):
        return [PTR, *[I64] * (3 * len(ty.dims)), element_of(ty.element_type).register]
    return [element_of(ty).register]


def along_tile(memref: Memref, axes: Sequence[int]) -> Memref:
    """A memref with the axes of a tile, in their order."""
    sizes = tuple(memref.sizes[axis] for axis in axes)
    return Memref(memref.element, memref.pointer, sizes, tuple(memref.strides[a] for a in axes))


def rebuilt(ty: Attribute, parts: Iterator[Value]) -> object:
    """A value of a type of its numbers, taken from the front; None for a token."""
    if isinstance(ty, T.MemTokenType):
        return None
    if isinstance(ty, T.MemrefType):
        pointer = next(parts)
        sizes, strides = (_known_or(dims, parts) for dims in (ty.dims, ty.stride_dims))
        return Memref(element_of(ty.element_type), pointer, sizes, strides)
    if isinstance(ty, T.TiledViewType):
        rank = len(ty.dims)
        pointer, *extents = (next(parts) for _ in range(1 + 3 * rank))
        sizes, strides, steps = (tuple(extents[n * rank :][:rank]) for n in range(3))
        memref = Memref(element_of(ty.element_type), pointer, sizes, strides)
        return View(memref, ty.dims, tuple(range(rank)), steps, next(parts))
    return next(parts)


def _known_or(dims: Sequence[int], parts: Iterator[Value]) -> tuple[Extent, ...]:
    """Extents that a type knows, and the others."""
    given = [next(parts) for _ in dims]
    return tuple(value if dim == DYNAMIC else dim for dim, value in zip(dims, given, strict=True))


def chosen(b: Builder, condition: Value, lhs: object, rhs: object, ty: Attribute) -> object:
    """One of two values of a type."""
    pairs = zip(parts_of(lhs), parts_of(rhs), strict=True)
    return rebuilt(ty, iter([b.select(condition, x, y) for x, y in pairs]))
