"""Divisibility, alignment and regular patterns of integers and addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from tilewright.analysis.tileaa.flow import ForwardAnalysis, rule_of
from tilewright.analysis.tileaa.geometry import int_array
from tilewright.analysis.tileaa.integers import known_integers, width_of
from tilewright.analysis.tileaa.ranges import Ranges, all_of
from tilewright.dialects.arith import CmpiOp
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.attributes import DivByAttr, SameElementsAttr
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.hints import AssumeOp
from tilewright.dialects.nv_tileaa.ops.pointers import AddPtrOp, IntToPtrOp, PtrToIntOp
from tilewright.dialects.nv_tileaa.ops.shapes import (
    BroadcastOp,
    CatOp,
    ExpandDimsOp,
    ExtractOp,
    ExtractSliceOp,
    MakeRangeOp,
    PermuteOp,
    SplatOp,
    ViewOp,
)
from tilewright.numerics.element_types import FORMATS

#: Divisibility is not tracked beyond this power of two, which is also the divisor of zero.
MOST = 2**30


def power_in(number: int) -> int:
    """Return the largest power of two that divides a number, up to ``MOST``."""
    return min(number & -number, MOST) if number else MOST


@dataclass(frozen=True, slots=True)
class AxisPattern:
    """How the elements of a tile progress along one axis. All three fields are powers of two.

    The axis is divided into aligned *runs*. Modulo the width of the type:
    """

    run: int = 1
    """Within a run each element is its predecessor plus one (pointers: one element further)."""
    divisor: int = 1
    """The first element of each run is a multiple of it (pointers: the address, in bytes)."""
    repeat: int = 1
    """Within aligned groups of this many elements all are equal."""

    def start(self, run: int) -> int:
        """Return a divisor of the first elements if runs are shortened to ``run``."""
        if run >= self.run:
            return self.divisor
        return min(self.divisor, run)

    @property
    def each(self) -> int:
        """A divisor of every element."""
        return self.start(1)


@dataclass(frozen=True, slots=True)
class Pattern:
    """The pattern of a value along each of its axes. A scalar counts as one axis of extent 1."""

    axes: tuple[AxisPattern, ...]

    @property
    def divisor(self) -> int:
        """A divisor of every element."""
        return max(axis.each for axis in self.axes)

    def show(self) -> str:
        """Format the pattern as ``--remarks`` and ``explain`` print it."""

        def side(values: list[int]) -> str:
            return str(values[0]) if len(values) == 1 else str(values)

        runs, divisors, repeats = (
            [getattr(axis, name) for axis in self.axes] for name in ("run", "divisor", "repeat")
        )
        return f"run {side(runs)}, divisor {side(divisors)}, repeat {side(repeats)}"


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """Return the extents of a value; one axis of 1 for scalars."""
    return T.dims_of(value.type) or (1,)


def measure(elements: np.ndarray, width: int, unit: int = 1) -> Pattern:
    """Return the strongest pattern of an array of integers of ``width`` bits. ``unit``: the increment within runs."""
    array = np.asarray(elements, dtype=object)
    array = array.reshape(array.shape or (1,))
    mask = (1 << width) - 1
    return Pattern(tuple(_measure_axis(array, axis, unit, mask) for axis in range(array.ndim)))


def _measure_axis(array: np.ndarray, axis: int, unit: int, mask: int) -> AxisPattern:
    lines = np.moveaxis(array, axis, -1).reshape(-1, array.shape[axis])
    run = _longest(lines, lambda first, k: (first + k * unit) & mask, mask)
    repeat = _longest(lines, lambda first, k: first & mask, mask)
    divisor = min(power_in(int(value) & mask) for value in lines[:, ::run].flat)
    return AxisPattern(run, divisor, repeat)


def _longest(lines: np.ndarray, expected: Callable[[int, int], int], mask: int) -> int:
    """Return the longest aligned group length for which element k is ``expected(first, k)``."""
    extent, length = lines.shape[1], 1
    while length * 2 <= extent:
        groups = lines.reshape(-1, length * 2)
        if any(
            int(value) & mask != expected(int(group[0]), k)
            for group in groups
            for k, value in enumerate(group)
        ):
            break
        length *= 2
    return length


class Patterns(ForwardAnalysis[Pattern]):
    """``of(value)``: the pattern of an integer, index or pointer, scalar or tile."""

    def __init__(self, function: FuncOp, ranges: Ranges):
        self.ranges = ranges
        super().__init__(function)

    def unknown(self, value: SSAValue) -> Pattern:
        return Pattern(tuple(AxisPattern(repeat=1) for _ in shape_of(value)))

    def join(self, one: Pattern, other: Pattern) -> Pattern:
        return _zip(_join, one, other)

    def transfer(self, op: Operation) -> Sequence[Pattern] | None:
        rule = _RULES.get(op.name)
        found = None if rule is None else rule(self, op)
        return None if found is None else (found,)

    def never_negative(self, *values: SSAValue) -> bool:
        """Whether these integers are known to be nonnegative."""
        return all(self.ranges.of(value).low >= 0 for value in values)


def _zip(
    function: Callable[[AxisPattern, AxisPattern], AxisPattern], one: Pattern, other: Pattern
) -> Pattern:
    return Pattern(tuple(function(a, b) for a, b in zip(one.axes, other.axes, strict=True)))


def _join(a: AxisPattern, b: AxisPattern) -> AxisPattern:
    run = min(a.run, b.run)
    return AxisPattern(run, min(a.start(run), b.start(run)), min(a.repeat, b.repeat))


Rule = Callable[[Patterns, Operation], Pattern | None]
_RULES: dict[str, Rule] = {}
_rule = rule_of(_RULES)


def _pair(facts: Patterns, op: Operation) -> tuple[Pattern, Pattern]:
    return facts.of(op.operands[0]), facts.of(op.operands[1])


def _uniform(value: int, shape: tuple[int, ...]) -> Pattern:
    return Pattern(tuple(AxisPattern(1, power_in(value), extent) for extent in shape))


@_rule("arith.constant")
def _constant(facts: Patterns, op: Operation) -> Pattern | None:
    values = known_integers(op)
    shape, width = shape_of(op.results[0]), width_of(op.results[0].type)
    if values is None or width is None or not values:
        return None
    if len(values) == 1:
        return _uniform(values[0], shape)
    return measure(np.array(values, dtype=object).reshape(shape), width)


@_rule(MakeRangeOp)
def _make_range(facts: Patterns, op: Operation) -> Pattern | None:
    (count,) = shape_of(op.results[0])
    start = op.properties.get("start")
    if isinstance(start, IntegerAttr):
        divisor = power_in(start.value.data)
    else:
        divisor = facts.of(op.operands[0]).divisor
    return Pattern((AxisPattern(count, divisor, 1),))


def _sum(a: AxisPattern, b: AxisPattern) -> AxisPattern:
    """The pattern of a sum: a run of one side stays a run while the other side repeats."""
    left, right = min(a.run, b.repeat), min(b.run, a.repeat)
    if left >= right:
        run, divisor = left, min(a.start(left), b.each)
    else:
        run, divisor = right, min(a.each, b.start(right))
    return AxisPattern(run, divisor, min(a.repeat, b.repeat))


@_rule("arith.addi")
def _add(facts: Patterns, op: Operation) -> Pattern | None:
    return _zip(_sum, *_pair(facts, op))


@_rule("arith.subi")
def _subtract(facts: Patterns, op: Operation) -> Pattern | None:
    def difference(a: AxisPattern, b: AxisPattern) -> AxisPattern:
        run = min(a.run, b.repeat)
        return AxisPattern(run, min(a.start(run), b.each), min(a.repeat, b.repeat))

    return _zip(difference, *_pair(facts, op))


@_rule("arith.muli")
def _multiply(facts: Patterns, op: Operation) -> Pattern | None:
    ones = [facts.ranges.of(operand).constant == 1 for operand in op.operands]

    def product(a: AxisPattern, b: AxisPattern) -> AxisPattern:
        if ones[1]:
            return a
        if ones[0]:
            return b
        return AxisPattern(1, min(a.each * b.each, MOST), min(a.repeat, b.repeat))

    return _zip(product, *_pair(facts, op))


@_rule("arith.shli")
def _shift_left(facts: Patterns, op: Operation) -> Pattern | None:
    amount = facts.ranges.of(op.operands[1]).low
    if amount < 0:
        return None

    def shifted(a: AxisPattern, b: AxisPattern) -> AxisPattern:
        if facts.ranges.of(op.operands[1]).constant == 0:
            return a
        return AxisPattern(1, min(a.each << min(amount, 30), MOST), min(a.repeat, b.repeat))

    return _zip(shifted, *_pair(facts, op))


def _constant_power(facts: Patterns, op: Operation) -> int | None:
    """Return the right operand if it is a constant power of two and the left is nonnegative."""
    divisor = facts.ranges.of(op.operands[1]).constant
    if divisor is None or divisor <= 0 or divisor & (divisor - 1):
        return None
    return divisor if facts.never_negative(op.operands[0]) else None


@_rule("arith.divsi", "arith.divui", "arith.floordivsi")
def _divide(facts: Patterns, op: Operation) -> Pattern | None:
    by = _constant_power(facts, op)

    def quotient(a: AxisPattern, b: AxisPattern) -> AxisPattern:
        both = min(a.repeat, b.repeat)
        if by is None:
            return AxisPattern(repeat=both)
        if by == 1:
            return a
        # A run that starts at a multiple of the divisor splits into groups with equal quotients.
        equal = min(a.run, by, a.divisor)
        return AxisPattern(1, max(a.each // by, 1), max(both, equal))

    return _zip(quotient, *_pair(facts, op))


@_rule("arith.remsi", "arith.remui")
def _remainder(facts: Patterns, op: Operation) -> Pattern | None:
    by = _constant_power(facts, op)

    def rest(a: AxisPattern, b: AxisPattern) -> AxisPattern:
        both = min(a.repeat, b.repeat)
        if by is None:
            return AxisPattern(1, min(a.each, b.each), both)
        run = min(a.run, by, a.divisor) if a.run > 1 else 1
        return AxisPattern(run, MOST if by <= a.start(run) else a.start(run), both)

    return _zip(rest, *_pair(facts, op))


@_rule("arith.andi")
def _and(facts: Patterns, op: Operation) -> Pattern | None:
    return _zip(
        lambda a, b: AxisPattern(1, max(a.each, b.each), min(a.repeat, b.repeat)),
        *_pair(facts, op),
    )


@_rule(
    "arith.ori",
    "arith.xori",
    "arith.maxsi",
    "arith.maxui",
    "arith.minsi",
    "arith.minui",
)
def _either_or_both(facts: Patterns, op: Operation) -> Pattern | None:
    return _zip(
        lambda a, b: AxisPattern(1, min(a.each, b.each), min(a.repeat, b.repeat)),
        *_pair(facts, op),
    )


@_rule("arith.shrsi", "arith.shrui", "arith.ceildivsi", "arith.ceildivui")
def _repeats_only(facts: Patterns, op: Operation) -> Pattern | None:
    return _zip(lambda a, b: AxisPattern(repeat=min(a.repeat, b.repeat)), *_pair(facts, op))


#: Comparisons of a number with an upper bound that is not included, and those that have the bound first.
_BOUND_LAST = ("slt", "sge", "ult", "uge")
_BOUND_FIRST = ("sgt", "sle", "ugt", "ule")


@_rule("arith.cmpi")
def _compare(facts: Patterns, op: Operation) -> Pattern | None:
    """The pattern of a comparison of runs with a bound: within a group all are alike.

    A group of a power of two of successive numbers that begins at a multiple of it does not wrap, be the numbers signed
    or not; a bound that is a multiple of it lies before or behind the whole group.
    """
    assert isinstance(op, CmpiOp)
    name, width = op.predicate_name, width_of(op.operands[0].type)
    number, bound = _pair(facts, op)
    if name in _BOUND_FIRST:
        number, bound = bound, number
    steady = name in (*_BOUND_LAST, *_BOUND_FIRST) and width is not None and width > 1
    most = 1 << (width or 1) - 1

    def answer(a: AxisPattern, b: AxisPattern) -> AxisPattern:
        same = min(a.repeat, b.repeat)
        if steady:
            same = max(same, min(a.run, a.divisor, b.repeat, b.each, most))
        return AxisPattern(repeat=same)

    return _zip(answer, number, bound)


def no_wrap(ranges: Ranges, value: SSAValue) -> bool:
    """Whether no run of a value can wrap from its type's maximum to the minimum."""
    width = width_of(value.type)
    if width is None:
        return False
    full, found = all_of(width), ranges.of(value)
    return found.low > full.low or found.high < full.high


@_rule("arith.select")
def _select(facts: Patterns, op: Operation) -> Pattern | None:
    condition, a, b = (facts.of(operand) for operand in op.operands)
    joined = facts.join(a, b)
    if not T.dims_of(op.operands[0].type):
        return joined
    chosen = []
    for which, axis in zip(condition.axes, joined.axes, strict=True):
        run = min(axis.run, which.repeat)
        chosen.append(AxisPattern(run, axis.start(run), min(axis.repeat, which.repeat)))
    return Pattern(tuple(chosen))


@_rule("arith.extsi", "arith.extui", "arith.index_cast", "arith.index_castui")
def _extend(facts: Patterns, op: Operation) -> Pattern | None:
    source = op.operands[0]
    found = facts.of(source)
    zero_extends = op.name in ("arith.extui", "arith.index_castui")
    keeps = no_wrap(facts.ranges, source) and (not zero_extends or facts.never_negative(source))
    width = width_of(source.type)
    if keeps and width != 1:
        return found
    most = 1 << (width or 1) - 1
    return Pattern(tuple(_without_wrap(axis, most) for axis in found.axes))


def _without_wrap(axis: AxisPattern, most: int = MOST) -> AxisPattern:
    """Shorten runs so that none wraps from the maximum to the minimum: they start at multiples of
    their length."""
    run = min(axis.run, axis.divisor, most)
    return AxisPattern(run, axis.start(run), axis.repeat)


@_rule("arith.trunci")
def _truncate(facts: Patterns, op: Operation) -> Pattern | None:
    return facts.of(op.operands[0])


@_rule(SplatOp)
def _splat(facts: Patterns, op: Operation) -> Pattern | None:
    divisor = facts.of(op.operands[0]).divisor
    return Pattern(tuple(AxisPattern(1, divisor, n) for n in shape_of(op.results[0])))


@_rule(BroadcastOp)
def _broadcast(facts: Patterns, op: Operation) -> Pattern | None:
    source = facts.of(op.operands[0])
    extents = zip(shape_of(op.operands[0]), shape_of(op.results[0]), strict=True)
    return Pattern(
        tuple(
            AxisPattern(1, axis.divisor, new) if old == 1 and new != 1 else axis
            for axis, (old, new) in zip(source.axes, extents, strict=True)
        )
    )


@_rule(ExpandDimsOp)
def _expand_dims(facts: Patterns, op: Operation) -> Pattern | None:
    source = facts.of(op.operands[0])
    if not T.dims_of(op.operands[0].type):
        return Pattern(tuple(AxisPattern(1, source.divisor, 1) for _ in shape_of(op.results[0])))
    added = set(int_array(op.properties["axes"]))
    kept = iter(source.axes)
    return Pattern(
        tuple(
            AxisPattern(1, source.divisor, 1) if axis in added else next(kept)
            for axis in range(len(shape_of(op.results[0])))
        )
    )


@_rule(PermuteOp)
def _permute(facts: Patterns, op: Operation) -> Pattern | None:
    source = facts.of(op.operands[0]).axes
    return Pattern(tuple(source[axis] for axis in int_array(op.properties["permutation"])))


@_rule(ViewOp)
def _view(facts: Patterns, op: Operation) -> Pattern | None:
    if isinstance(op.operands[0].type, T.MemrefType):
        return None
    source, old, new = facts.of(op.operands[0]), shape_of(op.operands[0]), shape_of(op.results[0])
    if all(axis.repeat == extent for axis, extent in zip(source.axes, old, strict=True)):
        return Pattern(tuple(AxisPattern(1, source.divisor, extent) for extent in new))
    if [n for n in old if n != 1] == [n for n in new if n != 1]:
        kept = iter([a for a, n in zip(source.axes, old, strict=True) if n != 1])
        return Pattern(
            tuple(next(kept) if n != 1 else AxisPattern(1, source.divisor, 1) for n in new)
        )
    if len(old) == 1:  # rows of a longer run are runs
        (axis,), row = source.axes, new[-1]
        run = min(axis.run, row)
        last = AxisPattern(run, axis.start(run), min(axis.repeat, row))
        outer = tuple(AxisPattern(1, source.divisor, 1) for _ in new[:-1])
        return Pattern((*outer, last))
    return Pattern(tuple(AxisPattern(1, source.divisor, 1) for _ in new))


@_rule(ExtractOp)
def _extract(facts: Patterns, op: Operation) -> Pattern | None:
    divisor = facts.of(op.operands[0]).divisor
    return Pattern(tuple(AxisPattern(1, divisor, 1) for _ in shape_of(op.results[0])))


@_rule(ExtractSliceOp)
def _extract_slice(facts: Patterns, op: Operation) -> Pattern | None:
    source, result = facts.of(op.operands[0]), shape_of(op.results[0])
    fixed = op.properties.get("offsets")
    offsets = None if fixed is None else int_array(fixed)
    divisors = (
        [power_in(offset) for offset in offsets]
        if offsets is not None
        else [facts.of(index).divisor for index in op.operands[1:]]
    )
    axes = []
    for axis, extent, aligned in zip(source.axes, result, divisors, strict=True):
        run, repeat = min(axis.run, extent, aligned), min(axis.repeat, extent, aligned)
        axes.append(AxisPattern(run, axis.start(run), repeat))
    return Pattern(tuple(axes))


@_rule(CatOp)
def _cat(facts: Patterns, op: Operation) -> Pattern | None:
    return facts.join(*_pair(facts, op))


@_rule(AddPtrOp)
def _addptr(facts: Patterns, op: Operation) -> Pattern | None:
    base, offset = _pair(facts, op)
    pointer = T.element_of(op.results[0].type)
    assert isinstance(pointer, T.PtrType)
    size = power_in(FORMATS[T.element_name(pointer.pointee)].storage_bytes)
    shape = shape_of(op.results[0])
    base = _spread(base, op.operands[0], shape)
    offset = _spread(offset, op.operands[1], shape)
    # Addresses have 64 bits: 64-bit offsets may wrap and still address neighbouring elements.
    wide = T.element_name(T.element_of(op.operands[1].type)) in ("i64", "index")
    straight = wide or no_wrap(facts.ranges, op.operands[1])

    def moved(a: AxisPattern, b: AxisPattern) -> AxisPattern:
        by_offset = min(b.run if straight else _without_wrap(b).run, a.repeat)
        by_base = min(a.run, b.repeat)
        repeat = min(a.repeat, b.repeat)
        if by_offset >= by_base:
            bytes_ = min(b.start(by_offset) * size, MOST)
            return AxisPattern(
                by_offset, min(a.start(1) if a.run > 1 else a.divisor, bytes_), repeat
            )
        return AxisPattern(by_base, min(pointer_start(a, by_base, size), b.each * size), repeat)

    return _zip(moved, base, offset)


def pointer_start(axis: AxisPattern, run: int, size: int) -> int:
    """``AxisPattern.start`` for pointers, whose runs increase by the size of an element, ``size`` bytes."""
    return axis.divisor if run >= axis.run else min(axis.divisor, run * size)


def _spread(pattern: Pattern, value: SSAValue, shape: tuple[int, ...]) -> Pattern:
    """Return the pattern of a value used beside tiles: a scalar is the same for all elements."""
    if T.dims_of(value.type):
        return pattern
    return Pattern(tuple(AxisPattern(1, pattern.divisor, extent) for extent in shape))


@_rule(IntToPtrOp, PtrToIntOp)
def _address(facts: Patterns, op: Operation) -> Pattern | None:
    found = facts.of(op.operands[0])
    return Pattern(tuple(AxisPattern(1, axis.each, axis.repeat) for axis in found.axes))


@_rule(AssumeOp)
def _assume(facts: Patterns, op: Operation) -> Pattern | None:
    assert isinstance(op, AssumeOp)
    if isinstance(op.value.type, T.MemrefType | T.TiledViewType):
        return None
    axes = list(facts.of(op.value).axes)
    for predicate in op.predicates:
        match predicate:
            case DivByAttr():
                axes = _with_divisor(axes, predicate)
            case SameElementsAttr():
                axes = [
                    AxisPattern(a.run, a.divisor, max(a.repeat, power_in(n) if n else 1))
                    for a, n in zip(axes, predicate.values.data, strict=True)
                ]
            case _:
                pass
    return Pattern(tuple(axes))


def _with_divisor(axes: list[AxisPattern], predicate: DivByAttr) -> list[AxisPattern]:
    divisor = min(predicate.divisor.data, MOST)
    every, along = predicate.group
    if every is None or along is None:
        return [
            AxisPattern(1, max(a.divisor, divisor), a.repeat) if a.run == 1 else a for a in axes
        ]
    found = axes[along]
    if every == power_in(every) and every >= found.run:
        known = found.divisor if every == found.run else 1
        axes[along] = AxisPattern(every, max(known, divisor), found.repeat)
    return axes
