"""Reductions and scans.

The order is fixed: from the first element, over ascending indices (descending for a reverse scan),
with the accumulator as first and the element as second argument of the body, as in NVIDIA's
compiler. If the body is a
single exact operation for which order is unobservable, elements are combined pairwise instead,
which takes fewer steps.

Identities are not used: every row has a first element, and NVIDIA's compiler combines only
elements. The difference is observable if the identity is not neutral, like -inf for a maximum that
drops NaN, and in the signs of zeros.

All other dimensions advance together: the body runs on arrays instead of scalars. Only a body with
operations that are not element-wise runs lane by lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects.cuda_tile.ops.control_flow import YieldOp
from tilewright.dialects.cuda_tile.ops.core import ConstantOp
from tilewright.dialects.cuda_tile.ops.reductions import ReduceOp, ScanOp
from tilewright.dialects.declare import int_property
from tilewright.machine.compile import (
    Scope,
    Step,
    Translator,
    implements,
    tile_type,
)
from tilewright.machine.fused_blocks import fused_block
from tilewright.machine.ops.elementwise import ElementCall, call_of, is_elementwise
from tilewright.machine.ops.reduction_trees import reduce_as_tree
from tilewright.machine.values import Registers
from tilewright.numerics.arrays import Array, dtype_of
from tilewright.numerics.float_ops import reduce_maxf, reduce_minf
from tilewright.numerics.rounding import quiet

#: Operations in bodies that are not steps, since their results are preset; then terminators.
CONSTANTS: set[type[Operation]] = {ConstantOp}
YIELDS: set[type[Operation]] = {YieldOp}
#: Operations whose result does not depend on the order of combination.
_ORDER_FREE = frozenset({"addi", "muli", "andi", "ori", "xori", "maxi", "mini"})
#: Operations with a dedicated function for all elements at once.
_REDUCED = MappingProxyType({"maxf": reduce_maxf, "minf": reduce_minf})
#: Operations that NumPy can accumulate strictly in order, in one call.
_ACCUMULATED: dict[str, np.ufunc] = {
    "addf": np.add,
    "mulf": np.multiply,
    "addi": np.add,
    "muli": np.multiply,
}
# With fewer lanes, accumulating is faster.
_MIN_LANES_TO_REDUCE = 8


@dataclass(frozen=True, slots=True)
class Folding:
    """The operands and results of a reduce or scan. In arrays, the reduced dimension comes first."""

    operands: tuple[int, ...]
    results: tuple[int, ...]
    axis: int
    reverse: bool = False

    def rows(self, regs: Registers) -> list[Array]:
        """Return the operands with the reduced dimension first, in the order of reduction.

        These are views of the tiles in the registers, not copies.
        """
        axis = self.axis
        found = [
            regs[slot] if not axis else np.moveaxis(regs[slot], axis, 0) for slot in self.operands
        ]
        return [rows[::-1] for rows in found] if self.reverse else found

    def put(self, regs: Registers, rows: Sequence[Array]) -> None:
        """Set the results of a scan from arrays in the format of ``rows``."""
        for slot, found in zip(self.results, rows, strict=True):
            ordered = found[::-1] if self.reverse else found
            regs[slot] = np.moveaxis(ordered, 0, self.axis)


def _folding(op: Operation, t: Translator, axis: int, reverse: bool = False) -> Folding:
    return Folding(t.slots(op.operands), t.slots(op.results), axis, reverse)


def _single_operation(block: Block) -> ElementCall | None:
    """Return the operation on both arguments that makes up the body, or None for other bodies."""
    ops = list(block.ops)
    if len(ops) != 2 or len(block.args) != 2 or not is_elementwise(ops[0]):
        return None
    only, last = ops
    combines = set(only.operands) == set(block.args) and len(only.operands) == 2
    return call_of(only) if combines and list(last.operands) == [only.results[0]] else None


def _accumulation(call: ElementCall | None, t: Translator) -> np.ufunc | None:
    """Return the NumPy function that computes exactly what the operation's semantics does, or None."""
    if call is None or t.arithmetic.reductions == "tree" or call.element == "i1":
        return None
    attributes = call.attributes
    plain = attributes.get("rounding", "nearest_even") == "nearest_even"
    if not plain or attributes.get("flush_to_zero"):
        return None
    return _ACCUMULATED.get(call.name)


@quiet
def _accumulate(function: np.ufunc, tile: Array, axis: int) -> Array:
    """Combine each element along ``axis`` with all before it."""
    return function.accumulate(tile, axis, tile.dtype)


def _pairwise(function: Callable[..., Array], rows: Array) -> Array:
    while (count := rows.shape[0]) > 1:
        rows = function(rows[: count // 2], rows[count // 2 :])
    return rows[0, ...]


@implements(ReduceOp)
def _reduce(op: ReduceOp, t: Translator) -> Step:
    return reduce_step(op, t, int_property(op, "dim"))


def reduce_step(op: Operation, t: Translator, axis: int) -> Step:
    """Reduces all operands along an axis by the operation's body."""
    folding = _folding(op, t, axis)
    block = op.regions[0].blocks[0]
    only = _single_operation(block)
    if only is not None and (reduced := _REDUCED.get(only.name)) is not None:
        return _one_operand(folding, partial(reduced, element=only.element, **only.attributes))
    if only is not None and only.name in _ORDER_FREE:
        return _one_operand(folding, partial(_pairwise, only.under(t.arithmetic)))
    ufunc = _accumulation(only, t)
    if ufunc is not None:
        return _accumulated_reduce(folding, ufunc)
    loop = _loop(op, t, folding, block, keep_all=False)

    def step(regs: Registers) -> None:
        for slot, found in zip(folding.results, loop(regs), strict=True):
            regs[slot] = found

    return step


def _one_operand(folding: Folding, combine: Callable[[Array], Array]) -> Step:
    (result,) = folding.results

    def step(regs: Registers) -> None:
        regs[result] = np.asarray(combine(folding.rows(regs)[0]))

    return step


@quiet
def reduce_in_order(function: np.ufunc, tile: Array, axis: int) -> Array:
    """Combine the elements along ``axis`` one after the other; the result lacks the axis, and is a new array."""
    count = tile.shape[axis]
    if tile.size < _MIN_LANES_TO_REDUCE * count:
        # Copied so that the partial results can be freed; stays an array even at rank 0.
        last = (*(slice(None),) * axis, -1)
        return np.array(_accumulate(function, tile, axis)[last])
    rows = np.ascontiguousarray(np.moveaxis(tile, axis, 0))
    # NumPy adds pairwise only along the fast axis of memory. Along the slow axis it adds row by row,
    # all lanes at once.
    # It starts from zero, which would turn a row of -0 into +0.
    start = {"initial": tile.dtype.type(-0.0)} if function is np.add else {}
    found = function.reduce(rows.reshape(count, -1), 0, tile.dtype, **start)
    return found.reshape(rows.shape[1:])


def _accumulated_reduce(folding: Folding, function: np.ufunc) -> Step:
    (operand,), (result,), axis = folding.operands, folding.results, folding.axis

    def step(regs: Registers) -> None:
        regs[result] = reduce_in_order(function, regs[operand], axis)

    return step


def _accumulated_scan(folding: Folding, function: np.ufunc) -> Step:
    (operand,), (result,), axis = folding.operands, folding.results, folding.axis
    before = (slice(None),) * axis
    order = (*before, slice(None, None, -1)) if folding.reverse else (*before, slice(None))

    def step(regs: Registers) -> None:
        regs[result] = _accumulate(function, regs[operand][order], axis)[order]

    return step


@implements(ScanOp)
def _scan(op: ScanOp, t: Translator) -> Step:
    return scan_step(op, t, int_property(op, "dim"), reverse=op.is_reverse)


def scan_step(op: Operation, t: Translator, axis: int, *, reverse: bool) -> Step:
    """Computes an inclusive scan along an axis by the operation's body."""
    folding = _folding(op, t, axis, reverse)
    block = op.regions[0].blocks[0]
    ufunc = _accumulation(_single_operation(block), t)
    if ufunc is not None:
        return _accumulated_scan(folding, ufunc)
    loop = _loop(op, t, folding, block, keep_all=True)

    def step(regs: Registers) -> None:
        folding.put(regs, loop(regs))

    return step


def _loop(
    op: Operation, t: Translator, folding: Folding, block: Block, *, keep_all: bool
) -> Callable[[Registers], list[Array]]:
    """Return the general form: runs the body once for each index but the first, on all lanes at once or
    lane by lane."""
    dtypes = [dtype_of(tile_type(value).element) for value in op.operands]
    vector = is_vector_body(block)
    body = _vector_body(block, t) if vector else _scalar_body(block, t)

    def fold(regs: Registers, rows: list[Array]) -> list[Array]:
        count, lanes = rows[0].shape[0], rows[0].shape[1:]
        state = [found[0, ...] for found in rows]
        kept = [np.empty((count, *lanes), dtype) for dtype in dtypes] if keep_all else []
        run = body(regs, lanes)
        for index in range(count):
            if index:
                state = run([found[index, ...] for found in rows], state)
            for rows_kept, found in zip(kept, state, strict=False):
                rows_kept[index] = found
        return kept if keep_all else state

    if t.arithmetic.reductions == "tree":
        fold = partial(reduce_as_tree, body, vector, keep_all)

    def all_lanes(regs: Registers) -> list[Array]:
        return fold(regs, [np.ascontiguousarray(rows) for rows in folding.rows(regs)])

    def lane_by_lane(regs: Registers) -> list[Array]:
        rows = folding.rows(regs)
        shape = rows[0].shape if keep_all else rows[0].shape[1:]
        results = [np.empty(shape, dtype) for dtype in dtypes]
        for lane in np.ndindex(rows[0].shape[1:]):
            column = (slice(None), *lane)
            for result, found in zip(results, fold(regs, [r[column] for r in rows]), strict=True):
                result[column if keep_all else lane] = found
        return results

    return all_lanes if vector else lane_by_lane


def is_vector_body(block: Block) -> bool:
    """Whether a body can run on arrays instead of scalars."""
    return all(type(op) in CONSTANTS | YIELDS or is_elementwise(op) for op in block.ops)


Body = Callable[[Registers, tuple[int, ...]], Callable[[list[Array], list[Array]], list[Array]]]
"""Prepares the body for lanes of a shape."""


def _vector_body(block: Block, t: Translator) -> Body:
    """Return the body on arrays. Outside values and constants are broadcast to the lanes first."""
    spread, execute, yielded = vector_body(block, t)
    accumulators, elements = t.slots(block.args[::2]), t.slots(block.args[1::2])

    def prepare(regs: Registers, lanes: tuple[int, ...]) -> Any:
        spread(regs, lanes)
        return partial(_run_body, execute, regs, elements, accumulators, yielded)

    return prepare


def vector_body(
    block: Block, t: Translator
) -> tuple[
    Callable[[Registers, tuple[int, ...]], None], Callable[[Registers], object], tuple[int, ...]
]:
    """Return a body on arrays: a function that broadcasts outside values to lanes of a shape, a function that
    runs the operations, and the slots of the yielded values."""
    inner: set[SSAValue] = set(block.args)
    inner.update(op.results[0] for op in block.ops if is_elementwise(op))
    for op in block.ops:
        if type(op) in CONSTANTS:
            t.operation(op)
    used = [value for op in block.ops for value in op.operands]
    outside = list(dict.fromkeys(value for value in used if value not in inner))
    sources = t.slots(outside)
    spread = {value: t.new_slot() for value in outside}
    last = block.last_op
    assert last is not None
    with t.renamed(spread):
        ops = [op for op in block.ops if is_elementwise(op)]
        steps: list[Any] = [t.operation(op) for op in ops]
        execute = fused_block(steps, ops)
        yielded = t.slots(last.operands)
    copies = tuple(zip(sources, spread.values(), strict=True))

    def spread_over(regs: Registers, lanes: tuple[int, ...]) -> None:
        for source, target in copies:
            regs[target] = np.broadcast_to(regs[source], lanes)

    return spread_over, execute, yielded


def scalar_body(
    block: Block, t: Translator
) -> tuple[Callable[[Registers], object], tuple[int, ...]]:
    """Return a body as written, on rank-0 tiles, and the slots of the yielded values."""
    last = block.last_op
    assert last is not None
    yielded = tuple(t.new_slot() for _ in last.operands)
    t.yields.append(Scope(results=yielded))
    execute = t.block(block).run
    t.yields.pop()
    return execute, yielded


def _scalar_body(block: Block, t: Translator) -> Body:
    accumulators, elements = t.slots(block.args[::2]), t.slots(block.args[1::2])
    execute, yielded = scalar_body(block, t)

    def prepare(regs: Registers, lanes: tuple[int, ...]) -> Any:
        return partial(_run_body, execute, regs, elements, accumulators, yielded)

    return prepare


def _run_body(
    execute: Callable[[Registers], object],
    regs: Registers,
    elements: tuple[int, ...],
    accumulators: tuple[int, ...],
    yielded: tuple[int, ...],
    current: list[Array],
    state: list[Array],
) -> list[Array]:
    for slot, found in zip(elements, current, strict=True):
        regs[slot] = found
    for slot, found in zip(accumulators, state, strict=True):
        regs[slot] = found
    execute(regs)
    return [regs[slot] for slot in yielded]
