"""``halve-products``: computes halves of products of twice the width in the type of their factors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.dialects import arith
from tilewright.dialects.arith.base import numeric_element
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.arithmetic import MulhiUIOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.numerics.element_types import FORMATS
from tilewright.passes.base import inherit_location
from tilewright.passes.tileaa.base import TileAAPass
from tilewright.passes.tileaa.matching import REPEATING, erase_with_sources, integer_of
from tilewright.passes.tileaa.narrowing import Narrowing, behind, extended

_WIDTHS = (16, 32)


@dataclass(frozen=True)
class HalveProducts(TileAAPass):
    """Computes halves of double-width products of tiles without extending their factors.

    Generators of random numbers (Philox), hashes and divisions by a product with the inverse multiply numbers of 32 bits in 64,
    and take both halves. With ``x`` and ``y`` of ``n`` bits, 16 or 32:

    - ``trunci(muli(exti(x), exti(y)))`` becomes ``muli(x, y)``;
    - ``trunci(shrui(muli(extui(x), extui(y)), s))``, ``n <= s < 2 n``, becomes ``shrui(mulhiui(x, y), s - n)``.

    A factor may also be a constant (in the second, one of ``n`` bits that is not negative), and repeated or reshaped. A vector holds
    twice as many numbers then.

    Proof. The low ``n`` bits of a product are those of the product of the low ``n`` bits. The product of two numbers below
    ``2**n`` is below ``2**2n``, and its upper ``n`` bits are ``mulhiui``'s; shifted by ``s``, ``2 n - s`` bits are left, all of them
    from there. Cost: one walk.
    """

    name: ClassVar[str] = "halve-products"

    def rewrite_function(self, function: FuncOp) -> None:
        halve_products(function)


def halves(function: FuncOp) -> list[Operation]:
    """Return the operations of a function that give a half of a product."""
    return [op for op in function.walk() if _half(op) is not None]


def halve_products(function: FuncOp) -> None:
    """Rewrite the operations that ``halves`` names in place, and erase operations that become unused."""
    narrowing = Narrowing()
    for op in halves(function):
        found = _half(op)
        assert found is not None
        found.rewrite(op, narrowing)
        erase_with_sources(op, lambda each: isinstance(each, _ERASED))


_ERASED = (*REPEATING, arith.Extension, arith.MuliOp, arith.ShRUIOp, arith.ConstantOp)


@dataclass(frozen=True, slots=True)
class _Half:
    """A half of a product: ``shift``, by how much its upper half is shifted; None for the lower one."""

    factors: tuple[SSAValue, SSAValue]
    element: Attribute
    shift: int | None

    def rewrite(self, op: Operation, narrowing: Narrowing) -> None:
        """Put what is computed from the factors in the place of an operation."""
        sides = [narrowing.narrowed(value, self.element) for value in self.factors]
        kind = arith.MuliOp if self.shift is None else MulhiUIOp
        made = _insert(kind.create(operands=sides, result_types=[op.results[0].type]), op)
        if self.shift:
            by = _insert(arith.ConstantOp.from_value(made.type, self.shift), op)
            made = _insert(arith.ShRUIOp.of(made, by), op)
        made.name_hint = op.results[0].name_hint
        op.results[0].replace_all_uses_with(made)


def _insert(made: Operation, before: Operation) -> SSAValue:
    inherit_location(made, before)
    Rewriter.insert_op(made, InsertPoint.before(before))
    return made.results[0]


def _half(op: Operation) -> _Half | None:
    """Return of what product an operation gives a half, and which; None if it does not."""
    if not isinstance(op, arith.TruncIOp) or not T.dims_of(op.results[0].type):
        return None
    element = T.element_of(op.results[0].type)
    bits = FORMATS[numeric_element(op.results[0].type)].bits
    wide = op.operands[0]
    if bits not in _WIDTHS or FORMATS[numeric_element(wide.type)].bits != 2 * bits:
        return None
    shift: int | None = None
    product = wide.owner
    if isinstance(product, arith.ShRUIOp):
        number = integer_of(product.operands[1])
        if number is None or not bits <= number < 2 * bits:
            return None
        shift, product = number - bits, product.operands[0].owner
    if not isinstance(product, arith.MuliOp):
        return None
    left, right = product.operands
    known = all(_fits(value, bits, unsigned=shift is not None) for value in (left, right))
    return _Half((left, right), element, shift) if known else None


def _fits(value: SSAValue, bits: int, *, unsigned: bool) -> bool:
    """Whether numbers are extended from so many bits, or one number; ``unsigned``: with zeros, or one that has no more bits."""
    end = behind(value)
    if isinstance(end.owner, arith.Extension):
        kinds = arith.ExtUIOp if unsigned else arith.Extension
        narrow = FORMATS[numeric_element(extended(end).type)].bits
        return narrow == bits and isinstance(end.owner, kinds)
    number = integer_of(end)
    return number is not None and (not unsigned or 0 <= number < 1 << bits)
