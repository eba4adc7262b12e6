"""Finds the products of which only stores observe the elements, and at which of them.

Tiles of kernels written for GPUs often end behind their arrays. Where all that becomes of a product, element by element, is
stores through views, nothing sees its rows and columns behind the end of those views: they need not be computed, whatever they
would be. Which products that holds for is decided for a whole function before code is generated.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from tilewright.cpu.codegen.analysis.plan import Plan
from tilewright.cpu.codegen.products.running_sums import can_be_made_before
from tilewright.cpu.codegen.products.state import Axes, Observed
from tilewright.dialects import facts
from tilewright.dialects.facts import Elements
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import int_list
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.dialects.nv_tileaa.ops.memory import TiledStoreOp
from tilewright.dialects.nv_tileaa.ops.shapes import ExpandDimsOp, PermuteOp, ViewOp
from tilewright.dialects.syntax.engine import values_of

#: The operands of a loop before those that it carries.
_BOUNDS = 3


def find_observed(ops: Iterable[Operation], plan: Plan) -> dict[DotOp, Observed]:
    """The products of a function that only stores observe, whose places can be told before the product is made."""
    found: dict[DotOp, Observed] = {}
    for op in ops:
        if not isinstance(op, DotOp):
            continue
        stores = _observers(op)
        anchor = None if not stores else _in_block_of(op, stores[0][0])
        if not stores or anchor is None:
            continue
        sources = [v for store, _ in stores for v in (store.operands[0], *store.indices)]
        together = all(store.parent is anchor.parent for store, _ in stores)
        if together and all(can_be_made_before(anchor, v, plan) for v in sources):
            found[op] = Observed(tuple(stores), anchor)
    return found


def _in_block_of(op: Operation, store: Operation) -> Operation | None:
    """The operation of a store's block that another one is, or is in."""
    at: Operation | None = op
    while at is not None and at.parent is not store.parent:
        at = at.parent_op()
    return at


def _observers(op: DotOp) -> list[tuple[TiledStoreOp, Axes]] | None:
    """The stores that a product reaches; None where anything else sees an element of it."""
    rank = len(T.dims_of(op.result.type))
    matrix = (rank - 2, rank - 1)
    stores: list[tuple[TiledStoreOp, Axes]] = []
    pending: list[tuple[SSAValue, Axes]] = [(op.result, matrix)]
    seen: dict[SSAValue, Axes] = {op.result: matrix}
    while pending:
        value, axes = pending.pop()
        for use in value.uses:
            user = use.operation
            if isinstance(user, TiledStoreOp) and "multimem" not in user.properties:
                if user.value is not value or value in values_of(user, "mask"):
                    return None
                stores.append((user, axes))
                continue
            following = _following(user, value, use.index, axes)
            if following is None:
                return None
            for each, there in following:
                if each not in seen:
                    pending.append((each, there))
                if seen.setdefault(each, there) != there:
                    return None
    return stores


def _following(
    user: Operation, value: SSAValue, position: int, axes: Axes
) -> list[tuple[SSAValue, Axes]] | None:
    """The values that have the elements of an operand, each by itself, and where its axes are there; None where
    elements meet others, or are seen."""
    if isinstance(user, scf.ForOp):
        number = position - _BOUNDS
        return None if number < 0 else [(v, axes) for v in _carried(user, number)]
    parent = user.parent_op()
    if isinstance(user, scf.YieldOp) and isinstance(parent, scf.ForOp):
        return [(v, axes) for v in _carried(parent, position)]
    if isinstance(user, DotOp):
        added = user.c is value and value not in (user.a, user.b, user.sfa, user.sfb)
        return [(user.result, axes)] if added else None
    if isinstance(user, PermuteOp):
        order = int_list(user.properties["permutation"])
        rows, columns = (None if axis is None else order.index(axis) for axis in axes)
        return [(user.result, (rows, columns))]
    if isinstance(user, ViewOp | ExpandDimsOp):
        moved = _reshaped(axes, T.dims_of(value.type), T.dims_of(user.result.type))
        return None if moved is None else [(user.result, moved)]
    same = facts.elements(user) is Elements.SAME_POSITION and not user.regions
    dims = T.dims_of(value.type)
    if not same or any(T.dims_of(result.type) != dims for result in user.results):
        return None
    return [(result, axes) for result in user.results]


def _carried(loop: scf.ForOp, number: int) -> tuple[SSAValue, SSAValue]:
    """A result of a loop, and what the body is handed of it."""
    return loop.results[number], loop.body.blocks[0].args[1 + number]


def _reshaped(axes: Axes, dims: tuple[int, ...], result: tuple[int, ...]) -> Axes | None:
    """Where axes are behind a reshape that only adds and drops axes of one element; None behind any other."""
    before = [axis for axis, extent in enumerate(dims) if extent > 1]
    after = [axis for axis, extent in enumerate(result) if extent > 1]
    if [dims[axis] for axis in before] != [result[axis] for axis in after]:
        return None
    moved = dict(zip(before, after, strict=True))
    rows, columns = (None if axis is None else moved.get(axis) for axis in axes)
    return rows, columns
