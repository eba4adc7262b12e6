"""Computes only some elements of a vector.

An access to several adjacent elements needs the address and the mask of the first one only. LLVM does not discover that the others are
unused, so this module emits the needed ones alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import arith as A
from xdsl.dialects import builtin as b
from xdsl.dialects import vector
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.dialects.nv_tileaa.base import int_list
from tilewright.dialects.upstream.vector.shapes import ShuffleOp
from tilewright.lowering.nvgpu.types import I64, scalar_of
from tilewright.lowering.scheduled.state import ScheduledKernel

#: What computes each lane from the same lanes of its operands.
_BY_LANE = frozenset(
    f"arith.{name}"
    for name in (
        *("addi", "subi", "muli", "andi", "ori", "xori", "minsi", "minui", "maxsi", "maxui"),
        *("shli", "shrsi", "shrui", "cmpi", "select", "extsi", "extui", "trunci", "index_cast"),
    )
)


def lanes_of(low: ScheduledKernel, value: SSAValue, lanes: Sequence[int]) -> SSAValue:
    """A vector of these lanes of a vector, computed for them alone where what makes the vector works element by
    element.
    """
    return _Lanes(low, tuple(lanes)).of(value)


class _Lanes:
    def __init__(self, low: ScheduledKernel, lanes: tuple[int, ...]):
        self.low, self.lanes = low, lanes

    def of(self, value: SSAValue) -> SSAValue:
        ty = value.type
        if not isinstance(ty, b.VectorType) or self.lanes == tuple(range(ty.get_shape()[0])):
            return value
        known = self.low.parts
        if (value, self.lanes) not in known:
            known[value, self.lanes] = self._made(value)
        return known[value, self.lanes]

    def _made(self, value: SSAValue) -> SSAValue:
        op = value.owner
        ty = b.VectorType(scalar_of(value.type), [len(self.lanes)])
        if isinstance(op, A.ConstantOp) and (found := self._constant(op, ty)) is not None:
            return found
        if isinstance(op, Operation) and op.name in _BY_LANE:
            operands = [self.of(operand) for operand in op.operands]
            return self._behind(op, type(op), operands, ty, op.properties)
        if isinstance(op, vector.BroadcastOp) and not isinstance(op.source.type, b.VectorType):
            return self._behind(op, type(op), [op.source], ty, {})
        if isinstance(op, ShuffleOp) and op.v1 is op.v2:
            chosen = int_list(op.mask)
            count = op.v1.type.get_shape()[0]  # pyright: ignore[reportAttributeAccessIssue]
            inner = tuple(chosen[lane] % count for lane in self.lanes)
            return lanes_of(self.low, op.v1, inner)
        mask = {"mask": b.DenseArrayBase.from_list(I64, list(self.lanes))}
        return self._behind(op, ShuffleOp, [value, value], ty, mask)

    def _constant(self, op: A.ConstantOp, ty: b.VectorType) -> SSAValue | None:
        held = op.value
        if not isinstance(held, b.DenseIntOrFPElementsAttr):
            return None
        numbers = held.get_values()
        if not all(isinstance(number, int) for number in numbers):
            return None
        chosen = [numbers[0] if len(numbers) == 1 else numbers[lane] for lane in self.lanes]
        value = b.DenseIntOrFPElementsAttr.from_list(ty, chosen)  # pyright: ignore[reportCallIssue, reportArgumentType]
        return self._behind(op, type(op), (), ty, {"value": value})

    def _behind(
        self,
        owner: object,
        kind: type[Operation],
        operands: Sequence[SSAValue],
        ty: Attribute,
        properties: Mapping[str, Attribute],
    ) -> SSAValue:
        """The result of a new operation where the value is made of which it gives lanes."""
        new = kind.create(operands=operands, result_types=(ty,), properties=dict(properties))
        if isinstance(owner, Operation):
            self.low.place(new, self.low.origins.get(owner, self.low.op))
            Rewriter.insert_op(new, InsertPoint.after(owner))
        else:
            self.low.place(new, self.low.op)
            Rewriter.insert_op(new, InsertPoint.at_start(owner))  # pyright: ignore[reportArgumentType]
        return new.results[0]
