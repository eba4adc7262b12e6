"""Copies to shared memory that run beside the threads: ``cp.async``."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import builtin as b
from xdsl.dialects import vector
from xdsl.dialects.arith import AddiOp, MuliOp
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.dialects.memref import ExtractAlignedPointerAsIndexOp
from xdsl.dialects.scf import ForOp
from xdsl.ir import BlockArgument, OpResult, SSAValue

from tilewright.dialects.declare import bool_values, int_property
from tilewright.dialects.nv_tileaa.base import is_set
from tilewright.dialects.nv_tileas.asynchronous import (
    AsyncGroupOp,
    AsyncTiledLoadOp,
    AsyncWaitOp,
    BarrierOp,
    CreateNoneOp,
    waits_for_products,
)
from tilewright.dialects.nv_tileas.types import TiledViewType
from tilewright.dialects.nvgpu.ops.async_copy import DeviceAsyncCreateGroupOp, DeviceAsyncWaitOp
from tilewright.dialects.nvgpu.support import arith_vectors as V
from tilewright.dialects.nvgpu.support import llvm as L
from tilewright.dialects.nvgpu.support import nvvm
from tilewright.dialects.nvgpu.types import DeviceAsyncTokenType
from tilewright.layouts import Layout
from tilewright.lowering.nvgpu.types import GLOBAL_POINTER, I32, I64, INDEX, element_bytes
from tilewright.lowering.scheduled.accesses import ViewPlaces
from tilewright.lowering.scheduled.conversions import SharedTile, storage_tile
from tilewright.lowering.scheduled.state import ScheduledKernel
from tilewright.lowering.scheduled.table import lowers
from tilewright.passes.tileas.pipeline import copy_layout, inner_axis

SHARED_POINTER = LLVMPointerType(b.IntAttr(3))
_TOKEN = DeviceAsyncTokenType()


@lowers("nv_tileas.async.tiled_load")
def tiled_load(low: ScheduledKernel, op: AsyncTiledLoadOp) -> None:
    """Each thread copies vectors of up to 16 bytes; what lies outside of the view is zeros."""
    layout, width = copy_layout(op, low.threads), int_property(op, "vector")
    promised = bool_values(op.properties.get("in_bounds"))
    places = ViewPlaces(low, low.view(op.base), op.indices, promised, layout)
    tile = storage_tile(low, op.target)
    size = element_bytes(tile.memory.type.element_type)  # pyright: ignore[reportAttributeAccessIssue]
    total = width * size
    with low.filling(low.prologue):
        base = low.one(ExtractAlignedPointerAsIndexOp, (tile.memory,), INDEX)
    targets = [tile.layout.place(basis) for basis in layout.thread]
    cache = nvvm.LoadCacheModifier.CG if total == 16 else nvvm.LoadCacheModifier.CA
    properties = {
        "size": b.IntegerAttr(total, I32),
        "modifier": nvvm.LoadCacheModifierAttr(cache),
    }

    def start(register: int) -> None:
        place = tile.index(targets, tile.layout.place(layout.offsets[register]))
        with low.filling(low.prologue if tile.start is None else low.block):
            address = low.binary(AddiOp, base, low.binary(MuliOp, place, size))
            number = low.one(V.IndexCastOp, (address,), I64)
            target = low.one(L.IntToPtrOp, (number,), SHARED_POINTER)
        source = low.one(L.IntToPtrOp, (places.address(register),), GLOBAL_POINTER)
        operands: list[SSAValue] = [target, source]
        inside = places.inside(register)
        if inside is not None:
            counts = (low.constant(total, I32), low.constant(0, I32))
            operands.append(low.select(inside, *counts))
        low.emit(nvvm.CpAsyncSharedGlobalOp, operands, (), properties)

    def start_all() -> Sequence[SSAValue]:
        places.afresh()
        for register in range(0, layout.registers, width):
            start(register)
        return ()

    guard = None
    if "proven" in op.properties:
        guard = places.guard(_inner_axis(op), width, size)

    def bring() -> Sequence[SSAValue]:
        _bring(low, places, tile, layout, int_property(op, "proven"))
        return ()

    low.either(low.owner_of(layout), lambda: low.either(guard, start_all, bring))


def _inner_axis(op: AsyncTiledLoadOp) -> int:
    """The axis along which neighbours in shared memory lie."""
    target = op.target.type
    assert isinstance(target, TiledViewType)
    return inner_axis(target)


def _bring(
    low: ScheduledKernel, places: ViewPlaces, tile: SharedTile, layout: Layout, width: int
) -> None:
    """Threads copy ``width`` elements at a time themselves; the barrier that all copies are waited for
    by makes them seen."""
    places.afresh()
    element = tile.memory.type.element_type  # pyright: ignore[reportAttributeAccessIssue]
    ty, size = b.VectorType(element, [width]), element_bytes(element)
    aligned = {"alignment": b.IntegerAttr(width * size, I64)}
    targets = [tile.layout.place(basis) for basis in layout.thread]
    for register in range(0, layout.registers, width):

        def load(register: int = register) -> Sequence[SSAValue]:
            pointer = low.one(L.IntToPtrOp, (places.address(register),), GLOBAL_POINTER)
            return (low.one(L.LoadOp, (pointer,), ty, aligned),)

        inside = places.inside(register)
        (found,) = low.either(inside, load, lambda: (low.constant(0, ty),))
        place = tile.index(targets, tile.layout.place(layout.offsets[register]))
        low.emit(vector.StoreOp, (found, tile.memory, place))


@lowers("nv_tileas.async.group")
def group(low: ScheduledKernel, op: AsyncGroupOp) -> None:
    (found,) = low.emit(DeviceAsyncCreateGroupOp, (), (_TOKEN,))
    low.held[op.result] = found


@lowers("nv_tileas.async.create_none")
def create_none(low: ScheduledKernel, op: CreateNoneOp) -> None:
    """Nothing is waited for."""


@lowers("nv_tileas.async.wait")
def wait(low: ScheduledKernel, op: AsyncWaitOp) -> None:
    """Groups end in their order, so that their number says which has ended; so do products."""
    pending = b.IntegerAttr(int_property(op, "pending"), I32)
    if waits_for_products(op.token):
        low.emit(nvvm.WgmmaWaitGroupSyncOp, (), (), {"group": pending})
        return
    token = low.held[_origin(op.token)]
    assert isinstance(token, SSAValue)
    low.emit(DeviceAsyncWaitOp, (token,), (), {"numGroups": pending})


def _origin(token: SSAValue) -> SSAValue:
    """The group that was there before the loops that carry a token; only the number of groups counts."""
    while True:
        if isinstance(token, BlockArgument) and isinstance(loop := token.owner.parent_op(), ForOp):
            token = loop.operands[2 + token.index]
        elif isinstance(token, OpResult) and isinstance(loop := token.owner, ForOp):
            token = loop.operands[3 + token.index]
        else:
            return token


@lowers("nv_tileas.barrier")
def barrier(low: ScheduledKernel, op: BarrierOp) -> None:
    if is_set(op, "fence"):
        low.fence()
    low.barrier()
