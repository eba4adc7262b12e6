"""Loads and stores through pointers, stack memory and fences."""

from __future__ import annotations

import numpy as np

from tilewright.dialects.cuda_tile.base import TileOp, enum_property, int_property
from tilewright.dialects.cuda_tile.ops import memory as ops
from tilewright.machine.compile import (
    Step,
    SwitchPoint,
    Translator,
    implements,
    pointee_of,
    tile_type,
)
from tilewright.machine.faults import ALLOCA_TOO_LARGE, Fault
from tilewright.machine.memory import Memory
from tilewright.machine.storage import Storage, storage_of
from tilewright.machine.values import ARENA, TOKEN, Registers
from tilewright.numerics.arrays import Array, dtype_of
from tilewright.numerics.element_types import FORMATS

_MAX_ALLOCA_BYTES = 1 << 30


def scheduled(op: TileOp, step: Step) -> Step | SwitchPoint:
    """Other tile blocks may run after an access that they can observe: one that is not weak."""
    weak = enum_property(op, "memory_ordering_semantics") == "weak"
    return step if weak else SwitchPoint(step)


def pointer_storage(op: TileOp, pointers: str) -> Storage:
    """The storage behind the pointers of an access."""
    storage = storage_of(pointee_of(getattr(op, pointers)))
    if storage.packed:
        raise Translator.refusal(
            op,
            f"'{op.mnemonic()}' through pointers to {storage.element}: a pointer addresses a byte, "
            "which holds two such elements; use a view",
        )
    return storage


def scalar_cell(memory: Memory, address: int, storage: Storage, *, write: bool = True) -> Array:
    """The raw element at an address, as a rank-0 array over the memory itself."""
    size = storage.size
    allocation = memory.find(address, size, size, write=write)
    return np.ndarray((), storage.raw, allocation.buffer, address - allocation.base)


@implements(ops.LoadPtrTkoOp)
def load_ptr(op: ops.LoadPtrTkoOp, t: Translator) -> Step | SwitchPoint:
    storage = pointer_storage(op, "source")
    source, result = t.slot(op.source), t.slot(op.result)
    t.preset(op.result_token, TOKEN)
    memory, to_tile = t.machine.memory, storage.to_tile

    def scalar(regs: Registers) -> None:
        regs[result] = to_tile(
            scalar_cell(memory, regs[source].item(), storage, write=False).copy()
        )

    def tile(regs: Registers) -> None:
        regs[result] = to_tile(memory.load(regs[source], storage))

    if op.mask is not None:
        return scheduled(op, _masked_load(op, t, storage))
    return scheduled(op, tile if tile_type(op.source).rank else scalar)


def _masked_load(op: ops.LoadPtrTkoOp, t: Translator, storage: Storage) -> Step:
    source, result = t.slot(op.source), t.slot(op.result)
    mask, padding = t.optional(op.mask), t.optional(op.paddingValue)
    assert mask is not None
    ty = tile_type(op.result)
    dims, dtype = ty.dims, dtype_of(ty.element)
    memory, to_tile = t.machine.memory, storage.to_tile

    def step(regs: Registers) -> None:
        lanes, addresses = regs[mask], regs[source]
        if lanes.all():
            regs[result] = to_tile(memory.load(addresses, storage))
            return
        tile = np.zeros(dims, dtype) if padding is None else regs[padding].copy()
        if lanes.any():
            tile[lanes] = to_tile(memory.load(addresses[lanes], storage))
        regs[result] = tile

    return step


@implements(ops.StorePtrTkoOp)
def store_ptr(op: ops.StorePtrTkoOp, t: Translator) -> Step | SwitchPoint:
    storage = pointer_storage(op, "destination")
    destination, value, mask = t.slot(op.destination), t.slot(op.value), t.optional(op.mask)
    t.preset(op.result_token, TOKEN)
    memory, from_tile = t.machine.memory, storage.from_tile

    def scalar(regs: Registers) -> None:
        scalar_cell(memory, regs[destination].item(), storage)[...] = from_tile(regs[value])
        memory.version += 1

    def tile(regs: Registers) -> None:
        memory.store(regs[destination], storage, from_tile(regs[value]))

    def masked(regs: Registers) -> None:
        assert mask is not None
        lanes = regs[mask]
        if lanes.any():
            memory.store(regs[destination][lanes], storage, from_tile(regs[value])[lanes])

    if mask is not None:
        return scheduled(op, masked)
    return scheduled(op, tile if tile_type(op.destination).rank else scalar)


@implements(ops.AllocaOp)
def alloca(op: ops.AllocaOp, t: Translator) -> Step:
    t.note_alloca()
    fmt = FORMATS[pointee_of(op.result)]
    size = (int_property(op, "num_elem") * fmt.storage_bits + 7) // 8
    alignment = int_property(op, "alignment")
    shared = "global" in op.properties
    result, machine = t.slot(op.result), t.machine

    def step(regs: Registers) -> None:
        if size > _MAX_ALLOCA_BYTES:
            raise Fault(
                ALLOCA_TOO_LARGE, f"{size} bytes are more than the limit of {_MAX_ALLOCA_BYTES}"
            )
        allocation = machine.memory.allocate(
            np.zeros(size, np.uint8),
            "alloca memory",
            alignment=alignment,
            owner=None if shared else machine.memory.current_block,
        )
        regs[ARENA].append(allocation)
        regs[result] = np.array(allocation.base, np.uint64)

    return step


def _no_effect(op: TileOp, t: Translator) -> None:
    t.preset(op.results[0], TOKEN)


#: A run has one grid and one address space, so nothing has to wait, start or be ordered.
for _cls in (
    ops.GdcLaunchDependentsTkoOp,
    ops.GdcWaitTkoOp,
    ops.MemoryFenceAliasTkoOp,
):
    implements(_cls)(_no_effect)
