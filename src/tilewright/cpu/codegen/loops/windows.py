"""Lanes that are near one another in memory but not in order: loaded as they lie, and permuted in registers.

Reading inner axes in another shape, every other element, or one element several times takes elements from a few aligned
windows, each as long as the vector, or in memory of ours as what the places are known to be multiples of.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import Index, alignment

#: From how many windows a vector is put together.
_MOST_WINDOWS = 4
#: Single elements are gathered.
_SHORTEST_WINDOW = 2


def windows(index: Index, extent: int) -> list[Index] | None:
    """The windows that have all lanes of an index below ``extent``, in ascending order; None where
    gathering them is better, or where a window might leave the extent."""
    offsets = index.offsets
    if offsets is None:
        return None
    lanes = len(offsets)
    numbers = sorted({offset // lanes for offset in offsets})
    fits = index.align % lanes == 0 and extent % lanes == 0
    if lanes < 2 or lanes & (lanes - 1) or not fits or len(numbers) > _MOST_WINDOWS:
        return None
    return [
        Index(index.base, tuple(range(number * lanes, (number + 1) * lanes)), index.align)
        for number in numbers
    ]


def windows_of_any_length(index: Index, extent: int) -> list[Index] | None:
    """Windows below ``extent`` that have all lanes of an index, and may be shorter than it where its base is not a multiple of its
    length; None where gathering them is better."""
    offsets, whole = index.offsets, windows(index, extent)
    if offsets is None or whole is not None:
        return whole
    length = min(index.align, alignment(extent), len(offsets))
    if length < _SHORTEST_WINDOW:
        return None
    found: list[Index] = []
    for number in sorted({offset // length for offset in offsets}):
        window = tuple(range(number * length, (number + 1) * length))
        before = found[-1].offsets if found else None
        # One behind another of its length are one.
        if before and before[-1] + 1 == window[0] and len(before) == length < len(offsets):
            window = before + window
            found.pop()
        found.append(Index(index.base, window, index.align))
    return found if len(found) <= _MOST_WINDOWS else None


def put_together(
    b: Builder, found: Sequence[Value], held: Sequence[Index], offsets: Sequence[int]
) -> Value:
    """The elements at these offsets, of the windows and what was found there."""
    lanes = len(offsets)
    places = {
        offset: (value, lane)
        for value, window in zip((_lengthened(b, each, lanes) for each in found), held, strict=True)
        for lane, offset in enumerate(window.offsets or ())
    }
    return moved(b, [places[offset] for offset in offsets])


def _lengthened(b: Builder, value: Value, lanes: int) -> Value:
    """A vector with lanes behind it that nobody asks for, if it has fewer."""
    count = llvm.lanes_of(value.type)
    if count == lanes:
        return value
    order = [*range(count), *[count] * (lanes - count)]
    return llvm.shuffle(b, value, llvm.undefined(value.type), order)


def moved(b: Builder, wanted: Sequence[tuple[Value, int]]) -> Value:
    """A vector of lanes of others of its type. Lanes that were moved before are taken from where they came
    from, so that moving them twice is moving them once, if that takes no more vectors."""
    traced = [_source(value, lane) for value, lane in wanted]
    if len({id(value) for value, _ in traced}) > max(2, len({id(value) for value, _ in wanted})):
        traced = list(wanted)
    lanes = len(traced)
    sources = list({id(value): value for value, _ in traced}.values())
    number = {id(value): position for position, value in enumerate(sources)}
    if all(lane == place for place, (_, lane) in enumerate(traced)) and len(sources) == 1:
        return sources[0]
    total = sources[0]
    for step in range(1, max(len(sources), 2)):
        # Lanes of earlier vectors are in their places once the second one has come.
        order: list[int] = []
        for place, (value, lane) in enumerate(traced):
            source = number[id(value)]
            if source == step:
                order.append(lanes + lane)
            else:
                order.append(lane if step == 1 and source == 0 else place)
        other = sources[step] if step < len(sources) else total
        total = llvm.shuffle(b, total, other, order)
    return total


def _source(value: Value, lane: int) -> tuple[Value, int]:
    """Where a lane was before it was moved by shuffles of vectors of one length."""
    while isinstance(value, ir.instructions.ShuffleVector):
        first, second, order = value.operands
        lanes = llvm.lanes_of(value.type)
        if llvm.lanes_of(first.type) != lanes:
            break
        taken = _numbers(order)[lane]
        value, lane = (first, taken) if taken < lanes else (second, taken - lanes)
    return value, lane


def of_pairs(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """The same for an operation that gives the same whichever operand comes first, in one rearrangement
    instead of two: where ``x`` and ``y`` are the lower and the higher ones of pairs of lanes of a vector,
    the vector itself and the other one of each pair."""
    if not isinstance(x, ir.instructions.ShuffleVector) or type(x) is not type(y):
        return x, y
    source, _, lower = x.operands
    other, _, higher = y.operands
    lanes = llvm.lanes_of(source.type)
    orders = [_numbers(lower), _numbers(higher)]
    if other is not source or any(len(order) != lanes or max(order) >= lanes for order in orders):
        return x, y
    pairs = list(zip(*orders, strict=True))
    if any(lane not in pair for lane, pair in enumerate(pairs)):
        return x, y
    partners = [low + high - lane for lane, (low, high) in enumerate(pairs)]
    return source, llvm.shuffle(b, source, source, partners)


def _numbers(order: Value) -> list[int]:
    """The lanes that a rearrangement takes."""
    return [int(getattr(lane, "constant", lane)) for lane in order.constant]
