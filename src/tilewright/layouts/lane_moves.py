"""Conversions between layouts whose warps hold the same elements: lanes hand registers to one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.layouts import gf2
from tilewright.layouts.layout import Layout

LANES = 5
#: The most registers of a tile for which lanes exchange halves: what it takes to choose them grows.
MOST_SWAPPED = 16


@dataclass(frozen=True, slots=True)
class Swap:
    """Registers are put in this ``order``; then bit ``register`` of their number and bit ``thread`` of the
    thread's, which is one of the lane's, change places. ``drops``: the threads that differ in the bit, be
    it the warp's, have the same registers, and keep those of their bit."""

    order: tuple[int, ...]
    register: int
    thread: int
    drops: bool


@dataclass(frozen=True, slots=True)
class Take:
    """Register r becomes register ``registers[r]`` of the lane whose number is ``lanes[r]`` XORed with
    ``thread[i]`` over the set bits i of the thread's own number.

    ``both``: a bit of the lane's number in which two lanes get the registers of both; None elsewhere.
    """

    registers: tuple[int, ...]
    lanes: tuple[int, ...]
    thread: tuple[int, ...]
    both: int | None

    @property
    def stays(self) -> bool:
        """Whether each thread reads lanes at distances from its own."""
        identity = tuple(1 << bit for bit in range(LANES))
        return self.thread[:LANES] == identity and not any(self.thread[LANES:])

    @property
    def count(self) -> int:
        """The shuffles of a register."""
        pairs = set(zip(self.registers, self.lanes, strict=True))
        if self.both is not None:
            return len(set(self.registers))
        return sum(1 for _, lane in pairs if lane or not self.stays)


@dataclass(frozen=True, slots=True)
class LaneMoves:
    """What lanes do, in order."""

    swaps: tuple[Swap, ...]
    take: Take

    def words(self, registers: int) -> int:
        """How many registers are handed over."""
        found = self.take.count
        for swap in self.swaps:
            found += 0 if swap.drops else registers // 2
            registers //= 2 if swap.drops else 1
        return found


def plan_lane_moves(source: Layout, target: Layout) -> LaneMoves | None:
    """How lanes bring a tile from a layout into another one; None where other warps hold what a warp
    needs, or where shared memory does it at less cost."""
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
    """The exchange after which a bit of the thread means what it should, where registers say that now."""
    own, wanted = source.thread[thread], target.thread[thread]
    register = gf2.solve(source.register, wanted)
    if not wanted or wanted == own or register is None or (thread >= LANES and own):
        return None
    bit = (register & -register).bit_length() - 1
    bases = list(source.register)
    bases[bit] = wanted
    order: list[int] = []
    for element in source.with_registers(bases).offsets:
        number = gf2.solve(source.register, element)
        assert number is not None
        order.append(number)
    bases[bit : bit + 1] = [own] if own else []
    bits = list(source.thread)
    bits[thread] = wanted
    swapped = Layout(source.size, tuple(bases), tuple(bits[:LANES]), tuple(bits[LANES:]))
    return Swap(tuple(order), bit, thread, not own), swapped


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
            # Another warp has it, or the register would depend on the thread.
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
    """The only bit of lanes that is read from both of a pair."""
    read = 0
    for lane in lanes:
        read |= lane
    if not read or read & (read - 1):
        return None
    bit = read.bit_length() - 1
    wanted = [1 << number if number != bit else 0 for number in range(LANES)]
    return bit if list(thread) == wanted + [0] * (len(thread) - LANES) else None


def spread_out(layout: Layout) -> Layout:
    """The same elements held by as many threads as possible: of those that hold the same ones each
    keeps a part."""
    register = list(layout.without_copies().register)
    bits = list(layout.thread)
    for place, basis in enumerate(bits):
        if not basis and register:
            bits[place] = register.pop(0)
    return Layout(layout.size, tuple(register), tuple(bits[:LANES]), tuple(bits[LANES:]))
