"""Which operations access memory atomically, and so may order warps and blocks."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from tilewright.dialects.upstream.memref.ops import RMW_KINDS

_UPDATES = frozenset({"memref.atomic_rmw", "llvm.atomicrmw", "llvm.cmpxchg"})


def takes_locks(op: Operation) -> bool:
    """Whether an operation is a compare-and-swap or an exchange."""
    if op.name == "memref.atomic_rmw":
        kind = op.properties["kind"]
        return isinstance(kind, IntegerAttr) and kind.value.data == RMW_KINDS["assign"]
    return op.name == "llvm.cmpxchg" or getattr(op, "keyword", None) == "xchg"


def is_atomic(op: Operation) -> bool:
    """Whether an operation is an atomic update, or a load or store with a memory ordering."""
    if op.name in _UPDATES:
        return True
    found = op.properties.get("ordering")
    return isinstance(found, IntegerAttr) and bool(found.value.data)
