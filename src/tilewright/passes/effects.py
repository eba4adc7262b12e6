"""What may be removed, merged or executed earlier: the legality of generic rewrites.

The declared traits decide. ``Pure``: may be removed, merged and executed where it was not before.
``NoMemoryEffect`` alone: may be removed and merged, but not hoisted past control flow. Neither
(loads, stores, atomics, assume, alloca, print_tko, assert): must stay as it is.

Tile IR calls some operations pure whose execution can be undefined behaviour, such as ``remi`` by
zero. Removing or merging them is fine; executing them where they were not executed before is
not, so ``is_speculatable`` wants a proof in these cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from xdsl.ir import Block, Operation
from xdsl.traits import IsTerminator, NoMemoryEffect, Pure, SymbolOpInterface

from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.ops.control_flow import (
    BreakOp,
    ContinueOp,
    ForOp,
    IfOp,
    ReturnOp,
    YieldOp,
)
from tilewright.dialects.cuda_tile.ops.conversions import TruncIOp
from tilewright.dialects.cuda_tile.ops.core import ExtractOp, InsertOp
from tilewright.dialects.cuda_tile.ops.integer import (
    AddIOp,
    MulIOp,
    NegIOp,
    RemIOp,
    ShLIOp,
    ShRIOp,
    SubIOp,
)
from tilewright.dialects.cuda_tile.ops.reductions import ReduceOp, ScanOp
from tilewright.dialects.cuda_tile.types import TileType
from tilewright.dialects.declare import DeclaredOp, enum_property
from tilewright.numerics.element_types import FORMATS
from tilewright.passes.matching import constant_of

#: Terminators that leave more than their own region.
EXITS = (BreakOp, ContinueOp, ReturnOp)

#: Operations that have only the effects of their regions, and always terminate.
TRANSPARENT = (IfOp, ForOp, ReduceOp, ScanOp)


def is_pure(op: Operation) -> bool:
    """Whether the operation itself is declared pure, regardless of its regions."""
    return isinstance(op, TileOp) and op.has_trait(Pure)


def has_no_effect(op: Operation) -> bool:
    """Whether the operation itself is declared effect-free, regardless of its regions."""
    return isinstance(op, TileOp) and op.has_trait(NoMemoryEffect)


def is_removable(op: Operation) -> bool:
    """Whether the operation may be erased once its results are unused.

    True of effect-free operations, and of if, for, reduce and scan whose bodies hold only such
    operations and always run to their end. False of ``loop``: it may be there to run forever.
    """
    if op.has_trait(IsTerminator, value_if_unregistered=True) or op.has_trait(SymbolOpInterface):
        return False
    if not isinstance(op, TRANSPARENT):
        return has_no_effect(op)
    waiting: list[tuple[Block, bool]] = _inner_blocks(op, isinstance(op, ForOp))
    while waiting:
        block, in_for = waiting.pop()
        for inner in block.ops:
            if isinstance(inner, YieldOp):
                continue
            if isinstance(inner, EXITS):
                if not (in_for and isinstance(inner, ContinueOp)):
                    return False
            elif isinstance(inner, TRANSPARENT):
                waiting += _inner_blocks(inner, in_for or isinstance(inner, ForOp))
            elif not has_no_effect(inner):
                return False
    return True


def _inner_blocks(op: Operation, in_for: bool) -> list[tuple[Block, bool]]:
    return [(block, in_for) for region in op.regions for block in region.blocks]


def is_dead(op: Operation) -> bool:
    """Whether the results are unused and the operation may be erased."""
    return all(not result.uses for result in op.results) and is_removable(op)


def is_speculatable(op: Operation) -> bool:
    """Whether the operation may be executed where it was not executed before.

    True of pure operations that cannot be undefined behaviour with their actual operands, and of
    reduce, scan and if whose bodies hold only such operations.
    """
    if isinstance(op, ReduceOp | ScanOp | IfOp):
        return all(
            isinstance(inner, YieldOp | ReduceOp | ScanOp | IfOp) or _is_harmless(inner)
            for inner in op.walk()
        )
    return _is_harmless(op)


def is_pure_throughout(op: Operation) -> bool:
    """Whether the operation and everything in its regions is pure."""
    if isinstance(op, ReduceOp | ScanOp | IfOp):
        return all(
            isinstance(inner, ReduceOp | ScanOp | IfOp) or is_pure(inner) for inner in op.walk()
        )
    return is_pure(op)


def _is_harmless(op: Operation) -> bool:
    if not is_pure(op):
        return False
    proof = PROOFS.get(type(op))
    if proof is not None:
        return proof(op)
    return not isinstance(op, DeclaredOp) or not op.UNDEFINED or op.UNDEFINED_AT_USE


def _has_no_overflow_flag(op: Operation) -> bool:
    assert isinstance(op, TileOp)
    return enum_property(op, "overflow") in ("", "none")


def _shift_is_in_range(op: Operation) -> bool:
    ty = op.results[0].type
    amount = constant_of(op.operands[1])
    if amount is None or not isinstance(ty, TileType):
        return False
    return max(amount.bits()) < FORMATS[ty.element].bits


def _shifts_without_flags(op: Operation) -> bool:
    return _has_no_overflow_flag(op) and _shift_is_in_range(op)


def _divisor_is_harmless(op: Operation) -> bool:
    assert isinstance(op, RemIOp)
    divisor = constant_of(op.rhs)
    if divisor is None:
        return False
    values = divisor.values()
    # INT_MIN / -1 overflows, so a signed remainder must rule out the divisor -1 as well.
    return 0 not in values and not (enum_property(op, "signedness") == "signed" and -1 in values)


def _indices_are_in_range(op: Operation) -> bool:
    assert isinstance(op, ExtractOp | InsertOp)
    whole, part = (op.source, op.result) if isinstance(op, ExtractOp) else (op.result, op.source)
    if not isinstance(whole.type, TileType) or not isinstance(part.type, TileType):
        return False
    for index, extent, step in zip(op.indices, whole.type.dims, part.type.dims, strict=True):
        value = constant_of(index)
        if value is None or not 0 <= value.values()[0] < extent // step:
            return False
    return True


#: Pure operations whose execution can be undefined behaviour, each with a proof that it is not.
PROOFS: dict[type[Operation], Callable[[Operation], bool]] = {
    AddIOp: _has_no_overflow_flag,
    SubIOp: _has_no_overflow_flag,
    MulIOp: _has_no_overflow_flag,
    NegIOp: _has_no_overflow_flag,
    TruncIOp: _has_no_overflow_flag,
    ShLIOp: _shifts_without_flags,
    ShRIOp: _shift_is_in_range,
    RemIOp: _divisor_is_harmless,
    ExtractOp: _indices_are_in_range,
    InsertOp: _indices_are_in_range,
}


def may_leave_early(ops: Iterable[Operation]) -> bool:
    """Whether control may not get past one of the operations: it holds an exit or is a ``loop``."""
    return any(
        isinstance(inner, EXITS) or inner.name == "cuda_tile.loop"
        for op in ops
        for inner in op.walk()
    )
