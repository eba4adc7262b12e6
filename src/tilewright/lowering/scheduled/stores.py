"""Stores by tensor maps: threads write storage, synchronize, and one of them starts the copies and waits for them."""

from __future__ import annotations

from xdsl.dialects import builtin as b
from xdsl.dialects import memref
from xdsl.dialects.arith import AddiOp
from xdsl.ir import Attribute, SSAValue

from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa.base import int_list, is_set
from tilewright.dialects.nv_tileas import pipelines as P
from tilewright.dialects.nv_tileas.storage import base_of
from tilewright.dialects.nv_tileas.stores import AsyncStoreWaitOp, AsyncTiledTmaStoreOp
from tilewright.dialects.nv_tileas.types import TiledViewType
from tilewright.dialects.nvgpu.ops import tma
from tilewright.dialects.nvgpu.types import TensorMapDescriptorType
from tilewright.dialects.upstream.nvvm import ops as nvvm
from tilewright.layouts.layout import axis_bits
from tilewright.lowering.nvgpu.types import I32, INDEX, element_bytes
from tilewright.lowering.scheduled.pipelines import check_boxes
from tilewright.lowering.scheduled.state import ScheduledKernel
from tilewright.lowering.scheduled.table import lowers


@lowers("nv_tileas.async.tiled_tma_store")
def tiled_tma_store(low: ScheduledKernel, op: AsyncTiledTmaStoreOp) -> None:
    """One thread starts a copy of each panel of 128 bytes of the tile; together they are a group. Those of
    other threads are empty: a branch around them would cost more."""
    made = op.desc.owner
    assert isinstance(made, P.MakeTiledTmaDescOp)
    source, ty = op.source.type, low.tensor_map(made).type
    assert isinstance(source, TiledViewType) and isinstance(ty, TensorMapDescriptorType)
    check_boxes(low, op.source, made)
    base, view = base_of(op.source), low.view(made.base)
    order, box = int_list(made.properties["order"]), ty.tensor.get_shape()
    size = element_bytes(ty.tensor.element_type)
    with low.building(low.prologue):
        offset: SSAValue = low.constant(low.storage[base], INDEX)
    if op.source is not base:
        start = low.held[op.source]
        assert isinstance(start, SSAValue)
        offset = low.binary(AddiOp, low.times(start, low.constant(size, INDEX)), offset)
    coordinates = [low.times(low.value(op.indices[axis]), view.steps[axis]) for axis in order]
    fast = axis_bits(source.dims)[order[-1]]
    with low.building(low.prologue):
        # The first thread of the last warp: that of the first warp brings tiles ahead.
        leads = low.compare("eq", low.thread(), low.threads - 32)
    for panel in range(source.dims[order[-1]] // box[-1]):
        place = source.shared.place(panel * box[-1] << fast.start) * size
        where = low.plus(offset, low.constant(place, INDEX))
        memory = low.one(memref.ViewOp, (low.scratch(), where), ty.tensor)
        at = [*coordinates[:-1], low.plus(coordinates[-1], panel * box[-1])]
        indices = [low.as_index(value) for value in reversed(at)]
        groups = [[memory], [low.tensor_map(made)], indices, [leads]]
        sizes = b.DenseArrayBase.from_list(I32, [len(group) for group in groups])
        operands = [value for group in groups for value in group]
        low.emit(tma.TmaAsyncStoreOp, operands, (), {"operandSegmentSizes": sizes})
    low.emit(nvvm.CpAsyncBulkCommitGroupOp)


@lowers("nv_tileas.async.store_wait")
def store_wait(low: ScheduledKernel, op: AsyncStoreWaitOp) -> None:
    """The thread that started stores waits, others have none; they know when they meet it."""
    properties: dict[str, Attribute] = {"group": b.IntegerAttr(int_property(op, "pending"), I32)}
    if is_set(op, "read"):
        properties["read"] = b.UnitAttr()
    low.emit(nvvm.CpAsyncBulkWaitGroupOp, (), (), properties)
