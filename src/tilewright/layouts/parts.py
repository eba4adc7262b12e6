"""Layouts of parts of tiles, and of tiles made of parts: all extents and offsets are such that a part is
what some bits of the element's number say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.layouts import gf2
from tilewright.layouts.layout import Layout, axis_bits

#: Registers that a part's tile may have at most for threads to hold all parts of it.
MOST_REGISTERS = 64


@dataclass(frozen=True, slots=True)
class Part:
    """The elements of a tile whose number, at the bits ``mask``, is ``value``."""

    mask: int
    value: int

    def below(self, bits: int) -> list[int | None]:
        """For each of the bits of the tile's numbers its place in those of the part."""
        found: list[int | None] = []
        below = 0
        for bit in range(bits):
            inside = self.mask >> bit & 1
            found.append(None if inside else below)
            below += not inside
        return found


def part_of(dims: Sequence[int], part: Sequence[int], starts: Sequence[int]) -> Part | None:
    """The part of extents ``part`` that starts at ``starts``; None where no bits of a number say it."""
    mask = value = 0
    for bits, extent, start in zip(axis_bits(dims), part, starts, strict=True):
        if extent & (extent - 1) or start % extent:
            return None
        low = bits.start + extent.bit_length() - 1
        mask |= (1 << bits.stop) - (1 << low)
        value |= start << bits.start
    return Part(mask, value)


def says_bits(layout: Layout, mask: int) -> bool:
    """Whether each bit of ``mask`` is told by one bit of the number of the register or of the thread,
    which tells nothing else."""
    found = [basis for basis in layout.bases if basis & mask]
    return all(not basis & (basis - 1) for basis in found) and len(set(found)) == len(found)


def with_all_parts(layout: Layout, mask: int) -> Layout | None:
    """A layout in which each thread holds all parts that ``mask`` tells apart of what it has of one;
    None where that takes too many registers."""
    if not says_bits(layout, mask):
        return None
    thread = [basis for basis in layout.thread if basis & mask]
    if thread and layout.registers << len(thread) > MOST_REGISTERS:
        return None
    cleared = [0 if basis & mask else basis for basis in layout.thread]
    return Layout(layout.size, (*layout.register, *thread), tuple(cleared[:5]), tuple(cleared[5:]))


def part_layout(layout: Layout, part: Part) -> Layout:
    """The layout of a part of a tile, in the layout that the tile has."""
    size = layout.size >> part.mask.bit_count()
    return layout.mapped(size, part.below(layout.bits)).without_copies()


def registers_of_part(layout: Layout, part: Part) -> list[int] | None:
    """The registers that hold the elements of ``part_layout`` in a layout that has all parts; None where
    it has not."""
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
    """The layout of two tiles in this layout put together so that bit ``bit`` of the element's number
    tells which it is of.

    Threads that hold the same elements twice hold one of each tile then; where there are none,
    registers double.
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
