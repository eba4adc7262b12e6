"""Asynchronous copies to shared memory by threads: ``cp.async``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from xdsl.dialects import builtin as b
from xdsl.dialects.arith import AddiOp, MuliOp
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.dialects.memref import ExtractAlignedPointerAsIndexOp
from xdsl.dialects.scf import ForOp
from xdsl.ir import BlockArgument, OpResult, SSAValue

from tilewright.dialects.declare import bool_values, int_property
from tilewright.dialects.nv_tileaa.base import is_set
from tilewright.dialects.nv_tileas.asynchronous import (
    AsyncGroupOp,
    AsyncLoadOp,
    AsyncTiledLoadOp,
    AsyncWaitOp,
    BarrierOp,
    CreateNoneOp,
    waits_for_products,
)
from tilewright.dialects.nv_tileas.types import TiledViewType
from tilewright.dialects.nvgpu.ops.async_copy import DeviceAsyncCreateGroupOp, DeviceAsyncWaitOp
from tilewright.dialects.nvgpu.types import DeviceAsyncTokenType
from tilewright.dialects.upstream.arith import vectors as V
from tilewright.dialects.upstream.llvm import ops as L
from tilewright.dialects.upstream.nvvm import ops as nvvm
from tilewright.layouts import Layout
from tilewright.lowering.nvgpu.types import GLOBAL_POINTER, I32, I64, INDEX, element_bytes
from tilewright.lowering.nvgpu.whole_vectors import store_whole
from tilewright.lowering.scheduled.accesses import ViewPositions, chosen, guard_of_pointers
from tilewright.lowering.scheduled.conversions import storage_tile
from tilewright.lowering.scheduled.state import ScheduledKernel
from tilewright.lowering.scheduled.table import lowers
from tilewright.passes.tileas.pipeline import copy_layout, inner_axis

SHARED_POINTER = LLVMPointerType(b.IntAttr(3))
_TOKEN = DeviceAsyncTokenType()


@lowers("nv_tileas.async.tiled_load")
def tiled_load(low: ScheduledKernel, op: AsyncTiledLoadOp) -> None:
    """Each thread copies vectors of up to 16 bytes; what lies outside of the view is zeros."""
    layout = copy_layout(op, low.threads)
    promised = bool_values(op.properties.get("in_bounds"))
    places = ViewPositions(low, low.view(op.base), op.indices, promised, layout)
    copy = _Copy(low, op, layout)
    guard = None
    if "proven" in op.properties:
        guard = places.guard(_inner_axis(op), copy.width, copy.size)

    def groups() -> Groups:
        places.afresh()
        return places.address, places.inside

    copy.all(guard, groups, groups)


@lowers("nv_tileas.async.load")
def load(low: ScheduledKernel, op: AsyncLoadOp) -> None:
    """Each thread copies what the pointers that it holds point to."""
    copy = _Copy(low, op, low.layout_of(op.base.type))
    pointers, mask = low.value(op.base), None if op.mask is None else low.value(op.mask)

    def groups(width: int, mask: SSAValue | None) -> Groups:
        firsts = range(0, copy.layout.registers, width)
        addresses = dict(zip(firsts, chosen(low, pointers, firsts), strict=True))
        if mask is None:
            return addresses.__getitem__, lambda register: None
        inside = dict(zip(firsts, chosen(low, mask, firsts), strict=True))
        return addresses.__getitem__, inside.__getitem__

    if "proven" not in op.properties:
        copy.all(None, lambda: groups(copy.width, mask), lambda: groups(copy.width, mask))
        return
    guard = guard_of_pointers(low, pointers, mask, copy.width, copy.size)
    known = int_property(op, "proven")
    copy.all(guard, lambda: groups(copy.width, None), lambda: groups(known, mask))


Groups: TypeAlias = tuple[Callable[[int], SSAValue], Callable[[int], SSAValue | None]]
"""Of the group from a register on: where it lies in global memory, and whether it is there; None always."""


class _Copy:
    """What a thread copies, in groups of ``width`` elements of ``size`` bytes."""

    def __init__(self, low: ScheduledKernel, op: AsyncTiledLoadOp | AsyncLoadOp, layout: Layout):
        self.low, self.op, self.layout = low, op, layout
        self.width = int_property(op, "vector")
        self.tile = storage_tile(low, op.target)
        self.element = self.tile.memory.type.element_type  # pyright: ignore[reportAttributeAccessIssue]
        self.size = element_bytes(self.element)
        with low.building(low.prologue):
            self.base = low.one(ExtractAlignedPointerAsIndexOp, (self.tile.memory,), INDEX)
        self.targets = [self.tile.layout.place(basis) for basis in layout.thread]

    def all(
        self, guard: SSAValue | None, whole: Callable[[], Groups], parts: Callable[[], Groups]
    ) -> None:
        """Start the copies of ``whole`` groups; those of ``parts``, as far as they are known to move at once, where
        a guard does not hold."""
        low = self.low

        def start() -> Sequence[SSAValue]:
            self._start(*whole())
            return ()

        def bring() -> Sequence[SSAValue]:
            self._bring(*parts(), int_property(self.op, "proven"))
            return ()

        low.either(low.owner_of(self.layout), lambda: low.either(guard, start, bring))

    def _place(self, register: int) -> SSAValue:
        place = self.tile.layout.place(self.layout.offsets[register])
        return self.tile.index(self.targets, place)

    def _start(
        self, address: Callable[[int], SSAValue], inside: Callable[[int], SSAValue | None]
    ) -> None:
        low, total = self.low, self.width * self.size
        cache = nvvm.LoadCacheModifier.CG if total == 16 else nvvm.LoadCacheModifier.CA
        properties = {
            "size": b.IntegerAttr(total, I32),
            "modifier": nvvm.LoadCacheModifierAttr(cache),
        }
        for register in range(0, self.layout.registers, self.width):
            place = self._place(register)
            with low.building(low.prologue if self.tile.start is None else low.block):
                number = low.binary(AddiOp, self.base, low.binary(MuliOp, place, self.size))
                number = low.one(V.IndexCastOp, (number,), I64)
                target = low.one(L.IntToPtrOp, (number,), SHARED_POINTER)
            source = low.one(L.IntToPtrOp, (address(register),), GLOBAL_POINTER)
            operands: list[SSAValue] = [target, source]
            condition = inside(register)
            if condition is not None:
                counts = (low.constant(total, I32), low.constant(0, I32))
                operands.append(low.select(condition, *counts))
            low.emit(nvvm.CpAsyncSharedGlobalOp, operands, (), properties)

    def _bring(
        self,
        address: Callable[[int], SSAValue],
        inside: Callable[[int], SSAValue | None],
        width: int,
    ) -> None:
        """Threads copy ``width`` elements at a time themselves; the barrier that all copies are waited for by
        makes them seen."""
        low, ty = self.low, b.VectorType(self.element, [width])
        aligned = {"alignment": b.IntegerAttr(width * self.size, I64)}
        for register in range(0, self.layout.registers, width):

            def load(register: int = register) -> Sequence[SSAValue]:
                pointer = low.one(L.IntToPtrOp, (address(register),), GLOBAL_POINTER)
                return (low.one(L.LoadOp, (pointer,), ty, aligned),)

            (found,) = low.either(inside(register), load, lambda: (low.constant(0, ty),))
            store_whole(low, found, self.tile.memory, self._place(register))


def _inner_axis(op: AsyncTiledLoadOp) -> int:
    """The axis along which neighbours in shared memory lie."""
    target = op.target.type
    assert isinstance(target, TiledViewType)
    return inner_axis(target)


@lowers("nv_tileas.async.group")
def group(low: ScheduledKernel, op: AsyncGroupOp) -> None:
    """Closes the group of the copies before it (``nvgpu.device_async_create_group``)."""
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
    """All threads of the block meet; with ``fence`` their writes are first made visible to the async proxy."""
    if is_set(op, "fence"):
        low.fence()
    low.barrier()
