"""The shared memory that rings leave to what exchanges tiles between threads while they are there."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.ir import Operation

from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas.elementwise import has_mixed_layouts, has_other_source
from tilewright.passes.tileas import kinds
from tilewright.passes.tileas.assign_layouts import goes_by_element

#: Shared memory for conversions and reductions, in bytes.
_EXCHANGES = 16 << 10
#: What aligns storages, and the barriers of pipelines.
BESIDE_RINGS = 1 << 10
_MOVES = frozenset({kinds.BROADCAST, kinds.PERMUTE, *kinds.RESHAPES})


def exchange_room(loop: scf.ForOp) -> int:
    """The bytes of shared memory that a ring of ``loop`` must leave: those of exchanges in the loop and in front of it.
    What exchanges tiles behind the loop of a function takes the memory where the ring was; behind a loop in another
    one, the ring is still needed."""
    func = loop.parent_op()
    if not isinstance(func, FuncOp):
        return _EXCHANGES
    for op in func.body.block.ops:
        if any(map(_exchanges, op.walk())):
            return _EXCHANGES
        if op is loop:
            break
    return BESIDE_RINGS


def _exchanges(op: Operation) -> bool:
    """Whether threads may hand parts of tiles to one another through shared memory that is no storage."""
    if op.name in (kinds.REDUCE, kinds.SCAN):
        return True
    if op.regions or not kinds.tiles_of((*op.operands, *op.results)):
        return False
    if isinstance(op, Access):
        return goes_by_element(op) or op.name in kinds.ATOMICS
    if isinstance(op, S.Product | S.CopyOp | S.LocalLoadOp | scf.YieldOp):
        return False
    if op.name in _MOVES:
        return has_other_source(op)
    return has_mixed_layouts(op) or not (kinds.is_elementwise(op) or kinds.is_source(op))
