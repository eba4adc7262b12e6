"""Cost queries of the planner, beside the facts that operations declare."""

from __future__ import annotations

from typing import TypeGuard

from xdsl.dialects import scf, ub
from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import facts
from tilewright.dialects.arith import ConstantOp
from tilewright.dialects.facts import Elements
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp, ReduceOp, ScanOp
from tilewright.dialects.nv_tileaa.ops.functions import ExecuteOp, YieldOp
from tilewright.dialects.nv_tileaa.ops.hints import AssumeOp
from tilewright.dialects.nv_tileaa.ops.memory import Load, TiledLoadOp
from tilewright.dialects.nv_tileaa.ops.pointers import BitcastOp
from tilewright.dialects.nv_tileaa.ops.shapes import (
    ExpandDimsOp,
    GenerateOp,
    PermuteOp,
    ViewOp,
)

_WITH_BODIES = (ReduceOp, ScanOp, GenerateOp)
#: What bodies may hold, beside arithmetic on scalars, to run on many elements at once.
_IN_BODIES = (YieldOp, scf.YieldOp, AssumeOp, ub.PoisonOp)
_LOOPS = (scf.ForOp, scf.WhileOp)


def is_lazy(op: Operation) -> bool:
    """Whether the result can be computed position by position, where it is read."""
    if isinstance(op, Load):
        return op.is_weak
    if isinstance(op, GenerateOp):
        return is_body_of_elements(op)
    return facts.elements(op) is not Elements.UNKNOWN


def is_deferred(op: Operation) -> bool:
    """Whether nothing is computed where the operation stands: the result is lazy, and a tile. A scalar, as an
    element taken out of a tile, is computed, and reads, at once."""
    return is_lazy(op) and any(isinstance(result.type, T.TileType) for result in op.results)


def is_free(op: Operation) -> bool:
    """Whether computing an element takes no more than reading it would."""
    return facts.elements(op) is Elements.MADE and not facts.cost(op)


def is_body_of_elements(op: Operation) -> bool:
    """Whether the regions compute single elements, many at once."""
    return isinstance(op, _WITH_BODIES) and all(
        _runs_on_elements(inner) for region in op.regions for inner in region.block.ops
    )


def _runs_on_elements(op: Operation) -> bool:
    if not all(T.is_scalar_or_tile(v.type) and not T.dims_of(v.type) for v in op.results):
        return False
    if isinstance(op, scf.IfOp):
        blocks = [block for region in op.regions for block in region.blocks]
        return all(_runs_on_elements(inner) for block in blocks for inner in block.ops)
    return bool(facts.meaning(op)) or isinstance(op, (ConstantOp, *_IN_BODIES))


def repeats(op: Operation) -> bool:
    """Whether what stands inside runs several times."""
    return isinstance(op, _LOOPS) or (isinstance(op, _WITH_BODIES) and not is_body_of_elements(op))


def is_agent(op: Operation) -> bool:
    """Whether the operation runs its region beside what follows, as a function of its own."""
    return isinstance(op, ExecuteOp)


def works_in_place(op: Operation) -> bool:
    """Whether the operation fills a buffer, element by element from the old elements there."""
    return isinstance(op, DotOp)


def _is_transposed_factor(op: Operation) -> bool:
    """Whether a permutation of what was loaded goes into products only, which pack it as it lies."""
    source = op.operands[0].owner
    while _adds_axes(source):
        source = source.operands[0].owner
    return isinstance(source, TiledLoadOp) and _goes_to_products(op.results[0])


def _goes_to_products(value: SSAValue) -> bool:
    """Whether a tile is a factor of products, and nothing else, behind reshapes that add and drop axes."""
    return all(
        use.index in (0, 1)
        if isinstance(use.operation, DotOp)
        else _adds_axes(use.operation) and _goes_to_products(use.operation.results[0])
        for use in value.uses
    )


def _adds_axes(op: object) -> TypeGuard[Operation]:
    """Whether an operation does nothing to a tile but add or drop axes of one element."""
    if not isinstance(op, ViewOp | ExpandDimsOp):
        return False
    both = [T.dims_of(value.type) for value in (op.operands[0], op.results[0])]
    return len({tuple(extent for extent in dims if extent > 1) for dims in both}) == 1


def needs_buffer(user: Operation) -> bool:
    """Whether the operation reads its operand at scattered positions."""
    if isinstance(user, PermuteOp):
        if _is_transposed_factor(user):
            return False
        order = user.properties["permutation"]
        assert isinstance(order, DenseArrayBase)
        axes = [int(axis) for axis in order.iter_values()]
        source = user.operands[0].type
        assert isinstance(source, T.TileType)
        moved = [axis for axis in axes if source.dims[axis] != 1]
        return bool(moved) and moved != sorted(moved)
    if isinstance(user, BitcastOp):
        return T.dims_of(user.operands[0].type) != T.dims_of(user.results[0].type)
    return False
