"""Layouts of tile slices and concatenations.

Extents and offsets are powers of two, so a part is selected by bits of the element's number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.layouts import gf2
from tilewright.layouts.layout import Layout, axis_bits

#: The registers per thread up to which each thread may hold all parts of a tile.
MOST_REGISTERS = 64


@dataclass(frozen=True, slots=True)
class Part:
    """The elements of a tile whose number, masked by ``mask``, is ``value``."""

    mask: int
    value: int

    def below(self, bits: int) -> list[int | None]:
        """For each bit of the tile's numbers, its position in those of the part; None for bits of ``mask``."""
        found: list[int | None] = []
        below = 0
        for bit in range(bits):
            inside = self.mask >> bit & 1
            found.append(None if inside else below)
            below += not inside
        return found


def part_of(dims: Sequence[int], part: Sequence[int], starts: Sequence[int]) -> Part | None:
    """The part of extents ``part`` that starts at ``starts``; None if no bits of the number select it."""
    mask = value = 0
    for bits, extent, start in zip(axis_bits(dims), part, starts, strict=True):
        if extent & (extent - 1) or start % extent:
            return None
        low = bits.start + extent.bit_length() - 1
        mask |= (1 << bits.stop) - (1 << low)
        value |= start << bits.start
    return Part(mask, value)


def says_bits(layout: Layout, mask: int) -> bool:
    """Whether each bit of ``mask`` is determined by one register or thread bit, which determines nothing else."""
    found = [basis for basis in layout.bases if basis & mask]
    return all(not basis & (basis - 1) for basis in found) and len(set(found)) == len(found)


def with_all_parts(layout: Layout, mask: int) -> Layout | None:
    """A layout in which each thread holds its elements of all parts that ``mask`` distinguishes; None if that takes too
    many registers.
    """
    if not says_bits(layout, mask):
        return None
    thread = [basis for basis in layout.thread if basis & mask]
    if thread and layout.registers << len(thread) > MOST_REGISTERS:
        return None
    cleared = [0 if basis & mask else basis for basis in layout.thread]
    return Layout(layout.size, (*layout.register, *thread), tuple(cleared[:5]), tuple(cleared[5:]))


def part_layout(layout: Layout, part: Part) -> Layout:
    """The layout of a part, from that of the whole tile."""
    size = layout.size >> part.mask.bit_count()
    return layout.mapped(size, part.below(layout.bits)).without_copies()


def registers_of_part(layout: Layout, part: Part) -> list[int] | None:
    """The registers that hold the elements of ``part_layout``, in a layout with all parts; None if a register is
    missing.
    """
    places = [bit for bit, place in enumerate(part.below(layout.bits)) if place is not None]
    found: list[int] = []
    for offset in part_layout(layout, part).offsets:
        element = part.value
        for place, bit in enumerate(places):
            element |= (offset >> place & 1) << bit
        register = gf2.solve(layout.register, element)
        if register is None:
            return None
        found.append(register)
    return found


def joined_layout(layout: Layout, bit: int) -> Layout:
    """The layout of two tiles of this layout joined such that bit ``bit`` of the element's number selects the tile.

    Threads that held copies then hold one tile each; without copies, the registers double.
    """

    def widened(basis: int) -> int:
        low = basis & ((1 << bit) - 1)
        return low | (basis ^ low) << 1

    register = [widened(basis) for basis in layout.register]
    thread = [widened(basis) for basis in layout.thread]
    if 0 in thread:
        thread[thread.index(0)] = 1 << bit
    else:
        place = sum(1 for basis in register if basis < 1 << bit)
        register.insert(place, 1 << bit)
    return Layout(2 * layout.size, tuple(register), tuple(thread[:5]), tuple(thread[5:]))
