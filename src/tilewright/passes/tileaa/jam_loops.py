"""Takes some iterations of an accumulating loop at once, where the loop runs an unknown number of times.

A loop such as ``total += load(k) * weight(k)`` loads and stores all of ``total`` in every iteration if registers do not hold it.
``jam`` makes a loop of groups of ``FACTOR`` iterations, whose operations are element-wise, so that each element of ``total``
is loaded and stored once for a group, and behind it the loop as it was, for what is left. Like ``sliced_sums``, whose inner
loops it is for, it is no pass of a pipeline: only the code generator knows what registers hold.

Proof. Iterations run in the order of before, each with its own value of the counter: the loop has neither effects nor
synchronisation, and groups end before the upper bound. Bounds are computed from a first value that is not negative, so that
nothing overflows.
"""

from __future__ import annotations

from math import prod
from typing import TypeVar

from xdsl.dialects.scf import ForOp, YieldOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.dialects import arith
from tilewright.dialects.arith import ConstantOp
from tilewright.dialects.arith.base import numeric_element
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.numerics.element_types import FORMATS
from tilewright.passes.base import clone_with_locations, inherit_location
from tilewright.passes.tileaa.matching import integer_of
from tilewright.passes.tileaa.unroll_loops import is_by_elements

#: The iterations of a group, and how many operations a loop has at most.
FACTOR = 4
_MOST_OPERATIONS = 40


def jam(function: FuncOp, origin: dict[Operation, Operation], least_bytes: int) -> bool:
    """Jam the innermost loops of a function that carry at least ``least_bytes`` bytes, in place, and tell whether there was one.
    ``origin`` gets the original of each new operation."""
    loops = [op for op in function.walk() if isinstance(op, ForOp) and _is_jammed(op, least_bytes)]
    for loop in loops:
        _Jam(loop, origin).run()
    return bool(loops)


def _is_jammed(loop: ForOp, least_bytes: int) -> bool:
    first, step, count = integer_of(loop.lb), integer_of(loop.step), integer_of(loop.ub)
    if first is None or first < 0 or step is None or step < 1 or count is not None:
        return False
    if "unsignedCmp" in loop.attributes | loop.properties:
        return False
    *body, _ = loop.body.block.ops
    carried = sum(_bytes_of(value) for value in loop.results)
    return (
        len(body) <= _MOST_OPERATIONS and carried >= least_bytes and all(map(is_by_elements, body))
    )


def _bytes_of(value: SSAValue) -> int:
    dims = T.dims_of(value.type)
    return prod(dims) * FORMATS[numeric_element(value.type)].bits // 8 if dims else 0


Op = TypeVar("Op", bound=Operation)


class _Jam:
    """The rewrite of one loop."""

    def __init__(self, loop: ForOp, origin: dict[Operation, Operation]) -> None:
        self._loop, self._origin = loop, origin

    def run(self) -> None:
        loop = self._loop
        first, step = integer_of(loop.lb), integer_of(loop.step)
        assert first is not None and step is not None
        # first + max(ub - first, 0) // (4 * step) * (4 * step)
        group = self._before(ConstantOp.from_value(loop.lb.type, FACTOR * step))
        end = self._before(arith.MaxSIOp.of(loop.ub, loop.lb))
        span = self._before(arith.SubiOp.of(end, loop.lb))
        groups = self._before(arith.DivUIOp.of(span, group))
        whole = self._before(arith.MuliOp.of(groups, group))
        end = self._before(arith.AddiOp.of(loop.lb, whole))
        steps = [
            self._before(ConstantOp.from_value(loop.lb.type, number * step))
            for number in range(1, FACTOR)
        ]
        jammed = self._placed(
            ForOp(loop.lb, end, group, list(loop.iter_args), self._body(steps)), loop
        )
        jammed.properties.update(loop.properties)
        jammed.attributes.update(loop.attributes)
        Rewriter.insert_op(jammed, InsertPoint.before(loop))
        for place, value in enumerate((end, *loop.operands[1:3], *jammed.results)):
            loop.operands[place] = value

    def _body(self, steps: list[SSAValue]) -> Block:
        old = self._loop.body.block
        block = Block(arg_types=[value.type for value in old.args])
        counter, *carried = block.args
        for step in (None, *steps):
            here: SSAValue = counter
            if step is not None:
                moved = self._placed(arith.AddiOp.of(counter, step), self._loop)
                block.add_op(moved)
                here = moved.results[0]
            values: dict[SSAValue, SSAValue] = dict(zip(old.args, [here, *carried], strict=True))
            for op in old.ops:
                if op is old.last_op:
                    carried = [values.get(value, value) for value in op.operands]
                    break
                copy = clone_with_locations(op, values)
                self._origin.setdefault(copy, self._origin.get(op, op))
                block.add_op(copy)
        end = old.last_op
        assert end is not None
        block.add_op(self._placed(YieldOp(*carried), end))
        return block

    def _before(self, op: Operation) -> SSAValue:
        Rewriter.insert_op(self._placed(op, self._loop), InsertPoint.before(self._loop))
        return op.results[0]

    def _placed(self, op: Op, old: Operation) -> Op:
        inherit_location(op, old)
        self._origin.setdefault(op, self._origin.get(old, old))
        return op
