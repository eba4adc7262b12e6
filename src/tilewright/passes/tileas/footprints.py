"""Memory footprints of operations, and when two of them need no barrier in between."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from xdsl.ir import Operation, SSAValue

from tilewright.dialects import arith
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas.storage import base_of, is_ring, storage_bytes
from tilewright.dialects.nv_tileas.types import TiledViewType
from tilewright.layouts import Layout, plan_conversion
from tilewright.passes.tileaa.matching import integer_of
from tilewright.passes.tileas.schedule_builder import EQUAL


@dataclass(frozen=True, slots=True)
class Bytes:
    """Bytes of shared memory that threads touch.

    ``ring``: the multi-stage storage that they belong to, of which stage ``stage`` is touched. ``layout``: the elements
    that each thread touches, if known. ``by_copy``: asynchronous copies of the threads write them. ``by_proxy``:
    warpgroup products or tensor maps read them, which needs a fence after writes of threads. ``base``: their storage;
    None for scratch memory.
    """

    start: int
    end: int
    writes: bool
    ring: SSAValue | None = None
    stage: SSAValue | None = None
    layout: Layout | None = None
    element_bytes: int = 1
    by_copy: bool = False
    by_proxy: bool = False
    base: SSAValue | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """An access to global memory.

    ``copy``: an ordered asynchronous copy, which counts when it starts, or when its threads have waited for it.
    """

    op: Operation
    copy: bool = False


@dataclass(frozen=True, slots=True)
class PipelineUse:
    """The barriers of a pipeline: initialized by one thread (``writes``), or used."""

    pipeline: SSAValue
    writes: bool


Footprint: TypeAlias = Bytes | Memory | PipelineUse


def footprint_of(
    storage: SSAValue,
    *,
    writes: bool = False,
    layout: Layout | None = None,
    by_copy: bool = False,
    by_proxy: bool = False,
) -> Bytes:
    """Return the footprint of a storage, in bytes of shared memory; for a view of a stage, of the whole ring.

    Its storage must have been placed by ``tileas-allocate``.
    """
    base, ty = base_of(storage), storage.type
    assert isinstance(ty, TiledViewType) and isinstance(base.type, TiledViewType)
    made = base.owner
    assert isinstance(made, S.AllocTensorOp)
    start, size = int_property(made, "offset"), storage_bytes(base)
    ring = base if is_ring(base) else None
    straight = isinstance(storage.owner, S.ExtractSliceOp) and ring is not None
    own = layout if straight else None
    each = size // prod(base.type.dims)
    stage = None if ring is None else _stage(storage)
    return Bytes(start, start + size, writes, ring, stage, own, each, by_copy, by_proxy, base)


def _stage(storage: SSAValue) -> SSAValue | None:
    """Return the index of the stage that a view refers to, or None."""
    while isinstance(storage.owner, S.PermuteViewOp):
        storage = storage.owner.source
    return storage.owner.index if isinstance(storage.owner, S.ExtractSliceOp) else None


def _are_neighbours(one: SSAValue | None, other: SSAValue | None) -> bool:
    """Whether one of two stages precedes the other."""
    if one is None or other is None:
        return False
    return _is_before(one, other) or _is_before(other, one)


def _is_before(one: SSAValue, other: SSAValue) -> bool:
    """Whether ``one`` precedes ``other`` in a ring of two or more stages; the last stage precedes stage 0."""
    chosen = one.owner
    if not isinstance(chosen, arith.SelectOp):
        return False
    condition, _, rest = (value.owner for value in chosen.operands)
    if not isinstance(condition, arith.CmpiOp) or not isinstance(rest, arith.SubiOp):
        return False
    at_zero = condition.operands[0] is other and integer_of(condition.operands[1]) == 0
    equal = int_property(condition, "predicate") == EQUAL
    step = rest.operands[0] is other and integer_of(rest.operands[1]) == 1
    return at_zero and equal and step and (integer_of(chosen.operands[1]) or 0) > 0


def overlap(one: Bytes, other: Bytes) -> bool:
    """Whether two ranges have a byte in common."""
    return one.start < other.end and other.start < one.end


def needs_no_barrier(old: Bytes, new: Bytes) -> bool:
    """Whether two accesses to a ring need no barrier in between.

    That is so for neighbouring stages, for copies to a stage other than the awaited one, for tensor maps, which have
    their own barriers, and if each thread reads what it has copied itself.
    """
    if _are_neighbours(old.stage, new.stage) or old.by_copy == new.by_copy:
        return True
    if old.layout is None or new.layout is None or old.layout.size != new.layout.size:
        return False
    copied, read = (old, new) if old.by_copy else (new, old)
    assert copied.layout is not None and read.layout is not None
    if copied.layout.free_thread_bits:
        return False
    return plan_conversion(copied.layout, read.layout, copied.element_bytes).registers is not None
