"""Folding rules for arithmetic: constants, selects, assumptions, and facts known from the analyses."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute
from xdsl.pattern_rewriter import PatternRewriter

from tilewright.analysis.tileaa.integers import width_of
from tilewright.dialects import arith, facts
from tilewright.dialects.arith.base import numeric_element
from tilewright.dialects.arith.constants import ConstantOp
from tilewright.dialects.declare import enum_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.attributes import BoundedAttr, DivByAttr
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.dialects.nv_tileaa.ops.hints import AssumeOp
from tilewright.numerics.arrays import Array, bits_of, from_bits
from tilewright.numerics.element_types import FORMATS
from tilewright.numerics.matrix import mmai
from tilewright.numerics.semantics import ELEMENTWISE
from tilewright.passes.base import replace_op, replace_value
from tilewright.passes.laws import Rules
from tilewright.passes.tileaa.matching import WORDS, integer_of, is_plain_divisor

FOLDING_RULES = Rules(WORDS)
law = FOLDING_RULES.law

law("select_known", "select(_, a, a) -> a", "select(1, a, b) -> a", "select(0, a, b) -> b")
law(
    "select_of_splats",
    "select(c, splat(a), splat(b)) -> splat(select(c, a, b)) if is_scalar(c)",
    "select(splat(c), splat(a), splat(b)) -> splat(select(c, a, b))",
)
law("splat_of_constant", "splat(k := constant()) -> constant(k)")
law("assume_of_splat", "assume(splat(x)) -> splat(assume(x)) if is_per_element(op)")
law("product_with_zero", "dot(0, _, c, ...) -> c", "dot(_, 0, c, ...) -> c")

#: Larger tiles are folded only if all their elements are equal.
_MAX_ELEMENTS = 1024
#: Float-valued operations with one correct result in every arithmetic mode.
_EXACT = (arith.SelectOp, arith.SIToFPOp, arith.UIToFPOp, arith.BitcastOp)


def fold_constants(op: arith.ArithOp, rewriter: PatternRewriter) -> None:
    """Fold an operation on constants if the result holds integers or copied bits.

    Floats are not folded: machines may round them differently.
    """
    ty = op.results[0].type
    if width_of(ty) is None and not isinstance(op, _EXACT):
        return
    constants = [operand.owner for operand in op.operands]
    if not all(isinstance(constant, ConstantOp) for constant in constants):
        return
    call = op.meaning()
    arrays = [_array(constant) for constant in constants if isinstance(constant, ConstantOp)]
    if any(array.size > _MAX_ELEMENTS for array in arrays):
        return
    operands = np.broadcast_arrays(*arrays)
    result = ELEMENTWISE[call.name](*operands, element=call.element, **call.keywords)
    replace_op(rewriter, op, _constant(ty, result))


def _array(constant: ConstantOp) -> Array:
    """Return the elements of a constant as a row; one element if all are equal."""
    name = numeric_element(constant.result.type)
    dtype = f"u{max(FORMATS[name].storage_bits, 8) // 8}"
    return from_bits(np.array(constant.bits(), dtype=dtype), name)


def _constant(ty: Attribute, result: Array) -> ConstantOp:
    bits = bits_of(np.ascontiguousarray(result), numeric_element(ty))
    return ConstantOp.from_bits(ty, [int(pattern) for pattern in bits])


#: Operations with a neutral constant operand.
_MAY_CHANGE_NOTHING = (
    *(arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.DivSIOp, arith.DivUIOp),
    *(arith.OrIOp, arith.XOrIOp, arith.ShLIOp, arith.ShRSIOp, arith.ShRUIOp),
)


@FOLDING_RULES.on(*_MAY_CHANGE_NOTHING)
def no_change(op: Any, rewriter: PatternRewriter) -> None:
    """``x + 0``, ``x - 0``, ``x * 1``, ``x | 0``, ``x ^ 0``, ``x << 0`` and the like are ``x``."""
    lhs, rhs = op.operands
    bits = FORMATS[numeric_element(rhs.type)].bits
    right, either = facts.right_neutral(op, bits), facts.neutral(op, bits)
    if right is not None and integer_of(rhs) == right:
        replace_value(rewriter, op, lhs)
    elif either is not None and integer_of(lhs) == either:
        replace_value(rewriter, op, rhs)


@FOLDING_RULES.on(AssumeOp)
def assume_of_assume(op: AssumeOp, rewriter: PatternRewriter) -> None:
    """Merge assumptions about one value into one list, without repetitions and weaker forms."""
    inner = op.value.owner
    own = _predicates(op)
    before = _predicates(inner) if isinstance(inner, AssumeOp) else ()
    merged = _strongest((*before, *own))
    if not before and merged == own:
        return
    source = inner.value if isinstance(inner, AssumeOp) else op.value
    made = AssumeOp.create(
        operands=[source],
        result_types=[op.result.type],
        properties={"predicates": ArrayAttr(merged)},
    )
    replace_op(rewriter, op, made)


def _predicates(op: AssumeOp) -> tuple[Attribute, ...]:
    assert isinstance(op.predicates, ArrayAttr)
    return op.predicates.data


def _strongest(predicates: tuple[Attribute, ...]) -> tuple[Attribute, ...]:
    """Return equivalent predicates: one divisor, the largest; one pair of bounds; the rest once."""
    divisors = [
        p.divisor.data for p in predicates if isinstance(p, DivByAttr) and is_plain_divisor(p)
    ]
    pairs = [p.bounds for p in predicates if isinstance(p, BoundedAttr)]
    low = max((low for low, _ in pairs if low is not None), default=None)
    high = min((high for _, high in pairs if high is not None), default=None)
    contradictory = low is not None and high is not None and low > high
    kept: dict[Attribute, None] = {}
    for predicate in predicates:
        if is_plain_divisor(predicate):
            kept[DivByAttr(max(divisors))] = None
        elif isinstance(predicate, BoundedAttr) and not contradictory:
            kept[BoundedAttr(low, high)] = None
        else:
            kept[predicate] = None
    return tuple(kept)


@FOLDING_RULES.on(DotOp)
def constant_product(op: DotOp, rewriter: PatternRewriter) -> None:
    """Fold a product of constant integers added to constants; sums wrap in 32 bits."""
    makers = [value.owner for value in (op.a, op.b, op.c)]
    shapes = [T.dims_of(value.type) for value in (op.a, op.b, op.c)]
    if width_of(op.result.type) is None or any(prod(dims) > _MAX_ELEMENTS for dims in shapes):
        return
    constants = [maker for maker in makers if isinstance(maker, ConstantOp)]
    if len(constants) < len(makers):
        return
    a, b, c = (
        np.resize(_array(constant), dims) for constant, dims in zip(constants, shapes, strict=True)
    )
    element = numeric_element(op.a.type)
    signs = enum_property(op, "signedness_a"), enum_property(op, "signedness_b")
    result = mmai(a, b, c, element, signedness_lhs=signs[0], signedness_rhs=signs[1])
    replace_op(rewriter, op, _constant(op.result.type, result.ravel()))
