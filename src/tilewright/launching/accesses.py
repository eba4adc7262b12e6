"""Which operations of ``cuda_tile`` access memory, and through which operand an operation of either level writes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from xdsl.ir import Operation, SSAValue

from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.ops import atomics, memory, multimem, views
from tilewright.dialects.facts import Elements, Ordering, elements, ordering, runs_elsewhere

PointerAccess: TypeAlias = (
    memory.LoadPtrTkoOp | memory.StorePtrTkoOp | atomics.AtomicRMWTkoOp | atomics.AtomicCASTkoOp
)
"""An access through a tile of pointers, with or without a ``mask`` tile of ``i1``."""
ViewAccess: TypeAlias = (
    views.LoadViewTkoOp
    | views.StoreViewTkoOp
    | atomics.AtomicRedViewTkoOp
    | multimem.MultimemLoadReduceViewTkoOp
    | multimem.MultimemReduceViewTkoOp
    | multimem.MultimemStoreViewTkoOp
)
"""An access to the tile of a ``view`` at an ``index`` per dimension."""
MemoryAccess: TypeAlias = PointerAccess | ViewAccess

#: The pointer operand of accesses without a view.
POINTERS: Mapping[type[TileOp], str] = MappingProxyType(
    {
        memory.LoadPtrTkoOp: "source",
        memory.StorePtrTkoOp: "destination",
        atomics.AtomicRMWTkoOp: "pointers",
        atomics.AtomicCASTkoOp: "pointers",
    }
)
LOADS = frozenset({memory.LoadPtrTkoOp, views.LoadViewTkoOp, multimem.MultimemLoadReduceViewTkoOp})
STORES = frozenset({memory.StorePtrTkoOp, views.StoreViewTkoOp, multimem.MultimemStoreViewTkoOp})
_VIEW_ATOMICS = frozenset({atomics.AtomicRedViewTkoOp, multimem.MultimemReduceViewTkoOp})
ACCESSES = frozenset({*POINTERS, *LOADS, *STORES, *_VIEW_ATOMICS})


def may_write_anything(op: Operation) -> bool:
    """Whether an operation runs external code, whose writes are unknown."""
    return runs_elsewhere(op)


def written_through(op: Operation) -> SSAValue | None:
    """The pointers or view through which an operation writes; None if it does not write."""
    cls: Any = type(op)
    if ordering(op) is Ordering.ACCESS:  # of nv_tileaa
        return None if elements(op) is Elements.READ else op.operands[0]
    if cls not in ACCESSES or cls in LOADS:
        return None
    return getattr(op, POINTERS.get(cls, "view"))
