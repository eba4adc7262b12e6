"""Integer ranges: the minimum and maximum of any element of a value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from tilewright.analysis.tileaa.flow import ForwardAnalysis, rule_of
from tilewright.analysis.tileaa.geometry import memref_axes, view_axes
from tilewright.analysis.tileaa.integers import known_integers, width_of
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.attributes import BoundedAttr
from tilewright.dialects.nv_tileaa.ops.extensions import InsertSliceOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.hints import AssumeOp
from tilewright.dialects.nv_tileaa.ops.queues import (
    GetNumProgramsOp,
    GetProgramIdOp,
    IsValidProgramIdOp,
)
from tilewright.dialects.nv_tileaa.ops.shapes import (
    BroadcastOp,
    CatOp,
    ExpandDimsOp,
    ExtractOp,
    ExtractSliceOp,
    GetDimSizeOp,
    MakeRangeOp,
    PermuteOp,
    SplatOp,
    ViewOp,
)

#: The maximum extent of any grid axis.
MAX_GRID = 2**24 - 1


@dataclass(frozen=True, slots=True)
class Range:
    """All integers from ``low`` to ``high`` inclusive, read signed; i1 is read as 0 and 1."""

    low: int
    high: int

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"[{self.low}, {self.high}]"

    @property
    def constant(self) -> int | None:
        """The only value if the range has one, else None."""
        return self.low if self.low == self.high else None

    def holds(self, value: int) -> bool:
        """Whether a value is in the range, ends included."""
        return self.low <= value <= self.high

    def within(self, other: Range) -> bool:
        """Whether the range is contained in another."""
        return other.low <= self.low and self.high <= other.high

    def hull(self, other: Range) -> Range:
        """Return the smallest range that contains both."""
        return Range(min(self.low, other.low), max(self.high, other.high))

    def cut(self, other: Range) -> Range:
        """Return the intersection; ``self`` if it is empty, since the code is then unreachable."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Range(low, high) if low <= high else self


def all_of(width: int) -> Range:
    """Return the range of a signed integer of that width; 0 and 1 for i1."""
    return Range(0, 1) if width == 1 else Range(-(2 ** (width - 1)), 2 ** (width - 1) - 1)


_NOTHING = Range(0, 0)  # for non-integer values; never queried


class Ranges(ForwardAnalysis[Range]):
    """``of(value)``: bounds on all integers of a scalar or tile.

    ``grid``: the extents of the grid, if known.
    """

    def __init__(self, function: FuncOp, grid: Sequence[int] | None = None):
        self._grid = None if grid is None else (*grid, 1, 1)[:3]
        super().__init__(function)

    def unknown(self, value: SSAValue) -> Range:
        width = width_of(value.type)
        return _NOTHING if width is None else all_of(width)

    def join(self, one: Range, other: Range) -> Range:
        return one.hull(other)

    def widen(self, value: SSAValue, old: Range, new: Range) -> Range:
        """Drop a bound that still moves, and keep one that does not."""
        full = self.unknown(value)
        return Range(
            old.low if new.low == old.low else full.low,
            old.high if new.high == old.high else full.high,
        )

    def induction(self, loop: scf.ForOp) -> Range:
        full = self.unknown(loop.body.block.args[0])
        low, high = self.of(loop.lb), self.of(loop.ub)
        if "unsignedCmp" in loop.attributes and (low.low < 0 or high.low < 0):
            return full
        return Range(low.low, max(low.low, high.high - 1))

    def transfer(self, op: Operation) -> Sequence[Range] | None:
        rule = _RULES.get(op.name)
        if rule is None:
            return None
        found = rule(self, op)
        return None if found is None else (found,)

    def extent(self, axis: int) -> Range:
        """Return the number of blocks along a grid axis: exactly, if the grid is known, else 1 to ``MAX_GRID``."""
        if self._grid is not None:
            return Range(self._grid[axis], self._grid[axis])
        return Range(1, MAX_GRID)


Rule = Callable[[Ranges, Operation], Range | None]
_RULES: dict[str, Rule] = {}
_rule = rule_of(_RULES)


def _fits(op: Operation, exact: Range, wraps: bool = True) -> Range | None:
    """Return the range of a result whose exact range, before truncation to its type, is ``exact``.

    A result that does not fit wraps around, unless that is undefined behaviour.
    """
    width = width_of(op.results[0].type)
    assert width is not None
    full = all_of(width)
    if exact.within(full):
        return exact
    return None if wraps else exact.cut(full)


def _overflow_is_undefined(op: Operation) -> bool:
    flags = op.properties.get("overflowFlags")
    return flags is not None and "nsw" in str(flags)


def _operands(facts: Ranges, op: Operation) -> tuple[Range, Range]:
    return facts.of(op.operands[0]), facts.of(op.operands[1])


@_rule("arith.constant")
def _constant(facts: Ranges, op: Operation) -> Range | None:
    values = known_integers(op)
    if not values:
        return None
    return Range(min(values), max(values))


@_rule("arith.addi")
def _add(facts: Ranges, op: Operation) -> Range | None:
    a, b = _operands(facts, op)
    if width_of(op.results[0].type) == 1:
        return None
    return _fits(op, Range(a.low + b.low, a.high + b.high), not _overflow_is_undefined(op))


@_rule("arith.subi")
def _sub(facts: Ranges, op: Operation) -> Range | None:
    a, b = _operands(facts, op)
    if width_of(op.results[0].type) == 1:
        return None
    return _fits(op, Range(a.low - b.high, a.high - b.low), not _overflow_is_undefined(op))


@_rule("arith.muli")
def _mul(facts: Ranges, op: Operation) -> Range | None:
    a, b = _operands(facts, op)
    corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return _fits(op, Range(min(corners), max(corners)), not _overflow_is_undefined(op))


@_rule("arith.divsi", "arith.divui", "arith.floordivsi", "arith.ceildivsi", "arith.ceildivui")
def _divide(facts: Ranges, op: Operation) -> Range | None:
    a, b = _operands(facts, op)
    if a.low < 0 or b.low < 0:
        return None
    up = "ceil" in op.name
    least, most = max(b.low, 1), max(b.high, 1)

    def quotient(x: int, y: int) -> int:
        return -(-x // y) if up else x // y

    return Range(quotient(a.low, most), quotient(a.high, least))


@_rule("arith.remsi", "arith.remui")
def _remainder(facts: Ranges, op: Operation) -> Range | None:
    a, b = _operands(facts, op)
    if b.low <= 0 or (op.name == "arith.remui" and a.low < 0):
        return None
    largest = b.high - 1
    return Range(
        max(a.low, -largest) if a.low < 0 else 0, min(a.high, largest) if a.high > 0 else 0
    )


@_rule("arith.maxsi")
def _max(facts: Ranges, op: Operation) -> Range | None:
    a, b = _operands(facts, op)
    return Range(max(a.low, b.low), max(a.high, b.high))


@_rule("arith.minsi")
def _min(facts: Ranges, op: Operation) -> Range | None:
    a, b = _operands(facts, op)
    return Range(min(a.low, b.low), min(a.high, b.high))


@_rule("arith.maxui")
def _max_unsigned(facts: Ranges, op: Operation) -> Range | None:
    return _max(facts, op) if all(r.low >= 0 for r in _operands(facts, op)) else None


@_rule("arith.minui")
def _min_unsigned(facts: Ranges, op: Operation) -> Range | None:
    a, b = _operands(facts, op)
    bounds = [r for r in (a, b) if r.low >= 0]
    if len(bounds) == 2:
        return _min(facts, op)
    return Range(0, bounds[0].high) if bounds else None


@_rule("arith.andi")
def _and(facts: Ranges, op: Operation) -> Range | None:
    bounds = [r.high for r in _operands(facts, op) if r.low >= 0]
    return Range(0, min(bounds)) if bounds else None


@_rule("arith.ori", "arith.xori")
def _or(facts: Ranges, op: Operation) -> Range | None:
    a, b = _operands(facts, op)
    if a.low < 0 or b.low < 0:
        return None
    return Range(0, 2 ** max(a.high, b.high).bit_length() - 1)


@_rule("arith.shli")
def _shift_left(facts: Ranges, op: Operation) -> Range | None:
    a, b = _operands(facts, op)
    width = width_of(op.results[0].type)
    assert width is not None
    if b.low < 0 or b.high >= width:
        return None
    corners = [x << y for x in (a.low, a.high) for y in (b.low, b.high)]
    return _fits(op, Range(min(corners), max(corners)))


@_rule("arith.shrsi", "arith.shrui")
def _shift_right(facts: Ranges, op: Operation) -> Range | None:
    a, b = _operands(facts, op)
    width = width_of(op.results[0].type)
    assert width is not None
    if b.low < 0 or b.high >= width or (op.name == "arith.shrui" and a.low < 0):
        return None
    corners = [x >> y for x in (a.low, a.high) for y in (b.low, b.high)]
    return Range(min(corners), max(corners))


@_rule("arith.select")
def _select(facts: Ranges, op: Operation) -> Range | None:
    return facts.of(op.operands[1]).hull(facts.of(op.operands[2]))


@_rule("arith.cmpi", "arith.cmpf", IsValidProgramIdOp)
def _truth(facts: Ranges, op: Operation) -> Range | None:
    return Range(0, 1)


@_rule("arith.extsi", "arith.index_cast")
def _signed(facts: Ranges, op: Operation) -> Range | None:
    source = facts.of(op.operands[0])
    if width_of(op.operands[0].type) == 1:
        return Range(-source.high, -source.low)
    return _fits(op, source)


@_rule("arith.extui", "arith.index_castui")
def _unsigned(facts: Ranges, op: Operation) -> Range | None:
    source = facts.of(op.operands[0])
    if source.low >= 0:
        return _fits(op, source)
    width = width_of(op.operands[0].type)
    assert width is not None
    return _fits(op, Range(0, 2**width - 1))


@_rule("arith.trunci")
def _truncate(facts: Ranges, op: Operation) -> Range | None:
    return _fits(op, facts.of(op.operands[0]), not _overflow_is_undefined(op))


@_rule("math.absi")
def _absolute(facts: Ranges, op: Operation) -> Range | None:
    source = facts.of(op.operands[0])
    if source.low >= 0:
        return source
    low = 0 if source.high >= 0 else -source.high
    return _fits(op, Range(low, max(-source.low, source.high)))


@_rule(
    SplatOp,
    BroadcastOp,
    ExpandDimsOp,
    ViewOp,
    ExtractOp,
    ExtractSliceOp,
    PermuteOp,
)
def _same_elements(facts: Ranges, op: Operation) -> Range | None:
    return facts.of(op.operands[0])


@_rule(CatOp, InsertSliceOp)
def _either(facts: Ranges, op: Operation) -> Range | None:
    a, b = _operands(facts, op)
    return a.hull(b)


@_rule(MakeRangeOp)
def _make_range(facts: Ranges, op: Operation) -> Range | None:
    count = T.dims_of(op.results[0].type)[0]
    start = op.properties.get("start")
    if isinstance(start, IntegerAttr):
        first = Range(start.value.data, start.value.data)
    else:
        first = facts.of(op.operands[0])
    return _fits(op, Range(first.low, first.high + count - 1))


@_rule(GetProgramIdOp)
def _program_id(facts: Ranges, op: Operation) -> Range | None:
    if op.operands:
        return Range(0, MAX_GRID - 1)  # a block taken over may belong to another grid
    return Range(0, facts.extent(_axis(op)).high - 1)


@_rule(GetNumProgramsOp)
def _num_programs(facts: Ranges, op: Operation) -> Range | None:
    return facts.extent(_axis(op))


@_rule(GetDimSizeOp)
def _dim_size(facts: Ranges, op: Operation) -> Range | None:
    assert isinstance(op, GetDimSizeOp)
    axis, source = _axis(op), op.source
    if isinstance(source.type, T.MemrefType):
        extent, step = memref_axes(source)[axis][0], 1
    elif (axes := view_axes(source, ())) is not None:
        extent, step = axes[axis].extent, axes[axis].step
    else:
        extent, step = None, 1
    if isinstance(extent, int):
        known = Range(extent, extent)
    else:
        most = Range(0, 2**63 - 1)
        known = most if extent is None else facts.of(extent).cut(most)
    return Range(-(-known.low // step), -(-known.high // step))


@_rule(AssumeOp)
def _assume(facts: Ranges, op: Operation) -> Range | None:
    assert isinstance(op, AssumeOp)
    if width_of(op.value.type) is None:
        return None
    known = facts.of(op.value)
    for predicate in op.predicates:
        if isinstance(predicate, BoundedAttr):
            low, high = predicate.bounds
            known = known.cut(
                Range(known.low if low is None else low, known.high if high is None else high)
            )
    return known


def _axis(op: Operation) -> int:
    axis = op.properties["axis"]
    assert isinstance(axis, IntegerAttr)
    return axis.value.data
