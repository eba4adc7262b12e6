"""Atomic updates: the owner of an element updates it and broadcasts the old value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from xdsl.dialects import arith as A
from xdsl.dialects import builtin as b
from xdsl.ir import Attribute, SSAValue

from tilewright.dialects.declare import enum_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.memory import Atomic, AtomicCasOp
from tilewright.dialects.upstream.llvm import atomics as L
from tilewright.dialects.upstream.llvm.syntax import BIN_OPS, ORDERINGS
from tilewright.lowering.nvgpu.address_ranges import address_range_of
from tilewright.lowering.nvgpu.memory import each_element, ordering, pointers
from tilewright.lowering.nvgpu.state import ThreadLowering
from tilewright.lowering.nvgpu.table import lowers
from tilewright.lowering.nvgpu.types import I1, I64, element_bytes, scalar_of

_KEYWORDS = {
    "add": "add",
    "and": "_and",
    "or": "_or",
    "xor": "_xor",
    "xchg": "xchg",
    "min": "min",
    "max": "max",
    "umin": "umin",
    "umax": "umax",
    "addf": "fadd",
}


_RELAXED = b.IntegerAttr(ORDERINGS["monotonic"], I64)

Update: TypeAlias = Callable[[SSAValue, Sequence[SSAValue]], SSAValue]
"""Builds the update of one element from its address and operands; returns the old element."""


@lowers("atomic_rmw", "tiled_atomic_rmw")
def atomic_rmw(low: ThreadLowering, op: Atomic) -> None:
    """One atomic update per element. Barriers before and after order it with the other accesses of the block."""
    value = low.value(op.moved)
    element = scalar_of(value.type)
    _each(low, op, (value,), element, updating(low, op, element))


def updating(
    low: ThreadLowering, op: Atomic, element: Attribute, *, fenced: bool = False
) -> Update:
    """The update of one element. With ``fenced`` it is relaxed, as fences around it give the order."""
    keyword = _KEYWORDS[enum_property(op, "rmw_mode")]
    properties: dict[str, Attribute] = {
        "bin_op": b.IntegerAttr(BIN_OPS.index(keyword), I64),
        **ordering(op),
    }
    if fenced:
        properties["ordering"] = _RELAXED

    def one(address: SSAValue, values: Sequence[SSAValue]) -> SSAValue:
        where = pointers(low, address)
        return low.one(L.AtomicRMWOp, (where, values[0]), element, properties)

    return one


@lowers("atomic_cas")
def atomic_cas(low: ThreadLowering, op: AtomicCasOp) -> None:
    """One compare-and-exchange per element; where the mask is false the result is the compared value."""
    given = low.values((op.compare, op.replacement))
    element = scalar_of(given[0].type)
    _each(low, op, given, element, exchanging(low, op, element), given[0])


def exchanging(
    low: ThreadLowering, op: AtomicCasOp, element: Attribute, *, fenced: bool = False
) -> Update:
    """The compare-and-exchange of one element. With ``fenced`` it is relaxed, as fences around it give the order.

    Bits are compared, so floats are cast to integers.
    """
    bits = b.IntegerType(8 * element_bytes(element))
    order = ordering(op)
    success = order.pop("ordering")
    if fenced:
        success = _RELAXED
    assert isinstance(success, b.IntegerAttr)
    failure = {
        ORDERINGS["acq_rel"]: ORDERINGS["acquire"],
        ORDERINGS["release"]: ORDERINGS["monotonic"],
    }
    number = success.value.data
    properties: dict[str, Attribute] = {
        "success_ordering": success,
        "failure_ordering": b.IntegerAttr(failure.get(number, number), I64),
        **order,
    }
    is_float = isinstance(element, b.AnyFloat)

    def one(address: SSAValue, values: Sequence[SSAValue]) -> SSAValue:
        operands = list(values)
        if is_float:
            operands = [low.one(A.BitcastOp, (value,), bits) for value in operands]
        where = pointers(low, address)
        found = low.one(
            L.AtomicCmpXchgOp, (where, *operands), L.exchange_type(operands[0].type), properties
        )
        position = {"position": b.DenseArrayBase.from_list(I64, [0])}
        old = low.one(L.ExtractValueOp, (found,), operands[0].type, position)
        return low.one(A.BitcastOp, (old,), element) if is_float else old

    return one


def refuse_i1(low: ThreadLowering, element: Attribute) -> None:
    """Raises ``TileIRError`` (``not-lowered-to-threads``) for i1: an element of one bit has no address."""
    if element == I1:
        raise low.refuse("i1 has no atomic updates")


def _each(
    low: ThreadLowering,
    op: Atomic,
    values: Sequence[SSAValue],
    element: Attribute,
    one: Update,
    unchanged: SSAValue | None = None,
) -> None:
    """Update every element, with barriers before and after that order the update with the block's other accesses."""
    refuse_i1(low, element)
    result, *tokens = op.results
    low.sync.expect_all()
    low.before_write()
    place = address_range_of(low, op)
    wanted = element if result.first_use is not None else None
    found = each_element(low, op.moved, place, values, wanted, one, unchanged)
    low.sync.expect_all()
    low.barrier()
    for token in tokens:
        low.bind(token, None)
    if found is not None:
        low.bind(result, found if T.dims_of(result.type) else low.first(found))
