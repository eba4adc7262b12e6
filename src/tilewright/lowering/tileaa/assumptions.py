"""Assumptions about values: ``assume`` and the facts that it states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute, SSAValue

from tilewright.dialects.cuda_tile import attributes as C
from tilewright.dialects.cuda_tile.ops.misc import AssumeOp
from tilewright.dialects.nv_tileaa import attributes as N
from tilewright.dialects.nv_tileaa.ops import hints
from tilewright.lowering.tileaa.state import Lowering
from tilewright.lowering.tileaa.table import lowers


def _div_by(fact: C.DivByAttr) -> Attribute | None:
    """The divisibility fact; None for groups of no elements, which say nothing."""
    if fact.group is None:
        return N.DivByAttr(fact.divisor.data)
    every, along = fact.group
    return N.DivByAttr(fact.divisor.data, every, along) if every else None


def _same_elements(fact: C.SameElementsAttr) -> Attribute:
    """The fact of equal elements; groups of no elements become groups of one."""
    return N.SameElementsAttr([max(extent, 1) for extent in fact.values.data])


_FACTS: dict[type[Attribute], Callable[[Any], Attribute | None]] = {
    C.DivByAttr: _div_by,
    C.BoundedAttr: lambda fact: N.BoundedAttr(*fact.bounds),
    C.SameElementsAttr: _same_elements,
}


@lowers(AssumeOp)
def assume(low: Lowering, op: AssumeOp) -> Sequence[SSAValue]:
    """``assume``; a fact about a tensor view becomes one about its memref."""
    predicate = op.properties["predicate"]
    fact = _FACTS[type(predicate)](predicate)
    value = low.value(op.value)
    if fact is None:
        return (value,)
    predicates = {"predicates": ArrayAttr([fact])}
    return low.emit(hints.AssumeOp, (value,), (value.type,), predicates)
