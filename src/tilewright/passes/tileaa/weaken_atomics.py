"""``weaken-atomics``: makes atomic updates relaxed if nothing can observe their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import scf
from xdsl.ir import Operation
from xdsl.traits import IsTerminator, is_side_effect_free

from tilewright.analysis.tileaa import Provenance, Provenances, Root
from tilewright.dialects.declare import enum_property
from tilewright.dialects.nv_tileaa.enums import MemSemanticAttr
from tilewright.dialects.nv_tileaa.ops.extensions import AllocaOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.hints import AssumeOp, CreateMemTokenOp, JoinMemTokenOp
from tilewright.dialects.nv_tileaa.ops.memory import (
    AtomicCasOp,
    AtomicRMWOp,
    Load,
    Store,
    TiledAtomicRMWOp,
)
from tilewright.passes.tileaa.base import TileAAPass
from tilewright.passes.tileaa.effects import TRANSPARENT
from tilewright.passes.tileas.remarks import Remarks

_UPDATES = (AtomicRMWOp, TiledAtomicRMWOp, AtomicCasOp)


@dataclass(frozen=True)
class WeakenAtomics(TileAAPass):
    """Makes the ordered atomic updates of a kernel relaxed if nothing can observe their order.

    Updates are ``atomic_rmw``, ``tiled_atomic_rmw`` and ``atomic_cas``. Either all updates of a
    function are weakened or none. The conditions are

    1. no result of an update is used, and no update has the scope ``sys``;
    2. all other memory accesses are weak and not volatile: loads from memory that no update may
       reach, and loads and stores of memory that the block has allocated itself;
    3. nothing in the function prints, asserts, fences, calls, waits for a grid, or runs other code.

    Proof. Compared with a relaxed update, an ordered one adds "synchronizes with" edges: what a block
    did before its update happens before what another block does after an update that reads the first
    one's value. These edges matter only to two conflicting accesses of different blocks: accesses that
    touch a common byte, at least one of them a write, and not both atomic. By 2 a function has none:
    memory that is loaded is written by nobody, and allocated memory is touched by its own block only.
    Atomic updates of one location are totally ordered without any edge. Nor can a block observe whether
    another block's update came first: by 1 it drops the old values, and by 2 and 3 it has no other way
    to look. The relaxed program therefore has the same executions. Tokens stay, so the updates of one
    block keep their order. Other launches are ordered after this one by its end, not by its updates;
    whoever looks earlier, such as the host, needs the scope ``sys``.

    A load through another argument than an update's counts as independent of it. If the two overlap, the
    program has a race, or one block runs alone: since nothing can wait, both accesses can happen at the
    same time, whatever order the updates have.

    Cost: one walk, and pointer provenance if there is an ordered update.
    """

    name: ClassVar[str] = "weaken-atomics"

    def rewrite_function(self, function: FuncOp) -> None:
        weaken_atomics(function, Remarks())


def ordered_updates(function: FuncOp) -> list[Operation]:
    """Return the updates of a function that order other accesses."""
    updates = [op for op in function.walk() if isinstance(op, _UPDATES)]
    return [op for op in updates if op.semantic != "relaxed"]


def weaken_atomics(function: FuncOp, remarks: Remarks) -> None:
    """Weaken the updates of a function in place to relaxed. If they stay ordered, a remark ``atomic`` says why.

    By the memory model they may only if nothing else in the kernel can observe their order; all stay, or none.
    """
    updates = ordered_updates(function)
    if not updates:
        return
    found = _obstacle(function)
    if found is not None:
        obstacle, reason = found
        remarks.add("atomic", f"the atomics of this kernel stay ordered: {reason}", obstacle)
        return
    for op in updates:
        op.properties["mem_semantic"] = MemSemanticAttr.of("relaxed")


def _obstacle(function: FuncOp) -> tuple[Operation, str] | None:
    """Return an operation through which an order could be observed, and how; None if there is none."""
    provenances = Provenances(function)
    ops = list(function.walk())
    updated: set[Root] = set()
    for op in ops:
        if isinstance(op, _UPDATES):
            updated |= provenances.of(op.operands[0]).roots
    for op in ops:
        if op is not function and (reason := _tells(op, provenances, updated)):
            return op, reason
    return None


def _tells(op: Operation, provenances: Provenances, updated: set[Root]) -> str:
    """Return how an operation could observe the order of updates, or let others observe it; empty if not."""
    if isinstance(op, _UPDATES):
        if op.result.uses:
            return "the result of an atomic is used"
        return "an atomic has scope sys" if enum_property(op, "mem_scope") == "sys" else ""
    if isinstance(op, Load | Store):
        if not op.is_weak:
            return "another access is not weak"
        return _tells_access(op, provenances.of(op.operands[0]), updated)
    if isinstance(op, (*TRANSPARENT, scf.WhileOp)) or op.has_trait(IsTerminator):
        return ""
    if isinstance(op, AllocaOp) or is_side_effect_free(op):
        return ""
    if isinstance(op, _PLAIN):
        return ""
    return f"'{op.name}' may observe when they happen"


#: Effects that concern only the block itself.
_PLAIN = (CreateMemTokenOp, JoinMemTokenOp, AssumeOp)


def _tells_access(op: Operation, base: Provenance, updated: set[Root]) -> str:
    roots = base.roots
    if all(root.kind == "alloca" for root in roots):
        return ""
    if isinstance(op, Store):
        return "the kernel also stores to memory that others can see"
    known = all(root.kind in ("argument", "global", "alloca") for root in (*roots, *updated))
    if not known or roots & updated:
        return "a load may read what an atomic writes"
    return ""
