"""Inserts operations while a scheduling pass rewrites a loop."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import builtin as b
from xdsl.dialects import scf
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.dialects import arith
from tilewright.dialects.arith.constants import scalar_value
from tilewright.dialects.nv_tileas import ops as S
from tilewright.passes.base import inherit_location

INDEX = b.IndexType()
#: Predicates of comparisons.
EQUAL, BELOW, BELOW_UNSIGNED = 0, 2, 6


class ScheduleBuilder:
    """Puts operations at a point, where another one stood."""

    def __init__(self, point: InsertPoint, origin: Operation):
        self.point, self.origin = point, origin

    def add(self, op: Operation) -> Operation:
        """Put an operation at the point, at the location of the one that stood there; the
        operation."""
        inherit_location(op, self.origin)
        Rewriter.insert_op(op, self.point)
        return op

    def one(self, kind: type[Operation], operands: Sequence[SSAValue], ty: Attribute) -> SSAValue:
        """The result of a new operation that has one."""
        return self.add(kind.create(operands=operands, result_types=(ty,))).results[0]

    def index(self, number: int) -> SSAValue:
        """A constant of type ``index``."""
        value = scalar_value(INDEX, number)
        op = arith.ConstantOp.create(result_types=(INDEX,), properties={"value": value})
        return self.add(op).results[0]

    def compare(self, predicate: int, one: SSAValue, other: SSAValue) -> SSAValue:
        """``arith.cmpi`` with the number of a predicate, such as ``BELOW``."""
        properties = {"predicate": b.IntegerAttr(predicate, b.i64)}
        op = arith.CmpiOp.create(operands=(one, other), result_types=(b.i1,), properties=properties)
        return self.add(op).results[0]

    def select(self, condition: SSAValue, yes: SSAValue, no: SSAValue) -> SSAValue:
        """``yes`` where the condition holds, else ``no``."""
        return self.one(arith.SelectOp, (condition, yes, no), yes.type)

    def stage(self, ring: SSAValue, slot: SSAValue, ty: Attribute) -> SSAValue:
        """The stage of a ring at a slot, as a view of type ``ty``."""
        return self.one(S.ExtractSliceOp, (ring, slot), ty)


def put_behind(value: SSAValue, op: Operation) -> None:
    """Put a new operation behind what makes a value, at its location."""
    owner = value.owner
    if isinstance(owner, Operation):
        inherit_location(op, owner)
        Rewriter.insert_op(op, InsertPoint.after(owner))
    else:
        parent = owner.parent_op()
        if parent is not None:
            inherit_location(op, parent)
        Rewriter.insert_op(op, InsertPoint.at_start(owner))


def carrying(loop: scf.ForOp, more: Sequence[SSAValue]) -> scf.ForOp:
    """Put in the place of a loop one that carries more values, for which its body has arguments and
    its end operands."""
    region = loop.body
    loop.detach_region(region)
    types = [*(result.type for result in loop.results), *(value.type for value in more)]
    new = scf.ForOp.create(
        operands=[*loop.operands, *more],
        result_types=types,
        attributes=loop.attributes,
        properties=loop.properties,
        regions=[region],
    )
    inherit_location(new, loop)
    Rewriter.insert_op(new, InsertPoint.before(loop))
    for old, result in zip(loop.results, new.results, strict=False):
        result.name_hint = old.name_hint
        old.replace_all_uses_with(result)
    loop.detach()
    loop.erase()
    return new
