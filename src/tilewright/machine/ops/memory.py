"""Loads and stores through pointers, stack memory and fences."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation, SSAValue

from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.ops import memory as ops
from tilewright.dialects.declare import enum_property, int_property
from tilewright.launching.storage import Storage, storage_of
from tilewright.launching.value_types import TileLike
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
from tilewright.machine.values import ARENA, TOKEN, Registers
from tilewright.numerics.arrays import Array, dtype_of
from tilewright.numerics.element_types import FORMATS

_MAX_ALLOCA_BYTES = 1 << 30


def is_weak(op: TileOp) -> bool:
    """Whether an access is ordered only by its tokens (memory model, weak accesses)."""
    return enum_property(op, "memory_ordering_semantics") == "weak"


def scheduled(op: TileOp, step: Step) -> Step | SwitchPoint:
    """Add a switch point after an access that other tile blocks can observe: one that is not weak."""
    return step if is_weak(op) else SwitchPoint(step)


def pointer_storage(op: TileOp, pointers: str) -> Storage:
    """Return how the pointees of an access are stored. Raises ``Fault`` as ``storage_behind`` does."""
    return storage_behind(op, op.mnemonic(), getattr(op, pointers))


def storage_behind(op: Operation, mnemonic: str, pointers: SSAValue) -> Storage:
    """Return how pointees are stored, for an operation that accesses them; ``mnemonic`` is for the message.

    Raises ``Fault`` (unsupported) for elements that share a byte.
    """
    storage = storage_of(pointee_of(pointers))
    if storage.packed:
        raise Translator.refusal(
            op,
            f"'{mnemonic}' through pointers to {storage.element}: a pointer addresses a byte, "
            "which holds two such elements; use a view",
        )
    return storage


def scalar_cell(memory: Memory, address: int, storage: Storage, *, write: bool = True) -> Array:
    """Return the raw element at an address as a rank-0 array over memory, so that writing to it writes to memory.

    Raises ``Fault`` as ``Memory.find`` does; with ``write`` also for read-only memory.
    """
    size = storage.size
    allocation = memory.find(address, size, size, write=write)
    return np.ndarray((), storage.raw, allocation.buffer, address - allocation.base)


@implements(ops.LoadPtrTkoOp)
def _load_ptr(op: ops.LoadPtrTkoOp, t: Translator) -> Step | SwitchPoint:
    storage = pointer_storage(op, "source")
    t.preset(op.result_token, TOKEN)
    mask, padding = t.optional(op.mask), t.optional(op.paddingValue)
    ty = tile_type(op.result)
    step = load_step(t, storage, t.slot(op.source), t.slot(op.result), ty, mask, padding)
    return scheduled(op, step)


def load_step(
    t: Translator,
    storage: Storage,
    source: int,
    result: int,
    ty: TileLike,
    mask: int | None,
    padding: int | None,
) -> Step:
    """Loads a tile of type ``ty`` through pointers. Masked-off lanes are those of ``padding``, or
    zero."""
    memory, to_tile = t.machine.memory, storage.to_tile

    def scalar(regs: Registers) -> None:
        regs[result] = to_tile(
            scalar_cell(memory, regs[source].item(), storage, write=False).copy()
        )

    def tile(regs: Registers) -> None:
        regs[result] = to_tile(memory.load(regs[source], storage))

    dims, dtype = ty.dims, dtype_of(ty.element)

    def masked(regs: Registers) -> None:
        assert mask is not None
        lanes, addresses = regs[mask], regs[source]
        if lanes.all():
            regs[result] = to_tile(memory.load(addresses, storage))
            return
        tile = np.zeros(dims, dtype) if padding is None else regs[padding].copy()
        if lanes.any():
            tile[lanes] = to_tile(memory.load(addresses[lanes], storage))
        regs[result] = tile

    if mask is not None:
        return masked
    return tile if ty.rank else scalar


@implements(ops.StorePtrTkoOp)
def _store_ptr(op: ops.StorePtrTkoOp, t: Translator) -> Step | SwitchPoint:
    storage = pointer_storage(op, "destination")
    t.preset(op.result_token, TOKEN)
    slots = t.slot(op.destination), t.slot(op.value), t.optional(op.mask)
    return scheduled(op, store_step(t, storage, *slots, rank=tile_type(op.value).rank))


def store_step(
    t: Translator, storage: Storage, destination: int, value: int, mask: int | None, *, rank: int
) -> Step:
    """Stores the unmasked elements of a tile through pointers."""
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
        return masked
    return tile if rank else scalar


@implements(ops.AllocaOp)
def _alloca(op: ops.AllocaOp, t: Translator) -> Step:
    shared = "global" in op.properties
    count, alignment = int_property(op, "num_elem"), int_property(op, "alignment")
    return alloca_step(t, op.result, count, alignment, shared=shared)


def alloca_step(
    t: Translator, pointer: SSAValue, count: int, alignment: int, *, shared: bool
) -> Step:
    """Allocates memory for ``count`` elements, freed when the enclosing block ends.

    ``alignment`` is in bytes. The memory is zero at first; unless ``shared``, it belongs to the tile block. The step
    raises ``Fault`` for more than the limit.
    """
    t.note_alloca()
    size = (count * FORMATS[pointee_of(pointer)].storage_bits + 7) // 8
    result, machine = t.slot(pointer), t.machine

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


#: A run has one grid and one address space, so these have nothing to wait for, start or order.
for _cls in (
    ops.GdcLaunchDependentsTkoOp,
    ops.GdcWaitTkoOp,
    ops.MemoryFenceAliasTkoOp,
):
    implements(_cls)(_no_effect)
