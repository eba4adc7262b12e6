"""Conversions within warps, by shuffles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.layouts import gf2
from tilewright.layouts.layout import Layout

LANES = 5
#: The number of registers up to which lanes exchange halves: the cost of selecting them grows with it.
MOST_SWAPPED = 16


@dataclass(frozen=True, slots=True)
class Swap:
    """A swap: after permuting registers by ``order``, bit ``register`` of the register number and bit ``thread`` of the
    lane are exchanged.

    ``drops``: threads that differ in the bit, which may be one of the warp, hold the same registers, and each keeps the
    half of its own bit; nothing is shuffled.
    """

    order: tuple[int, ...]
    register: int
    thread: int
    drops: bool


@dataclass(frozen=True, slots=True)
class Take:
    """A shuffle: register r becomes register ``registers[r]`` of the lane ``lanes[r]`` XORed with ``thread[i]`` over
    the set bits i of the thread's number.

    ``both``: the bit of the lane in which two lanes receive the registers of both; else None.
    """

    registers: tuple[int, ...]
    lanes: tuple[int, ...]
    thread: tuple[int, ...]
    both: int | None

    @property
    def stays(self) -> bool:
        """Whether each thread reads lanes at an XOR distance from its own."""
        identity = tuple(1 << bit for bit in range(LANES))
        return self.thread[:LANES] == identity and not any(self.thread[LANES:])

    @property
    def count(self) -> int:
        """The number of shuffles."""
        pairs = set(zip(self.registers, self.lanes, strict=True))
        if self.both is not None:
            return len(set(self.registers))
        return sum(1 for _, lane in pairs if lane or not self.stays)


@dataclass(frozen=True, slots=True)
class LaneMoves:
    """The moves of a conversion, in order."""

    swaps: tuple[Swap, ...]
    take: Take

    def words(self, registers: int) -> int:
        """The number of shuffles that a thread executes, if it holds ``registers`` elements at first."""
        found = self.take.count
        for swap in self.swaps:
            found += 0 if swap.drops else registers // 2
            registers //= 2 if swap.drops else 1
        return found


def plan_lane_moves(source: Layout, target: Layout) -> LaneMoves | None:
    """A conversion within warps: swaps of halves, then one round of shuffles.

    None if a warp needs elements of other warps, or if shared memory is cheaper: if more than two swaps shuffle (none
    above ``MOST_SWAPPED`` registers), or more registers are shuffled than the larger side has.
    """
    swaps: list[Swap] = []
    current = source
    for bit in range(len(source.thread)):
        swap = _swap(current, target, bit)
        if swap is not None:
            swaps.append(swap[0])
            current = swap[1]
    exchanges = sum(not swap.drops for swap in swaps)
    take = _take(current, target)
    if take is None or exchanges > (2 if source.registers <= MOST_SWAPPED else 0):
        return None
    found = LaneMoves(tuple(swaps), take)
    return (
        found if found.words(source.registers) <= max(source.registers, target.registers) else None
    )


def _swap(source: Layout, target: Layout, thread: int) -> tuple[Swap, Layout] | None:
    """The exchange after which a thread bit has its target vector, if a register bit has it now; returns also the
    layout after it.
    """
    own, wanted = source.thread[thread], target.thread[thread]
    register = gf2.solve(source.register, wanted)
    if not wanted or wanted == own or register is None or (thread >= LANES and own):
        return None
    bit = (register & -register).bit_length() - 1
    bases = list(source.register)
    bases[bit] = wanted
    order = gf2.solve_all(source.register, bases)
    assert order is not None
    bases[bit : bit + 1] = [own] if own else []
    bits = list(source.thread)
    bits[thread] = wanted
    swapped = Layout(source.size, tuple(bases), tuple(bits[:LANES]), tuple(bits[LANES:]))
    return Swap(order, bit, thread, not own), swapped


def _take(source: Layout, target: Layout) -> Take | None:
    bases = (*source.register, *source.lane)
    count = len(source.register)

    def of(vector: int) -> tuple[int, int] | None:
        found = gf2.solve(bases, vector)
        return None if found is None else (found & ((1 << count) - 1), found >> count)

    thread: list[int] = []
    for number, basis in enumerate(target.thread):
        own = source.thread[number]
        if number < LANES and basis == own:
            thread.append(1 << number)
            continue
        moved = basis if number < LANES else basis ^ own
        found = of(moved)
        if found is None or found[0]:
            # Another warp holds it, or the register would depend on the thread.
            return None
        thread.append(found[1])
    registers, lanes = [0], [0]
    for basis in target.register:
        found = of(basis)
        if found is None:
            return None
        registers += [number ^ found[0] for number in registers]
        lanes += [number ^ found[1] for number in lanes]
    return Take(tuple(registers), tuple(lanes), tuple(thread), _both(lanes, thread))


def _both(lanes: Sequence[int], thread: Sequence[int]) -> int | None:
    """The only lane bit that is read across, if both lanes of each pair read both."""
    read = 0
    for lane in lanes:
        read |= lane
    if not read or read & (read - 1):
        return None
    bit = read.bit_length() - 1
    wanted = [1 << number if number != bit else 0 for number in range(LANES)]
    return bit if list(thread) == wanted + [0] * (len(thread) - LANES) else None


def spread_out(layout: Layout) -> Layout:
    """Distribute the tile over as many threads as possible: those that hold the same elements each keep a part."""
    register = list(layout.without_copies().register)
    bits = list(layout.thread)
    for place, basis in enumerate(bits):
        if not basis and register:
            bits[place] = register.pop(0)
    return Layout(layout.size, tuple(register), tuple(bits[:LANES]), tuple(bits[LANES:]))
