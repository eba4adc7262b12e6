"""Memrefs and tiled views: construction and extents."""

from __future__ import annotations

from llvmlite import ir

from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.emitter.table import lowers, refuse
from tilewright.cpu.codegen.ir.elements import I8, I64, PTR, element_of
from tilewright.cpu.codegen.memory.views import Memref, View, as_value
from tilewright.dialects.cuda_tile.types import DYNAMIC
from tilewright.dialects.declare import enum_property, int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops import shapes as S
from tilewright.dialects.nv_tileaa.ops.pointers import MakeMemrefOp


@lowers("make_memref")
def make_memref(f: FunctionEmitter, op: MakeMemrefOp) -> None:
    """An address with extents and strides in elements, known or as values of 64 bits."""
    b = f.builder
    ty = op.results[0].type
    assert isinstance(ty, T.MemrefType)
    element = element_of(ty.element_type)
    pointer = b.inttoptr(f.scalar(op.base), PTR)
    for offset in op.offset if isinstance(op.offset, tuple) else [op.offset]:
        if offset is not None:
            pointer = b.gep(pointer, [f.as_index(offset)], source_etype=I8)
    sizes, strides = iter(op.sizes), iter(op.strides)
    f.values[op.results[0]] = Memref(
        element,
        pointer,
        tuple(f.as_index(next(sizes)) if d == DYNAMIC else d for d in ty.dims),
        tuple(f.as_index(next(strides)) if d == DYNAMIC else d for d in ty.stride_dims),
    )


@lowers("block_tile")
def block_tile(f: FunctionEmitter, op: S.BlockTileOp) -> None:
    """A memref cut into tiles. Raises ``TileIRError`` (``cpu-unsupported``) for groups of several axes."""
    memref = f.values[op.source]
    assert isinstance(memref, Memref)
    if (cut := op.cut) is None:
        raise refuse(
            op, "the order in which a tile axis covers several axes of the memref is unspecified"
        )
    f.values[op.results[0]] = View.of_cut(memref, cut, enum_property(op, "padding_value"))


@lowers("get_dim_size")
def get_dim_size(f: FunctionEmitter, op: S.GetDimSizeOp) -> None:
    """An extent in elements; of a tiled view, the number of its tiles, rounded up."""
    source, axis, b = f.values[op.source], int_property(op, "axis"), f.builder
    if isinstance(source, Memref):
        f.values[op.results[0]] = as_value(source.sizes[axis])
        return
    assert isinstance(source, View)
    step = as_value(source.steps[axis])
    size = as_value(source.memref.sizes[source.axes[axis]])
    raised = b.add(size, b.sub(step, ir.Constant(I64, 1)))
    f.values[op.results[0]] = b.udiv(raised, step)
