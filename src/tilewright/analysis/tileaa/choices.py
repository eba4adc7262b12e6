"""Recognizes reductions that select one of their elements regardless of order, such as argmax.

The body of such a reduction compares an element with the accumulator and yields one of the two, every result from the
same side. What it yields depends only on a few relations (which value is larger, which is NaN), so all cases can be
enumerated. The enumeration is a proof, however the body is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, NamedTuple

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from tilewright.analysis.tileaa.integers import known_integers, width_of
from tilewright.dialects import arith
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import int_list
from tilewright.dialects.nv_tileaa.ops.contraction import ReduceOp, ScanOp
from tilewright.dialects.nv_tileaa.ops.functions import YieldOp
from tilewright.dialects.nv_tileaa.ops.hints import AssumeOp
from tilewright.dialects.nv_tileaa.ops.shapes import (
    BroadcastOp,
    ExpandDimsOp,
    MakeRangeOp,
    ViewOp,
)

KEPT, ELEMENT = 0, 1

Relation = Literal["lt", "eq", "gt", "lt/gt", "gt/lt", "nan/", "/nan", "nan/nan"]
"""How the accumulator compares with the element. For integers: read signed, and after the slash unsigned if that
differs. For floats: which side is NaN."""

_FLOATS: tuple[Relation, ...] = ("lt", "eq", "gt", "nan/", "/nan", "nan/nan")
_INTEGERS: tuple[Relation, ...] = ("lt", "eq", "gt", "lt/gt", "gt/lt")
_DISTINCT: tuple[Relation, ...] = ("lt", "gt", "lt/gt", "gt/lt")
_SWAPPED: dict[Relation, Relation] = {
    "lt": "gt",
    "gt": "lt",
    "eq": "eq",
    "lt/gt": "gt/lt",
    "gt/lt": "lt/gt",
    "nan/": "/nan",
    "/nan": "nan/",
    "nan/nan": "nan/nan",
}
_KEEPING = (AssumeOp, arith.IndexConversion)
_REPEATING = (BroadcastOp, ExpandDimsOp, ViewOp, *_KEEPING)


class Side(NamedTuple):
    """The value of an operand on one side, element or accumulator."""

    operand: int
    side: int


_Found = Side | bool
_Case = tuple[Relation, ...]


class _Unclear(Exception):
    """A body does something other than choose; the message says what."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Whether a reduction selects an element independent of order. ``reason``: why it is not known to."""

    any_order: bool
    reason: str = ""


def choice_of(op: ReduceOp | ScanOp) -> Choice:
    """Determine whether the reduction's result is independent of the order of its elements.

    It is if, for all relations between two elements, the body chooses the same element from either
    side. A tie between floats counts as a relation, since zeros differ in sign: something must break
    it, namely an operand that numbers the elements along the axis. Relations with NaN may depend on
    the side if the body is not associative for them, like comparisons that ignore NaN: the result of
    such a reduction is unspecified by the rules of the operation.
    """
    block = op.regions[0].blocks[0]
    try:
        return _choice(op, block)
    except _Unclear as found:
        return Choice(False, str(found))


def _choice(op: ReduceOp | ScanOp, block: Block) -> Choice:
    types = [operand.type for operand in op.operands]
    floats = [width_of(ty) is None for ty in types]
    if any(isinstance(T.element_of(ty), T.PtrType) for ty in types):
        raise _Unclear("it reduces pointers")
    numbered = [_numbers_axis(operand, op) for operand in op.operands]
    for case in _cases(floats, numbered):
        swapped: _Case = tuple(_SWAPPED[relation] for relation in case)
        chosen, other = _outcome(block, case), _outcome(block, swapped)
        for operand, (here, there) in enumerate(zip(chosen, other, strict=True)):
            identical = case[operand] == "eq" and not floats[operand]
            if here != 1 - there and not identical and not any("nan" in r for r in case):
                raise _Unclear(f"which of two elements it takes depends on their order ({case})")
    return Choice(True)


def _cases(floats: Sequence[bool], numbered: Sequence[bool]) -> Iterator[_Case]:
    """Yield all relations between two different elements."""
    each: list[tuple[Relation, ...]] = [
        _FLOATS if is_float else _DISTINCT if is_number else _INTEGERS
        for is_float, is_number in zip(floats, numbered, strict=True)
    ]
    return product(*each)


def _numbers_axis(value: SSAValue, op: ReduceOp | ScanOp) -> bool:
    """Whether a tile numbers its elements along the reduction's axis, each differently."""
    return _numbered_axis(value) == int_property(op, "axis")


def _numbered_axis(value: SSAValue) -> int | None:
    """Return the axis along which a tile repeats a range of numbers, or None if unknown."""
    owner = value.owner
    if isinstance(owner, MakeRangeOp):
        return 0
    if not isinstance(owner, _REPEATING):
        return None
    source = owner.operands[0]
    axis = _numbered_axis(source)
    if axis is None or isinstance(owner, (*_KEEPING, BroadcastOp)):
        return axis
    if isinstance(owner, ExpandDimsOp):
        axes = int_list(owner.properties["axes"])
        kept = [i for i in range(len(T.dims_of(value.type))) if i not in axes]
        return kept[axis]
    # A view may add and remove axes of extent 1.
    before, after = T.dims_of(source.type), T.dims_of(value.type)
    long_before, long_after = (
        [place for place, extent in enumerate(dims) if extent != 1] for dims in (before, after)
    )
    if [before[i] for i in long_before] != [after[i] for i in long_after]:
        return None
    return long_after[long_before.index(axis)] if axis in long_before else None


def rising_operands(op: ReduceOp | ScanOp) -> frozenset[int]:
    """Return the operands of a reduction whose elements form a range that increases along the axis, both signed
    and unsigned."""
    return frozenset(
        number
        for number, value in enumerate(op.operands)
        if _numbers_axis(value, op) and _rises(value)
    )


def _rises(value: SSAValue) -> bool:
    """Whether no number of a repeated range wraps or is negative."""
    bits: list[int] = []
    while not isinstance(owner := value.owner, MakeRangeOp):
        assert isinstance(owner, _REPEATING)
        bits.append(width_of(value.type) or 0)
        value = owner.operands[0]
    bits.append(width_of(value.type) or 0)
    if not {"start", "end"} <= owner.properties.keys():
        return False
    return int_property(owner, "start") >= 0 and int_property(owner, "end") <= 1 << min(bits) - 1


def holds_for_later(op: arith.CmpiOp, *, later_first: bool) -> bool:
    """Return the outcome of comparing two elements of an increasing operand, the later one on the left or on the
    right."""
    name = op.NAMES[op.predicate.value.data]
    return _holds(name, "gt" if later_first else "lt", is_float=False)


def _outcome(block: Block, case: _Case) -> list[int]:
    """Return which side each result comes from in one case."""
    values: dict[SSAValue, _Found] = {
        argument: Side(number // 2, number % 2) for number, argument in enumerate(block.args)
    }
    found = _run(block, values, case)
    sides: list[int] = []
    for operand, value in enumerate(found):
        if not isinstance(value, Side) or value.operand != operand:
            raise _Unclear("its body yields something other than one of its two elements")
        sides.append(value.side)
    return sides


def _run(block: Block, values: dict[SSAValue, _Found], case: _Case) -> list[_Found]:
    for op in block.ops:
        if isinstance(op, YieldOp | scf.YieldOp):
            return [_value(values, operand) for operand in op.operands]
        if isinstance(op, scf.IfOp):
            region = op.true_region if _truth(values, op.cond) else op.false_region
            if op.results:
                values.update(zip(op.results, _run(region.blocks[0], values, case), strict=True))
            continue
        _step(op, values, case)
    raise _Unclear("its body has no terminator")


def _step(op: Operation, values: dict[SSAValue, _Found], case: _Case) -> None:
    if isinstance(op, arith.ConstantOp):
        known = known_integers(op)
        if known is None or width_of(op.result.type) != 1:
            raise _Unclear("its body contains constants")
        values[op.result] = bool(known[0])
        return
    operands = [_value(values, operand) for operand in op.operands]
    if isinstance(op, arith.SelectOp):
        values[op.result] = operands[1] if _truth(values, op.operands[0]) else operands[2]
    elif isinstance(op, arith.CmpfOp | arith.CmpiOp):
        values[op.results[0]] = _compared(op, operands, case)
    elif op.name in _LOGIC and all(isinstance(operand, bool) for operand in operands):
        first, second = (bool(operand) for operand in operands)
        values[op.results[0]] = _LOGIC[op.name][2 * first + second]
    else:
        raise _Unclear(f"its body computes more than comparisons ('{op.name}')")


_LOGIC: Mapping[str, tuple[bool, bool, bool, bool]] = {
    "arith.andi": (False, False, False, True),
    "arith.ori": (False, True, True, True),
    "arith.xori": (False, True, True, False),
}
"""The results for (false, false), (false, true), (true, false), (true, true)."""


def _value(values: Mapping[SSAValue, _Found], value: SSAValue) -> _Found:
    if value not in values:
        raise _Unclear("its body uses a value from outside")
    return values[value]


def _truth(values: Mapping[SSAValue, _Found], value: SSAValue) -> bool:
    found = _value(values, value)
    if not isinstance(found, bool):
        raise _Unclear("its body selects on an element")
    return found


def _compared(op: arith.CmpfOp | arith.CmpiOp, operands: Sequence[_Found], case: _Case) -> bool:
    first, second = operands
    if not isinstance(first, Side) or not isinstance(second, Side):
        raise _Unclear("its body compares with a constant")
    if first.operand != second.operand:
        raise _Unclear("its body compares elements of two tiles")
    relation = case[first.operand]
    if first.side == second.side:
        parts = relation.partition("/")
        is_nan = "nan" in (parts[0], parts[2])[first.side : first.side + 1]
        relation = "nan/nan" if is_nan else "eq"
    elif first.side == ELEMENT:
        relation = _SWAPPED[relation]
    name = op.NAMES[op.predicate.value.data]
    return _holds(name, relation, is_float=isinstance(op, arith.CmpfOp))


def _holds(name: str, relation: Relation, *, is_float: bool) -> bool:
    """Whether a predicate holds for two values in that relation."""
    if is_float:
        if "nan" in relation:
            return name.startswith("u")
        return relation in _MEANS[name[1:]]
    if name in ("eq", "ne"):
        return (relation == "eq") == (name == "eq")
    signed, _, unsigned = relation.partition("/")
    return (unsigned or signed if name.startswith("u") else signed) in _MEANS[name[1:]]


_MEANS: Mapping[str, tuple[str, ...]] = {
    "eq": ("eq",),
    "ne": ("lt", "gt"),
    "lt": ("lt",),
    "le": ("lt", "eq"),
    "gt": ("gt",),
    "ge": ("gt", "eq"),
}
