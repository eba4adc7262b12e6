"""Warp shuffles that implement a change of layout."""

from __future__ import annotations

from xdsl.dialects.arith import AndIOp, XOrIOp
from xdsl.ir import SSAValue

from tilewright.layouts.lane_moves import LaneMoves, Swap, Take
from tilewright.lowering.nvgpu.vectors import length
from tilewright.lowering.scheduled.shuffles import Mode, from_lanes
from tilewright.lowering.scheduled.state import ScheduledKernel


def moved_by_lanes(low: ScheduledKernel, value: SSAValue, moves: LaneMoves) -> SSAValue:
    """The thread's elements after what lanes do."""
    for swap in moves.swaps:
        value = _swapped(low, value, swap)
    take = moves.take
    return value if _is_nothing(value, take) else _taken(low, value, take)


def thread_bit(low: ScheduledKernel, bit: int, count: int) -> SSAValue:
    """Whether a bit of the thread's number is set, as a vector."""
    with low.building(low.prologue):
        condition = low.compare("ne", low.binary(AndIOp, low.thread(), 1 << bit), 0)
    return low.splat(condition, count)


def _is_nothing(value: SSAValue, take: Take) -> bool:
    same = take.registers == tuple(range(length(value)))
    return same and not any(take.lanes) and take.stays


def _swapped(low: ScheduledKernel, value: SSAValue, swap: Swap) -> SSAValue:
    """Each lane keeps the half that its bit says, and gives the other one away."""
    value, count = low.picked(value, swap.order), len(swap.order)
    below = [number for number in range(count) if not number >> swap.register & 1]
    lower = low.picked(value, below)
    upper = low.picked(value, [number | 1 << swap.register for number in below])
    bit = thread_bit(low, swap.thread, len(below))
    kept = low.select(bit, upper, lower)
    if swap.drops:
        return kept
    given = low.select(bit, lower, upper)
    got = from_lanes(low, given, Mode.XOR, 1 << swap.thread)
    both = low.joined([low.select(bit, got, kept), low.select(bit, kept, got)])
    order = [0] * count
    for place, number in enumerate(below):
        order[number] = place
        order[number | 1 << swap.register] = place + len(below)
    return low.picked(both, order)


def _taken(low: ScheduledKernel, value: SSAValue, take: Take) -> SSAValue:
    """Registers of other lanes."""
    if take.both is not None:
        other = from_lanes(low, value, Mode.XOR, 1 << take.both)
        bit = thread_bit(low, take.both, length(value))
        # Of the lanes whose bit is clear, and is set.
        pair = [low.select(bit, other, value), low.select(bit, value, other)]
        order = [
            register + length(value) * (lane >> take.both & 1)
            for register, lane in zip(take.registers, take.lanes, strict=True)
        ]
        return low.picked(low.joined(pair), order)
    # By linearity as many registers come from each lane, a power of two.
    pairs = dict.fromkeys(zip(take.lanes, take.registers, strict=True))
    by_lane = sorted(pairs)
    found = [
        _from(
            low, low.picked(value, [register for at, register in by_lane if at == lane]), take, lane
        )
        for lane in sorted(set(take.lanes))
    ]
    places = {pair: place for place, pair in enumerate(by_lane)}
    order = [places[pair] for pair in zip(take.lanes, take.registers, strict=True)]
    return low.picked(low.joined(found), order)


def _from(low: ScheduledKernel, value: SSAValue, take: Take, lane: int) -> SSAValue:
    if take.stays:
        return from_lanes(low, value, Mode.XOR, lane) if lane else value
    with low.building(low.prologue):
        number = low.thread_part(take.thread)
        if lane:
            number = low.binary(XOrIOp, number, lane)
    return from_lanes(low, value, Mode.IDX, number)
