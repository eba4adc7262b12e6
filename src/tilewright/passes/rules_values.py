"""Canonical forms of assumptions, sums and selects."""

from __future__ import annotations

import numpy as np
from xdsl.pattern_rewriter import PatternRewriter

from tilewright.dialects.cuda_tile.constants import TileConstantAttr, element_bytes
from tilewright.dialects.cuda_tile.ops.core import ConstantOp, SelectOp
from tilewright.passes.base import replace_op
from tilewright.passes.laws import Rules
from tilewright.passes.matching import WORDS, constant_of

VALUE_RULES = Rules(WORDS)
law = VALUE_RULES.law

law("repeated_assumption", "assume(y := assume(_)) -> y if alike(op, y.owner)")

# With two NaN operands the result may be either NaN, in both forms.
product_to_the_left = law(
    "product_to_the_left", "addf(a, b := mulf(_, _)) -> addf(b, a) if not is_product(a)"
)

law("equal_arms", "select(c, a, a) -> a")
law("constant_condition", "select(true, a, b) -> a", "select(false, a, b) -> b")
law("condition_itself", "select(c, true, false) -> c")
law(
    "arms_compared",
    "select(e := cmpi(a, b), a, b) -> b if predicate(e) == 'equal'",
    "select(e := cmpi(b, a), a, b) -> b if predicate(e) == 'equal'",
    "select(e := cmpi(a, b), a, b) -> a if predicate(e) == 'not_equal'",
    "select(e := cmpi(b, a), a, b) -> a if predicate(e) == 'not_equal'",
)
law("negated_condition", "select(xori(c, true), a, b) -> select(c, b, a)")
law(
    "nested_on_same_condition",
    "select(c, select(c, a, b), d) -> select(c, a, d)",
    "select(c, d, select(c, a, b)) -> select(c, d, b)",
)
law("negation", "select(c, false, true) -> xori(c, true)")
law("one_or_zero", "select(c, 1, 0) -> exti(c)")
law("zero_or_one", "select(c, 0, 1) -> exti(xori(c, true))")


@VALUE_RULES.on(SelectOp)
def constant_elements(op: SelectOp, rewriter: PatternRewriter) -> None:
    """Fold a select of constant arms by a constant condition that is not a splat."""
    parts = [constant_of(value) for value in op.operands]
    condition, on_true, on_false = parts
    if condition is None or condition.is_splat or on_true is None or on_false is None:
        return
    mask = _elements(condition).astype(bool)
    data = np.where(mask, _elements(on_true), _elements(on_false)).tobytes()
    value = TileConstantAttr(on_true.type, data)
    new = ConstantOp.create(properties={"value": value}, result_types=[on_true.type])
    replace_op(rewriter, op, new)


def _elements(constant: TileConstantAttr) -> np.ndarray:
    """Return the bytes of each element of a constant, one row per element; one row for a splat."""
    size = element_bytes(constant.format)
    return np.frombuffer(constant.data.data, np.uint8).reshape(-1, size)
