"""Memrefs and tiled views: construction and extents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.ir import OpResult, SSAValue

from tilewright.dialects.cuda_tile.types import DYNAMIC, Cut
from tilewright.dialects.declare import enum_property, int_property
from tilewright.dialects.nv_tileaa import types as A
from tilewright.dialects.nv_tileaa.ops import memory, pointers, shapes
from tilewright.dialects.nv_tileaa.ops.functions import GlobalOp
from tilewright.dialects.nv_tileaa.ops.symbols import reference, symbols_around
from tilewright.dialects.nv_tileaa.types import strides_of
from tilewright.machine.compile import Step, Translator, implements
from tilewright.machine.ops.views import dims_text, tensor_step
from tilewright.machine.values import Registers, TensorView


@dataclass(frozen=True, slots=True)
class TiledView(TensorView):
    """A tensor and how it is cut into tiles. ``padding`` is the name of the out-of-bounds value."""

    cut: Cut
    padding: str


@implements(memory.GetGlobalOp)
def _get_global(op: memory.GetGlobalOp, t: Translator) -> None:
    name = reference(op, "symbol")
    address = t.global_addresses[name]
    if not isinstance(op.result.type, A.MemrefType):
        t.preset(op.result, np.array(address, np.uint64))
        return
    held = (symbols_around(op) or {})[name]
    assert isinstance(held, GlobalOp)
    ty = op.result.type
    actual = held.properties["type"]
    assert isinstance(actual, A.MemrefType)
    if DYNAMIC in ty.dims:
        t.preset(op.result, TensorView(address, actual.dims, strides_of(actual)))
    else:
        strides = actual if ty.dims == actual.dims else ty
        t.preset(op.result, TensorView(address, ty.dims, strides_of(strides)))


@implements(pointers.MakeMemrefOp)
def _make_memref(op: pointers.MakeMemrefOp, t: Translator) -> Step:
    ty = op.result.type
    assert isinstance(ty, A.MemrefType)
    shape = dims_text(ty.dims, t, op.sizes)
    strides = dims_text(ty.stride_dims, t, op.strides)
    return tensor_step(t.slot(op.base), t.slot(op.result), shape, strides, t.optional(op.offset))


def cut_of(op: shapes.BlockTileOp) -> Cut:
    """Return how an operation cuts tiles, in elements. Raises ``Fault`` if it does not say."""
    if (cut := op.cut) is None:
        raise Translator.refusal(
            op,
            "'block_tile' with several axes in one of its dimGroups, in unspecified order",
        )
    return cut


@implements(shapes.BlockTileOp)
def _block_tile(op: shapes.BlockTileOp, t: Translator) -> Step:
    cut, padding = cut_of(op), enum_property(op, "padding_value") or "zero"
    source, result = t.slot(op.source), t.slot(op.result)
    last: TensorView | None = None
    made: TiledView | None = None

    def step(regs: Registers) -> None:
        # Returning the identical view for the same tensor lets later loads recognize it.
        nonlocal last, made
        tensor: TensorView = regs[source]
        if tensor is not last:
            last = tensor
            made = TiledView(tensor.base, tensor.shape, tensor.strides, cut, padding)
        regs[result] = made

    return step


def known_cut(value: SSAValue) -> tuple[Cut, str] | None:
    """Return how a view cuts tiles and its padding, if its definition is visible. Raises ``Fault`` as ``cut_of``
    does.
    """
    if isinstance(value, OpResult) and isinstance(value.op, shapes.BlockTileOp):
        return cut_of(value.op), enum_property(value.op, "padding_value") or "zero"
    return None


@implements(shapes.GetDimSizeOp)
def _get_dim_size(op: shapes.GetDimSizeOp, t: Translator) -> Step:
    axis = int_property(op, "axis")
    source, result = t.slot(op.source), t.slot(op.result)

    def extent(regs: Registers) -> None:
        regs[result] = np.array(regs[source].shape[axis], np.uint64).view(np.int64)

    def tiles(regs: Registers) -> None:
        view: TiledView = regs[source]
        step = view.cut.steps[axis]
        count = -(-view.shape[view.cut.dim_map[axis]] // step)
        regs[result] = np.array(count, np.uint64).view(np.int64)

    return tiles if isinstance(op.source.type, A.TiledViewType) else extent
