"""Folds of arithmetic: what constants determine, and selects, assumptions and fresh facts."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute, Operation
from xdsl.pattern_rewriter import PatternRewriter

from tilewright.analysis.tileaa.integers import width_of
from tilewright.dialects import arith
from tilewright.dialects.arith.base import numeric_element
from tilewright.dialects.arith.constants import ConstantOp
from tilewright.dialects.declare import enum_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.attributes import BoundedAttr, DivByAttr
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.dialects.nv_tileaa.ops.hints import AssumeOp
from tilewright.dialects.nv_tileaa.ops.shapes import SplatOp
from tilewright.numerics.arrays import Array, bits_of, from_bits
from tilewright.numerics.element_types import FORMATS
from tilewright.numerics.matrix import mmai
from tilewright.numerics.semantics import ELEMENTWISE
from tilewright.passes.base import insert_before, replace_op, replace_value
from tilewright.passes.canonicalize import Rule
from tilewright.passes.tileaa.matching import integer_of, make_splat, splat_source

#: Larger tiles are not computed unless all their elements are equal.
_MAX_ELEMENTS = 1024
#: Operations that give floats and have one right answer in every arithmetic mode.
_EXACT = (arith.SelectOp, arith.SIToFPOp, arith.UIToFPOp, arith.BitcastOp)


def fold_constants(op: arith.ArithOp, rewriter: PatternRewriter) -> None:
    """An operation on constants is its result, if that is made of integers or copied bits.

    Floats are left alone: machines may round them in ways of their own.
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
    """The elements of a constant in a row; one where all are equal."""
    name = numeric_element(constant.result.type)
    dtype = f"u{max(FORMATS[name].storage_bits, 8) // 8}"
    return from_bits(np.array(constant.bits(), dtype=dtype), name)


def _constant(ty: Attribute, result: Array) -> ConstantOp:
    bits = bits_of(np.ascontiguousarray(result), numeric_element(ty))
    return ConstantOp.from_bits(ty, [int(pattern) for pattern in bits])


def select_known(op: arith.SelectOp, rewriter: PatternRewriter) -> None:
    """A select whose condition is known, or whose values are the same, is that value."""
    condition, then, otherwise = op.operands
    known = integer_of(condition)
    if then is otherwise:
        replace_value(rewriter, op, then)
    elif known is not None:
        replace_value(rewriter, op, then if known else otherwise)


def select_of_splats(op: arith.SelectOp, rewriter: PatternRewriter) -> None:
    """One condition between splats selects between their scalars."""
    condition, then, otherwise = op.operands
    single = condition if not T.dims_of(condition.type) else splat_source(condition)
    scalars = [splat_source(then), splat_source(otherwise)]
    if single is None or scalars[0] is None or scalars[1] is None:
        return
    chosen = arith.SelectOp.of(single, scalars[0], scalars[1])
    insert_before(rewriter, op, chosen)
    replace_value(rewriter, op, make_splat(rewriter, op, chosen.results[0], op.results[0].type))


def no_change(op: Any, rewriter: PatternRewriter) -> None:
    """``x + 0``, ``x - 0``, ``x * 1``, ``x | 0``, ``x ^ 0``, ``x << 0`` and the like are ``x``."""
    lhs, rhs = op.operands
    neutral = _NEUTRAL[type(op)]
    if integer_of(rhs) == neutral:
        replace_value(rewriter, op, lhs)
    elif integer_of(lhs) == neutral and isinstance(op, _COMMUTES):
        replace_value(rewriter, op, rhs)


_NEUTRAL: dict[type[Operation], int] = {
    arith.AddiOp: 0,
    arith.SubiOp: 0,
    arith.OrIOp: 0,
    arith.XOrIOp: 0,
    arith.ShLIOp: 0,
    arith.ShRSIOp: 0,
    arith.ShRUIOp: 0,
    arith.MuliOp: 1,
    arith.DivSIOp: 1,
    arith.DivUIOp: 1,
}
_COMMUTES = (arith.AddiOp, arith.OrIOp, arith.XOrIOp, arith.MuliOp)


def cast_to_itself(op: Any, rewriter: PatternRewriter) -> None:
    """A cast to the type of its source is its source."""
    if op.operands[0].type == op.results[0].type:
        replace_value(rewriter, op, op.operands[0])


def assume_of_assume(op: AssumeOp, rewriter: PatternRewriter) -> None:
    """Assumptions about one value are one list, without repetitions and weaker forms."""
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
    """The same facts: one divisor, the largest, one pair of bounds, and the others once."""
    divisors = [p.divisor.data for p in predicates if isinstance(p, DivByAttr) and _is_plain(p)]
    pairs = [p.bounds for p in predicates if isinstance(p, BoundedAttr)]
    low = max((low for low, _ in pairs if low is not None), default=None)
    high = min((high for _, high in pairs if high is not None), default=None)
    contradictory = low is not None and high is not None and low > high
    kept: dict[Attribute, None] = {}
    for predicate in predicates:
        if _is_plain(predicate):
            kept[DivByAttr(max(divisors))] = None
        elif isinstance(predicate, BoundedAttr) and not contradictory:
            kept[BoundedAttr(low, high)] = None
        else:
            kept[predicate] = None
    return tuple(kept)


def _is_plain(predicate: Attribute) -> bool:
    return isinstance(predicate, DivByAttr) and predicate.group == (None, None)


def assume_of_splat(op: AssumeOp, rewriter: PatternRewriter) -> None:
    """What is assumed of each element of a splat is assumed of its scalar."""
    scalar = splat_source(op.value)
    per_element = all(_is_plain(p) or isinstance(p, BoundedAttr) for p in _predicates(op))
    if scalar is None or not per_element:
        return
    made = AssumeOp.create(
        operands=[scalar], result_types=[scalar.type], properties=dict(op.properties)
    )
    insert_before(rewriter, op, made)
    replace_value(rewriter, op, make_splat(rewriter, op, made.result, op.result.type))


def product_with_zero(op: DotOp, rewriter: PatternRewriter) -> None:
    """A product of integers with a tile of zeros adds nothing."""
    if width_of(op.result.type) is not None and 0 in (integer_of(op.a), integer_of(op.b)):
        replace_value(rewriter, op, op.c)


def constant_product(op: DotOp, rewriter: PatternRewriter) -> None:
    """A product of constant integers, added to constants, is a constant; sums wrap in 32 bits."""
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


def splat_of_constant(op: SplatOp, rewriter: PatternRewriter) -> None:
    """A splat of a constant is a constant."""
    source = op.source.owner
    if isinstance(source, ConstantOp):
        replace_op(rewriter, op, ConstantOp.from_bits(op.result.type, source.bits()))


FOLDING_RULES: dict[type[Operation], tuple[Rule, ...]] = {
    **dict.fromkeys(_NEUTRAL, (no_change,)),
    arith.SelectOp: (select_known, select_of_splats),
    arith.IndexCastOp: (cast_to_itself,),
    arith.IndexCastUIOp: (cast_to_itself,),
    AssumeOp: (assume_of_assume, assume_of_splat),
    DotOp: (product_with_zero, constant_product),
    SplatOp: (splat_of_constant,),
}
