"""Which tile blocks may wait for one another: those with the same key, the address that their wait loops read.

Blocks that take the same lock also work on the memory that the lock protects. If one thread runs all blocks of a lock,
nobody waits for it, and that memory stays in one processor's caches.

This changes the order in which blocks begin, so it must be known which blocks a block may wait for. All wait loops must
read one address, a formula in the block's index, and the kernel must write to the array of that address nowhere else. Then
a block waits only for others with its key. These begin in ascending order on the same thread, with fewer
others between them than in the whole grid, so everything that a block may wait for is in flight whenever it
would be on one thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType, IntegerType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import is_side_effect_free

from tilewright.analysis.tileaa.equality import same_value
from tilewright.cpu.codegen.analysis import effects
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.memory import Atomic, Load, Store
from tilewright.dialects.nv_tileaa.ops.queues import CancelNextProgramIdOp, GetProgramIdOp

#: A formula of more operations is not computed for each block of a grid.
_LONGEST = 64


def find_key(ops: Sequence[Operation]) -> SSAValue | None:
    """The address that all loops of a kernel look at that wait for others; None where blocks may wait for
    others than those for which it is the same, or where it is the same for all."""
    looks = [look for op in ops if effects.waits(op) for look in op.walk() if _looks(look)]
    if not looks or any(isinstance(op, CancelNextProgramIdOp) for op in ops):
        return None
    key = looks[0].operands[0]
    root = effects.root_of(key)
    if root is None or not all(same_value(look.operands[0], key) for look in looks):
        return None
    for op in ops:
        if not isinstance(op, Store | Atomic):
            continue
        written = effects.root_of(op.operands[0])
        if written is None or (written == root and not same_value(op.operands[0], key)):
            return None
    found = formula(key)
    if found is None or not any(isinstance(op, GetProgramIdOp) for op in found):
        return None
    return key


def formula(value: SSAValue) -> list[Operation] | None:
    """The operations that make a scalar from parameters and the number of the block, in their order; None where
    it is made of anything else."""
    found: dict[Operation, None] = {}
    if not _collect(value, found) or len(found) > _LONGEST:
        return None
    return list(found)


def _collect(value: SSAValue, found: dict[Operation, None]) -> bool:
    """Add what makes a value behind what it is made of; whether that is all known."""
    owner = value.owner
    if isinstance(owner, Block):
        return isinstance(owner.parent_op(), FuncOp)
    if owner in found:
        return True
    if len(found) > _LONGEST or not _is_plain(owner):
        return False
    if not all(_collect(operand, found) for operand in owner.operands):
        return False
    found[owner] = None
    return True


def _is_plain(op: Operation) -> bool:
    if isinstance(op, GetProgramIdOp):
        return op.program_id is None
    scalars = IntegerType, IndexType, T.PtrType
    return (
        not op.regions
        and is_side_effect_free(op)
        and all(isinstance(value.type, scalars) for value in (*op.operands, *op.results))
    )


def _looks(op: Operation) -> bool:
    """Whether an operation of a loop can be what the loop waits for."""
    if isinstance(op, Load):
        return not op.is_weak
    return isinstance(op, Atomic)
