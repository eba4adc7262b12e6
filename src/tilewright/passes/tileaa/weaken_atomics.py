"""``weaken-atomics``: makes atomic updates relaxed where their memory order orders nothing."""

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
_UNORDERED = ("", "weak", "relaxed")


@dataclass(frozen=True)
class WeakenAtomics(TileAAPass):
    """Makes the ordered atomic updates of a kernel relaxed where no order can be told from them.

    An update is ``atomic_rmw``, ``tiled_atomic_rmw`` or ``atomic_cas``. All of a function are
    weakened, or none. They are if

    1. no result of an update is used, and no update has the scope ``sys``;
    2. all else that touches memory is weak and not volatile: loads of memory that no update may
       reach, and loads and stores of memory that the block has allocated itself;
    3. nothing in the function prints, asserts, fences, calls, waits for a grid, or runs other code.

    Proof. An ordered update adds to a relaxed one the edges of "synchronizes with": what a block did
    before its update happens before what another one does after an update that reads the first one's
    value. That matters only to two accesses of different blocks that conflict: they touch a common
    byte, one of them writes, and they are not both atomic. By 2 a function has none: memory that is
    loaded is written by nobody, allocated memory is touched by its own block only, and between
    atomic updates the order of each location is total without any edge. A block does not learn
    either whether an update of another came first: by 1 it drops the old values, and by 2 and 3 it
    has no other way to look. So the relaxed program has the same executions. Tokens stay, so that
    the updates of one block keep their order. Other launches are ordered behind this one by its end,
    not by its updates; whoever looks earlier, such as the host, needs the scope ``sys``.

    A load through another argument than that of an update counts as apart from it. If the two
    overlap, the program has a race, or one block runs alone: with no way to wait, both accesses can
    come at the same time, whatever the updates order.

    Cost: one walk, and the provenance of pointers where there is an ordered update.
    """

    name: ClassVar[str] = "weaken-atomics"

    def rewrite_function(self, function: FuncOp) -> None:
        weaken_atomics(function, Remarks())


def ordered_updates(function: FuncOp) -> list[Operation]:
    """The updates of a function that order other accesses."""
    updates = [op for op in function.walk() if isinstance(op, _UPDATES)]
    return [op for op in updates if enum_property(op, "mem_semantic") not in _UNORDERED]


def weaken_atomics(function: FuncOp, remarks: Remarks) -> None:
    """Rewrite a function in place; where its ordered updates stay, a remark ``atomic`` says why."""
    updates = ordered_updates(function)
    if not updates:
        return
    found = _obstacle(function)
    if found is not None:
        obstacle, reason = found
        remarks.add("atomic", f"the updates of this kernel stay ordered: {reason}", obstacle)
        return
    for op in updates:
        op.properties["mem_semantic"] = MemSemanticAttr.of("relaxed")


def _obstacle(function: FuncOp) -> tuple[Operation, str] | None:
    """An operation by which others could tell an order, and how."""
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
    """How an operation could tell, or let others tell, in what order updates were made."""
    if isinstance(op, _UPDATES):
        if op.result.uses:
            return "the old value of an update is used"
        return "an update has the scope sys" if enum_property(op, "mem_scope") == "sys" else ""
    if isinstance(op, Load | Store):
        if enum_property(op, "mem_semantic") not in ("", "weak") or "volatile" in op.properties:
            return "another access is not weak"
        return _tells_access(op, provenances.of(op.operands[0]), updated)
    if isinstance(op, (*TRANSPARENT, scf.WhileOp)) or op.has_trait(IsTerminator):
        return ""
    if isinstance(op, AllocaOp) or is_side_effect_free(op):
        return ""
    if isinstance(op, _PLAIN):
        return ""
    return f"'{op.name}' may tell when they were made"


#: Effects that concern the block alone.
_PLAIN = (CreateMemTokenOp, JoinMemTokenOp, AssumeOp)


def _tells_access(op: Operation, base: Provenance, updated: set[Root]) -> str:
    roots = base.roots
    if all(root.kind == "alloca" for root in roots):
        return ""
    if isinstance(op, Store):
        return "a store to memory that others can see comes with them"
    known = all(root.kind in ("argument", "global", "alloca") for root in (*roots, *updated))
    if not known or roots & updated:
        return "a load may read what an update writes"
    return ""
