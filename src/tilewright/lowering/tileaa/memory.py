"""Tokens, accesses through pointers, and other ordered operations: fences, printing.

Every access takes a token and produces one. If the source has none, it takes the function's initial token, which adds
no order that the source does not require.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.ir import Attribute, SSAValue

from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.ops import atomics as A
from tilewright.dialects.cuda_tile.ops import memory as C
from tilewright.dialects.cuda_tile.ops.control_flow import AssertOp
from tilewright.dialects.cuda_tile.ops.misc import PrintTkoOp
from tilewright.dialects.declare import enum_property, int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.enums import (
    FenceKindAttr,
    GridDependencyAttr,
    MemScopeAttr,
    MemSemanticAttr,
    RMWModeAttr,
)
from tilewright.dialects.nv_tileaa.ops import extensions, hints, memory
from tilewright.lowering.tileaa.hints import number_hint
from tilewright.lowering.tileaa.state import Lowering, i32_number
from tilewright.lowering.tileaa.table import lowers

#: Scopes with another name in ``nv_tileaa``.
SCOPES = {"device": "gpu"}


def ordering(op: TileOp) -> dict[str, Attribute | None]:
    """The semantic and scope of an access; none for a weak one."""
    semantic = enum_property(op, "memory_ordering_semantics")
    if semantic == "weak":
        return {}
    scope = enum_property(op, "memory_scope")
    return {
        "mem_semantic": MemSemanticAttr.of(semantic),
        "mem_scope": MemScopeAttr.of(SCOPES.get(scope, scope)),
    }


def latency(low: Lowering, op: TileOp) -> dict[str, Attribute | None]:
    """The latency hint of an access for the target, if any."""
    value = number_hint(low.options, op, "latency")
    return {"latency": None if value is None else i32_number(value)}


def present(*values: SSAValue | None) -> list[SSAValue]:
    """The operands that are present."""
    return [value for value in values if value is not None]


@lowers(C.MakeTokenOp)
def make_token(low: Lowering, op: C.MakeTokenOp) -> Sequence[SSAValue]:
    """The function's token without dependences."""
    return (low.no_order(),)


@lowers(C.JoinTokensOp)
def join_tokens(low: Lowering, op: C.JoinTokensOp) -> Sequence[SSAValue]:
    """A token that depends on all of them."""
    return low.emit(hints.JoinMemTokenOp, low.values(op.tokens), (T.MEM_TOKEN,))


@lowers(C.LoadPtrTkoOp)
def load_ptr_tko(low: Lowering, op: C.LoadPtrTkoOp) -> Sequence[SSAValue]:
    """``load`` through pointers. The padding value is dropped without a mask, since it has no effect then."""
    mask, other = op.mask, op.paddingValue if op.mask is not None else None
    groups = (
        low.values((op.source,)),
        (),
        low.values(present(mask)),
        low.values(present(other)),
    )
    return low.grouped(
        memory.LoadOp,
        groups,
        low.types_of(op.results),
        {**ordering(op), **latency(low, op)},
        token=low.token(op.token),
    )


@lowers(C.StorePtrTkoOp)
def store_ptr_tko(low: Lowering, op: C.StorePtrTkoOp) -> Sequence[SSAValue]:
    """``store`` through pointers, without offsets."""
    groups = (
        low.values((op.destination,)),
        low.values((op.value,)),
        (),
        low.values(present(op.mask)),
    )
    return low.grouped(
        memory.StoreOp,
        groups,
        (T.MEM_TOKEN,),
        {**ordering(op), **latency(low, op)},
        token=low.token(op.token),
    )


@lowers(A.AtomicCASTkoOp)
def atomic_cas_tko(low: Lowering, op: A.AtomicCASTkoOp) -> Sequence[SSAValue]:
    """``atomic_cas`` through pointers, with its mask, order and scope."""
    groups = (
        low.values((op.pointers,)),
        low.values((op.cmp,)),
        low.values((op.val,)),
        (),
        low.values(present(op.mask)),
    )
    return low.grouped(
        memory.AtomicCasOp,
        groups,
        low.types_of(op.results),
        ordering(op),
        token=low.token(op.token),
    )


@lowers(A.AtomicRMWTkoOp)
def atomic_rmw_tko(low: Lowering, op: A.AtomicRMWTkoOp) -> Sequence[SSAValue]:
    """``atomic_rmw`` through pointers, with its mask, order and scope."""
    groups = (
        low.values((op.pointers,)),
        low.values((op.arg,)),
        (),
        low.values(present(op.mask)),
    )
    return low.grouped(
        memory.AtomicRMWOp,
        groups,
        low.types_of(op.results),
        {"rmw_mode": RMWModeAttr.of(enum_property(op, "mode")), **ordering(op)},
        token=low.token(op.token),
    )


@lowers(C.AllocaOp)
def alloca(low: Lowering, op: C.AllocaOp) -> Sequence[SSAValue]:
    """``ext.alloca``: ``num_elem`` elements, with an alignment in bytes."""
    properties: dict[str, Attribute | None] = {
        "num_elem": IntegerAttr(int_property(op, "num_elem"), i64),
        "alignment": IntegerAttr(int_property(op, "alignment"), i64),
        "global": UnitAttr() if op.global_ is not None else None,
    }
    return low.emit(extensions.AllocaOp, (), low.types_of(op.results), properties)


@lowers(C.MemoryFenceAliasTkoOp)
def memory_fence_alias_tko(low: Lowering, op: C.MemoryFenceAliasTkoOp) -> Sequence[SSAValue]:
    """``ext.fence``, which also orders accesses to one location through different addresses."""
    return low.emit(
        extensions.FenceOp,
        (low.token(op.token),),
        (T.MEM_TOKEN,),
        {"kind": FenceKindAttr.of("alias")},
    )


@lowers(C.GdcLaunchDependentsTkoOp, C.GdcWaitTkoOp)
def grid_dependency(
    low: Lowering, op: C.GdcLaunchDependentsTkoOp | C.GdcWaitTkoOp
) -> Sequence[SSAValue]:
    """``ext.grid_dependency``, for programmatic dependent launches: wait for the preceding grid, or let the next one
    start.
    """
    action = GridDependencyAttr.of("wait" if isinstance(op, C.GdcWaitTkoOp) else "launch")
    return low.emit(
        extensions.GridDependencyOp, (low.token(op.token),), (T.MEM_TOKEN,), {"action": action}
    )


@lowers(PrintTkoOp)
def print_tko(low: Lowering, op: PrintTkoOp) -> Sequence[SSAValue]:
    """``print`` with the same format, ordered by its token."""
    operands = [*low.values(op.args), low.token(op.token)]
    return low.emit(hints.PrintOp, operands, (T.MEM_TOKEN,), {"format": StringAttr(op.format)})


@lowers(AssertOp)
def assert_(low: Lowering, op: AssertOp) -> Sequence[SSAValue]:
    """``assert``; unordered, as in the source, where it has no token."""
    message = op.properties["message"]
    return low.emit(hints.AssertOp, (low.value(op.condition),), (), {"message": message})
