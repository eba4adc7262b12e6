"""Which elements of an access are touched, and which of these decisions are uninitialized.

An element whose mask is uninitialized may be touched or not. A load may leave that open: its result is uninitialized,
which matters only if it reaches a place where it can be observed. A write under such a mask can be observed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.ops import atomics, memory, multimem, views
from tilewright.dialects.declare import bool_values
from tilewright.launching import accesses
from tilewright.launching.accesses import LOADS, POINTERS
from tilewright.machine.fused_blocks import inline
from tilewright.machine.hooks import Hook
from tilewright.machine.sanitize.reporting import Taint, join
from tilewright.machine.sanitize.rules import after, before
from tilewright.machine.sanitize.translator import SanitizingTranslator, none_of
from tilewright.machine.values import Registers
from tilewright.numerics.arrays import Array

Part = Callable[[Registers], Taint | None]


@dataclass(frozen=True, slots=True)
class Guard:
    """The uninitialized parts of what guards an access.

    ``whether``: elements of which nothing says if they are touched. ``where``: elements that are
    touched, nobody knows where; no element is in both. ``operands`` are the taints of the operands
    that these depend on, ``view`` that of the view, and ``names`` what the operands are called.
    """

    operands: tuple[int, ...]
    whether: Part
    where: Part
    names: tuple[str, str]
    view: int | None = None

    def uncertain(self, regs: Registers) -> Taint | None:
        """All elements whose part in the access is uninitialized; broadcasts to the tile. None if all are certain."""
        found = None if self.view is None else regs[self.view]
        if found is not None or all(regs[slot] is None for slot in self.operands):
            return found
        return join((self.whether(regs), self.where(regs)))


def guard_of(op: TileOp, t: SanitizingTranslator) -> Guard:
    """The guard of a memory operation."""
    pointers = POINTERS.get(type(op))
    if pointers is None:
        assert isinstance(op, accesses.ViewAccess)
        return _view_guard(op, t)
    assert isinstance(op, accesses.PointerAccess)
    return _pointer_guard(op, t, pointers)


def _pointer_guard(op: accesses.PointerAccess, t: SanitizingTranslator, pointers: str) -> Guard:
    address = t.taint(getattr(op, pointers))
    mask = t.optional(op.mask)
    mask_taint = None if op.mask is None else t.taint(op.mask)

    def whether(regs: Registers) -> Taint | None:
        return None if mask_taint is None else _some(regs[mask_taint])

    def where(regs: Registers) -> Taint | None:
        taint: Taint | None = regs[address]
        if taint is None or mask is None:
            return _some(taint)
        lanes = regs[mask]
        open_ = whether(regs)
        if open_ is not None:
            lanes = lanes & ~open_.mask
        return taint.mapped(lambda wrong: wrong & lanes)

    operands = (address,) if mask_taint is None else (address, mask_taint)
    return Guard(operands, whether, where, ("a mask of an access", "an address"))


def _view_guard(op: accesses.ViewAccess, t: SanitizingTranslator) -> Guard:
    indices = list(op.index)
    ty = op.view.type
    assert isinstance(ty, T.TileViewType)
    dims = ty.tile_dims
    promised = bool_values(op.properties.get("inbounds")) or [False] * len(indices)
    # An index of the sparse dimension may lie anywhere: rows outside the tensor take no part.
    sparse = ty.sparse_dim.data if isinstance(ty, T.GatherScatterViewType) else None
    rows = None if sparse is None else t.taint(indices[sparse])
    is_free = sparse is not None and not promised[sparse]
    scalars = tuple(t.taint(v) for position, v in enumerate(indices) if position != sparse)

    def of_rows(regs: Registers) -> Taint | None:
        taint: Taint | None = None if rows is None else regs[rows]
        if taint is None or sparse is None:
            return None
        column = [-1 if dim == sparse else 1 for dim in range(len(dims))]
        length = dims[sparse]
        return taint.mapped(
            lambda mask: np.broadcast_to(np.broadcast_to(mask, (length,)).reshape(column), dims)
        )

    def of_tile(regs: Registers) -> Taint | None:
        found = join([regs[slot] for slot in scalars])
        return None if found is None else found.mapped(lambda mask: np.full(dims, mask.any()))

    def whether(regs: Registers) -> Taint | None:
        # Where the whole tile is nowhere, its rows do not matter.
        return of_rows(regs) if is_free and of_tile(regs) is None else None

    def where(regs: Registers) -> Taint | None:
        return join((of_tile(regs), None if is_free else of_rows(regs)))

    operands = scalars if rows is None else (*scalars, rows)
    return Guard(operands, whether, where, ("an index", "an index"), t.taint(op.view))


def _some(taint: Taint | None) -> Taint | None:
    return taint if taint is not None and taint.mask.any() else None


@before(
    memory.LoadPtrTkoOp,
    memory.StorePtrTkoOp,
    atomics.AtomicRMWTkoOp,
    atomics.AtomicCASTkoOp,
    views.LoadViewTkoOp,
    views.StoreViewTkoOp,
    atomics.AtomicRedViewTkoOp,
    multimem.MultimemLoadReduceViewTkoOp,
    multimem.MultimemReduceViewTkoOp,
    multimem.MultimemStoreViewTkoOp,
)
def _guarded(op: TileOp, t: SanitizingTranslator) -> Hook:
    """No element may be touched nobody knows where, and none be written perhaps."""
    guard, collector = guard_of(op, t), t.collector
    is_load = type(op) in LOADS
    whether_name, where_name = guard.names
    # A view that is uninitialized was reported where it was made.

    def hook(regs: Registers) -> None:
        parts = [(guard.where, where_name)]
        if not is_load:
            parts.insert(0, (guard.whether, whether_name))
        for part, name in parts:
            taint = part(regs)
            if taint is not None:
                collector.uninitialized(op, taint, taint.mask, name)

    return inline(f"if not ({none_of(guard.operands)}): {{hook}}(regs)", hook=hook)


@after(views.MakeTensorViewOp)
def _made(op: TileOp, t: SanitizingTranslator) -> Hook:
    """A view of an uninitialized address or extent is uninitialized as a whole."""
    sources, result = t.taints(op.operands), t.taint(op.results[0])

    def hook(regs: Registers) -> None:
        found = join([regs[slot] for slot in sources])
        regs[result] = None if found is None else found.mapped(_any)

    return hook


def _any(mask: Array) -> Array:
    return np.array(mask.any())


@after(views.MakePartitionViewOp, views.MakeStridedViewOp, views.MakeGatherScatterViewOp)
def _remade(op: TileOp, t: SanitizingTranslator) -> Hook:
    source, result = t.taint(op.operands[0]), t.taint(op.results[0])
    return inline(f"regs[{result}] = regs[{source}]")
