"""Canonical forms of ``select``: one law for each function."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from tilewright.dialects.cuda_tile.base import enum_property
from tilewright.dialects.cuda_tile.constants import TileConstantAttr, element_bytes
from tilewright.dialects.cuda_tile.enums import Signedness, SignednessAttr
from tilewright.dialects.cuda_tile.ops.conversions import ExtIOp
from tilewright.dialects.cuda_tile.ops.core import ConstantOp, SelectOp
from tilewright.dialects.cuda_tile.ops.integer import CmpIOp
from tilewright.dialects.cuda_tile.types import INTEGER_NAMES, TileType
from tilewright.passes.base import insert_before, replace_op, replace_value, set_operand
from tilewright.passes.matching import (
    constant_bool,
    constant_of,
    make_negation,
    negated,
    splat_of,
)

_COND, _TRUE, _FALSE = range(3)


def equal_arms(op: SelectOp, rewriter: PatternRewriter) -> None:
    """``select(c, a, a) = a``"""
    if op.val_if_true is op.val_if_false:
        replace_value(rewriter, op, op.val_if_true)


def constant_condition(op: SelectOp, rewriter: PatternRewriter) -> None:
    """``select(true, a, b) = a`` and ``select(false, a, b) = b``, for a condition of equal elements."""
    condition = constant_bool(op.cond)
    if condition is not None:
        replace_value(rewriter, op, op.val_if_true if condition else op.val_if_false)


def condition_itself(op: SelectOp, rewriter: PatternRewriter) -> None:
    """``select(c, true, false) = c``"""
    if constant_bool(op.val_if_true) is True and constant_bool(op.val_if_false) is False:
        replace_value(rewriter, op, op.cond)


def arms_compared(op: SelectOp, rewriter: PatternRewriter) -> None:
    """``select(a == b, a, b) = b`` and ``select(a != b, a, b) = a``; the comparison may name
    the arms in either order."""
    comparison = op.cond.owner
    if not isinstance(comparison, CmpIOp):
        return
    arms = (op.val_if_true, op.val_if_false)
    if (comparison.lhs, comparison.rhs) not in (arms, arms[::-1]):
        return
    predicate = enum_property(comparison, "comparison_predicate")
    if predicate in ("equal", "not_equal"):
        replace_value(rewriter, op, arms[predicate == "equal"])


def negated_condition(op: SelectOp, rewriter: PatternRewriter) -> None:
    """``select(xori(c, true), a, b) = select(c, b, a)``"""
    condition = negated(op.cond)
    if condition is None:
        return
    negation = op.cond.owner
    op.operands = (condition, op.val_if_false, op.val_if_true)
    rewriter.notify_op_modified(op)
    rewriter.notify_op_modified(negation)  # pyright: ignore[reportArgumentType]


def nested_on_same_condition(op: SelectOp, rewriter: PatternRewriter) -> None:
    """``select(c, select(c, a, b), d) = select(c, a, d)``, and likewise for the other arm."""
    for arm, chosen in ((_TRUE, _TRUE), (_FALSE, _FALSE)):
        inner = op.operands[arm].owner
        if isinstance(inner, SelectOp) and inner.cond is op.cond:
            set_operand(rewriter, op, arm, inner.operands[chosen])


def negation(op: SelectOp, rewriter: PatternRewriter) -> None:
    """``select(c, false, true) = xori(c, true)``"""
    if constant_bool(op.val_if_true) is False and constant_bool(op.val_if_false) is True:
        true, xor = make_negation(op.cond)
        insert_before(rewriter, op, true)
        replace_op(rewriter, op, xor)


def constant_elements(op: SelectOp, rewriter: PatternRewriter) -> None:
    """A mixed constant condition with constant arms is a constant, element by element."""
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
    """The bytes of each element of a constant, row by row: one row for a splat."""
    size = element_bytes(constant.format)
    return np.frombuffer(constant.data.data, np.uint8).reshape(-1, size)


def one_or_zero(op: SelectOp, rewriter: PatternRewriter) -> None:
    """``select(c, 1, 0) = exti(c) unsigned``, for integers wider than the condition."""
    if _is_wide_integer(op.result) and _arms(op) == (1, 0):
        replace_op(rewriter, op, _extended(op.cond, op.result.type))


def zero_or_one(op: SelectOp, rewriter: PatternRewriter) -> None:
    """``select(c, 0, 1) = exti(xori(c, true)) unsigned``, for integers wider than the condition."""
    if _is_wide_integer(op.result) and _arms(op) == (0, 1):
        true, xor = make_negation(op.cond)
        insert_before(rewriter, op, true, xor)
        replace_op(rewriter, op, _extended(xor.result, op.result.type))


def _arms(op: SelectOp) -> tuple[float | None, float | None]:
    return splat_of(op.val_if_true), splat_of(op.val_if_false)


def _is_wide_integer(value: SSAValue) -> bool:
    ty = value.type
    return isinstance(ty, TileType) and ty.element in INTEGER_NAMES and ty.element != "i1"


def _extended(condition: SSAValue, ty: object) -> ExtIOp:
    assert isinstance(ty, TileType)
    return ExtIOp.create(
        operands=[condition],
        result_types=[ty],
        properties={"signedness": SignednessAttr(Signedness.UNSIGNED)},
    )


#: In the order in which they are tried.
SELECT_RULES = (
    equal_arms,
    constant_condition,
    condition_itself,
    arms_compared,
    negated_condition,
    nested_on_same_condition,
    negation,
    constant_elements,
    one_or_zero,
    zero_or_one,
)
