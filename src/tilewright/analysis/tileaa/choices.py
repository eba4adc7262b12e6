"""Which reductions choose one of their elements, in any order: the largest with its place, and the like.

The body of such a reduction compares what was accumulated with the element, and yields one of the two, for
every operand from the same side. What it yields depends on a few relations only (which value is
larger, which is NaN), so that all cases can be tried: that is a proof, however the body is spelled.
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
from tilewright.dialects.nv_tileaa.ops.contraction import ReduceOp
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
"""How what is kept compares with the element. Of integers read signed and, behind the slash where that
differs, unsigned; of floats which side is NaN."""

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
_KEEPING = (AssumeOp, arith.IndexCastOp, arith.IndexCastUIOp)
_REPEATING = (BroadcastOp, ExpandDimsOp, ViewOp, *_KEEPING)


class Side(NamedTuple):
    """The value of an operand that one side has."""

    operand: int
    side: int


_Found = Side | bool
_Case = tuple[Relation, ...]


class _Unclear(Exception):
    """A body does something else than choose; why."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Whether a reduction chooses in any order; ``reason``: why it is not known to."""

    any_order: bool
    reason: str = ""


def choice_of(op: ReduceOp) -> Choice:
    """Whether the reduction gives the same whatever the order in which it takes its elements.

    It does if for all relations between two elements the body chooses the same one of them from
    either side. A tie of floats counts as one, although a zero can have two signs, so that something
    must decide it: an operand that numbers the elements along the axis. Relations with NaN may be
    decided by the side where the body is then not associative, as comparisons without regard to NaN
    are: what such a reduction gives is open, by the rules of the operation.
    """
    block = op.regions[0].blocks[0]
    try:
        return _choice(op, block)
    except _Unclear as found:
        return Choice(False, str(found))


def _choice(op: ReduceOp, block: Block) -> Choice:
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
    """All relations of two different elements."""
    each: list[tuple[Relation, ...]] = [
        _FLOATS if is_float else _DISTINCT if is_number else _INTEGERS
        for is_float, is_number in zip(floats, numbered, strict=True)
    ]
    return product(*each)


def _numbers_axis(value: SSAValue, op: ReduceOp) -> bool:
    """Whether a tile holds a different number at each place along the axis of a reduction."""
    return _numbered_axis(value) == int_property(op, "axis")


def _numbered_axis(value: SSAValue) -> int | None:
    """The axis along which a tile repeats a range of numbers; None where it is not known to."""
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
    # A view may add and drop axes of extent 1.
    before, after = T.dims_of(source.type), T.dims_of(value.type)
    long_before, long_after = (
        [place for place, extent in enumerate(dims) if extent != 1] for dims in (before, after)
    )
    if [before[i] for i in long_before] != [after[i] for i in long_after]:
        return None
    return long_after[long_before.index(axis)] if axis in long_before else None


def rising_operands(op: ReduceOp) -> frozenset[int]:
    """The operands of a reduction whose elements are a range of numbers that rises along the axis, read
    signed or unsigned. An element that comes later along it is larger there."""
    return frozenset(
        number
        for number, value in enumerate(op.operands)
        if _numbers_axis(value, op) and _rises(value)
    )


def _rises(value: SSAValue) -> bool:
    """Whether a tile that repeats a range holds its numbers as they are: none wraps, and none is negative."""
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
    """What a comparison gives of two elements of a rising operand, the later one before the other or
    behind it."""
    name = op.NAMES[op.predicate.value.data]
    return _holds(name, "gt" if later_first else "lt", is_float=False)


def _outcome(block: Block, case: _Case) -> list[int]:
    """From which side each result comes, in one case."""
    values: dict[SSAValue, _Found] = {
        argument: Side(number // 2, number % 2) for number, argument in enumerate(block.args)
    }
    found = _run(block, values, case)
    sides: list[int] = []
    for operand, value in enumerate(found):
        if not isinstance(value, Side) or value.operand != operand:
            raise _Unclear("its body yields something else than one of two elements")
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
    raise _Unclear("its body has no end")


def _step(op: Operation, values: dict[SSAValue, _Found], case: _Case) -> None:
    if isinstance(op, arith.ConstantOp):
        known = known_integers(op)
        if known is None or width_of(op.result.type) != 1:
            raise _Unclear("its body holds numbers of its own")
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
"""The results for false and false, false and true, true and false, true and true."""


def _value(values: Mapping[SSAValue, _Found], value: SSAValue) -> _Found:
    if value not in values:
        raise _Unclear("its body uses a value from outside")
    return values[value]


def _truth(values: Mapping[SSAValue, _Found], value: SSAValue) -> bool:
    found = _value(values, value)
    if not isinstance(found, bool):
        raise _Unclear("its body chooses by an element")
    return found


def _compared(op: arith.CmpfOp | arith.CmpiOp, operands: Sequence[_Found], case: _Case) -> bool:
    first, second = operands
    if not isinstance(first, Side) or not isinstance(second, Side):
        raise _Unclear("its body compares with a number of its own")
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
    """Whether a predicate holds for two values of that relation."""
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
