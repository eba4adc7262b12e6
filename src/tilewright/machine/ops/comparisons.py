"""Shows the operands of a comparison whose assertion failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from xdsl.ir import SSAValue

from tilewright.dialects.cuda_tile.enums import ComparisonPredicate
from tilewright.dialects.cuda_tile.ops.floating_point import CmpFOp
from tilewright.dialects.cuda_tile.ops.integer import CmpIOp
from tilewright.dialects.declare import enum_property
from tilewright.machine.compile import Translator, tile_type
from tilewright.machine.values import Registers
from tilewright.numerics.arrays import Array

Shown = Callable[["Registers", tuple[int, ...]], str]
"""Formats the comparison of one element."""

_SYMBOLS: Mapping[str, str] = {
    ComparisonPredicate.EQUAL: "==",
    ComparisonPredicate.NOT_EQUAL: "!=",
    ComparisonPredicate.LESS_THAN: "<",
    ComparisonPredicate.LESS_THAN_OR_EQUAL: "<=",
    ComparisonPredicate.GREATER_THAN: ">",
    ComparisonPredicate.GREATER_THAN_OR_EQUAL: ">=",
}


def comparison_of(condition: SSAValue, t: Translator) -> Shown | None:
    """Return a formatter of a false condition's operands, or None if it is not a comparison."""
    comparison = condition.owner
    if not isinstance(comparison, CmpIOp | CmpFOp):
        return None
    left, right = t.slot(comparison.lhs), t.slot(comparison.rhs)

    def shown(regs: Registers, index: tuple[int, ...]) -> str:
        return _shown(comparison, regs[left][index], regs[right][index])

    return shown


def _shown(comparison: CmpIOp | CmpFOp, left: Array, right: Array) -> str:
    from tilewright.machine.inspect.stops import format_elements

    sides = [np.asarray(left), np.asarray(right)]
    if isinstance(comparison, CmpIOp) and enum_property(comparison, "signedness") == "unsigned":
        sides = [s.view(f"u{s.itemsize}") if s.dtype.kind == "i" else s for s in sides]
    one, two = (format_elements(side, tile_type(comparison.lhs).element) for side in sides)
    symbol = _SYMBOLS[enum_property(comparison, "comparison_predicate")]
    return f"{one} {symbol} {two} does not hold"
