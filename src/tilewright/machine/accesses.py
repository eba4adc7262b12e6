"""Describes which memory an operation accesses, for observers of a run.

Addresses are computed from the operands, so they are available both before and after the operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from tilewright.launching import accesses
from tilewright.launching.accesses import ACCESSES, LOADS, POINTERS, STORES
from tilewright.launching.storage import Storage, storage_of
from tilewright.machine.compile import Translator, pointee_of
from tilewright.machine.memory import Allocation, Memory
from tilewright.machine.ops.views import access_of
from tilewright.machine.values import Registers
from tilewright.machine.view_access import ViewAccess
from tilewright.numerics.arrays import Array

Where = Callable[[Registers], tuple[Array, Array | None]]
"""Returns the byte address of every element of an access, and a mask of active lanes; None if all are."""


@dataclass(frozen=True, slots=True)
class AccessSite:
    """A memory operation in a translated kernel. ``view`` is None for accesses through pointers."""

    where: Where
    storage: Storage
    reads: bool
    writes: bool
    view: ViewAccess | None = None

    def addresses(self, regs: Registers) -> Array:
        """Return the flat byte addresses of the active elements."""
        addresses, lanes = self.where(regs)
        return chosen_lanes(addresses, lanes)

    @property
    def kind(self) -> str:
        """The kind of access for messages: ``load``, ``store`` or ``atomic``."""
        return kind_of(self.reads, self.writes)


def kind_of(reads: bool, writes: bool) -> str:
    """Return ``load``, ``store`` or ``atomic``."""
    return ("atomic" if reads else "store") if writes else "load"


def access_site(op: Operation, t: Translator) -> AccessSite | None:
    """Return the access of an operation, or None if it touches no memory."""
    cls: Any = type(op)
    if cls not in ACCESSES:
        return None
    reads, writes = cls not in STORES, cls not in LOADS
    pointers = POINTERS.get(cls)
    if pointers is None:
        assert isinstance(op, accesses.ViewAccess)
        access, storage = access_of(op, t)
        return AccessSite(_view_elements(access), storage, reads, writes, access)
    values: SSAValue = getattr(op, pointers)
    where = _pointer_elements(t.slot(values), t.optional(getattr(op, "mask")))  # noqa: B009
    return AccessSite(where, storage_of(pointee_of(values)), reads, writes)


def _pointer_elements(slot: int, mask_slot: int | None) -> Where:
    def where(regs: Registers) -> tuple[Array, Array | None]:
        return regs[slot], None if mask_slot is None else regs[mask_slot]

    return where


def _view_elements(access: ViewAccess) -> Where:
    if not access.storage.packed:
        return access.addresses

    def where(regs: Registers) -> tuple[Array, Array | None]:
        numbers, inside = access.lanes(regs)
        base = np.uint64(regs[access.view_slot].base)
        return base + (numbers >> 1).astype(np.uint64), inside

    return where


def chosen_lanes(addresses: Array, lanes: Array | None) -> Array:
    """Return the addresses of the selected lanes, in row-major order, as a rank-1 array; ``lanes`` is a mask or None
    for all.
    """
    return np.asarray(addresses.ravel() if lanes is None else addresses[lanes].ravel())


def allocations_of(
    memory_: Memory, addresses: Array, size: int
) -> Iterator[tuple[Allocation, Array | None]]:
    """Yield the allocations that flat addresses belong to, with a mask of lanes; None for all lanes.

    ``addresses`` is (lanes,), of uint64; at each lie ``size`` bytes. Raises ``Fault`` for one outside of every
    allocation.
    """
    if not addresses.size:
        return
    low, high = int(addresses.min()), int(addresses.max())
    allocation = memory_.find(low, size, 1)
    if high + size <= allocation.end:
        yield allocation, None
        return
    left = np.ones(addresses.shape, np.bool_)
    while left.any():
        allocation = memory_.find(int(addresses[left].min()), size, 1)
        lanes = left & (addresses < np.uint64(allocation.end))
        yield allocation, lanes
        left &= ~lanes
