"""``narrow-comparisons``: compares integers before they are extended, not after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Attribute, Operation
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.dialects.arith import CmpiOp, Extension, ExtSIOp, ExtUIOp
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.numerics.element_types import FORMATS
from tilewright.passes.base import inherit_location
from tilewright.passes.tileaa.base import TileAAPass
from tilewright.passes.tileaa.matching import REPEATING, erase_with_sources, integer_of
from tilewright.passes.tileaa.narrowing import Narrowing, behind, extended

#: The signed predicates. Values extended with zeros keep only their unsigned order and equality.
_SIGNED = ("slt", "sle", "sgt", "sge")


@dataclass(frozen=True)
class NarrowComparisons(TileAAPass):
    """Compares extended integers in their narrower source type.

    Rewrites ``cmpi(p, exti(x), exti(y))`` to ``cmpi(p, x, y)`` if both extensions are of one kind
    and source type. Looks through splats, broadcasts and reshapes, and accepts a constant of the
    narrower type on one side. The typical case is the bounds check of a gather, which compares
    32-bit indices in 64 bits.

    Proof. Sign extension preserves both signed and unsigned order: nonnegative numbers stay below
    2**(n-1), and negative ones move to the end of the wider range in the same order. Zero extension
    preserves unsigned order and equality. Cost: one walk.
    """

    name: ClassVar[str] = "narrow-comparisons"

    def rewrite_function(self, function: FuncOp) -> None:
        narrow_comparisons(function)


def wide_comparisons(function: FuncOp) -> list[Operation]:
    """Return the comparisons of a function that can be narrowed."""
    return [op for op in function.walk() if isinstance(op, CmpiOp) and _source(op) is not None]


def narrow_comparisons(function: FuncOp) -> None:
    """Rewrite the comparisons that ``wide_comparisons`` names in place, and erase operations that become unused."""
    narrowing = Narrowing()
    for op in wide_comparisons(function):
        assert isinstance(op, CmpiOp)
        source = _source(op)
        assert source is not None
        sides = [narrowing.narrowed(value, source) for value in (op.lhs, op.rhs)]
        made = CmpiOp.of(*sides, predicate=op.predicate)
        inherit_location(made, op)
        Rewriter.insert_op(made, InsertPoint.before(op))
        op.result.replace_all_uses_with(made.result)
        made.result.name_hint = op.result.name_hint
        erase_with_sources(op, lambda each: isinstance(each, (*REPEATING, Extension)))


def _source(op: CmpiOp) -> Attribute | None:
    """Return the narrower element type, or None if the comparison cannot be narrowed."""
    if not T.dims_of(op.lhs.type):
        return None
    ends = [behind(value) for value in (op.lhs, op.rhs)]
    wide = [end for end in ends if isinstance(end.owner, Extension)]
    if not wide:
        return None
    kinds = {(type(end.owner), T.element_of(extended(end).type)) for end in wide}
    if len(kinds) != 1:
        return None
    ((kind, element),) = kinds
    if kind is ExtUIOp and op.NAMES[op.predicate.value.data] in _SIGNED:
        return None
    if len(wide) == 1:
        other = next(end for end in ends if end is not wide[0])
        number, bits = integer_of(other), FORMATS[T.element_name(element)].bits
        low, high = (-(1 << bits - 1), 1 << bits - 1) if kind is ExtSIOp else (0, 1 << bits)
        if number is None or not low <= number < high:
            return None
    return None if T.element_name(element) == "i1" else element
