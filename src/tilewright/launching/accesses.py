"""Which operations of ``cuda_tile`` access memory, and what an operation of either level writes through."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.ops import atomics, memory, multimem, views

if TYPE_CHECKING:
    from xdsl.ir import Operation, SSAValue

#: The operand that holds the pointers, for accesses without a view.
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

# By name, because loading nv_tileaa takes longer than a small kernel of cuda_tile.
#: Operations of nv_tileaa that run code which is not inside them.
_CALLS = frozenset(
    f"nv_tileaa.{name}" for name in ("call", "execute", "plugin", "inject_ir", "launch_func")
)
#: Operations of nv_tileaa that write through their first operand.
TILEAA_WRITES = frozenset(
    f"nv_tileaa.{name}"
    for name in (
        "store",
        "tiled_store",
        "scatter_store",
        "atomic_cas",
        "atomic_rmw",
        "tiled_atomic_rmw",
    )
)


def may_write_anything(op: Operation) -> bool:
    """Whether an operation runs code from elsewhere, of which is not known where it writes."""
    return op.name in _CALLS and not any(region.blocks for region in op.regions)


def written_through(op: Operation) -> SSAValue | None:
    """The pointers or the view through which an operation writes; None if it does not."""
    cls: Any = type(op)
    if op.name in TILEAA_WRITES:
        return op.operands[0]
    if cls not in ACCESSES or cls in LOADS:
        return None
    return getattr(op, POINTERS.get(cls, "view"))
