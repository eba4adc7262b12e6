"""Layouts of tiles in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tilewright.layouts import gf2
from tilewright.layouts.layout import Layout, axis_bits, bits_of

#: Shared memory moves 128 bytes per access: 32 banks of 4 bytes.
ROW_BYTES = 128
#: The period of the swizzle, in rows of 128 bytes.
SWIZZLED_ROWS = 8


@dataclass(frozen=True)
class SharedLayout:
    """A linear bijection from the number of an element to its position, in elements.

    ``basis[i]`` is the position of element ``1 << i``; others are the XOR over their bits. Raises ``ValueError`` if
    two elements have the same position.
    """

    basis: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(gf2.Space(self.basis)) != len(self.basis) or any(
            place >> len(self.basis) for place in self.basis
        ):
            raise ValueError("two elements have the same position")

    @property
    def size(self) -> int:
        """The number of elements."""
        return 1 << len(self.basis)

    def place(self, element: int) -> int:
        """The position of an element, in elements from the start."""
        return gf2.apply(self.basis, element)

    @cached_property
    def inverse(self) -> tuple[int, ...]:
        """For each bit of a position, the number of the element at that power of two."""
        found: list[int] = []
        for bit in range(len(self.basis)):
            solution = gf2.solve(self.basis, 1 << bit)
            assert solution is not None
            found.append(solution)
        return tuple(found)

    @staticmethod
    def row_major(size: int) -> SharedLayout:
        """Each element at the position of its number. Raises ``ValueError`` if ``size`` is not a power of two."""
        return SharedLayout(tuple(1 << bit for bit in range(bits_of(size))))

    @staticmethod
    def swizzled(shape: Sequence[int], inner: int, element_bytes: int) -> SharedLayout:
        """Rows along axis ``inner``, in 16-byte chunks XORed by the row; the other axes above in row-major order.

        8 chunks in one column, and 8 in one row, are in different banks. Rows of more than 128 bytes are split into
        consecutive panels of 128. The period is that of TMA's 128-byte swizzle (PTX instruction set, "Swizzling
        Modes") for rows of 128 bytes or more, else that of the 64- or 32-byte one: bits [4, 7), [4, 6) or bit 4 of
        the address are XORed with those from bit 7 on.
        """
        ranges = axis_bits(shape)
        along = list(ranges[inner])
        others = [
            bit for axis in reversed(range(len(shape))) if axis != inner for bit in ranges[axis]
        ]
        chunk = bits_of(16 // element_bytes)
        row = bits_of(ROW_BYTES // element_bytes)
        order = along[:row] + others + along[row:]
        place = {bit: 1 << position for position, bit in enumerate(order)}
        width = min(len(along), row) - chunk
        for position in range(width):
            source = row + position
            if source < len(order) and position + chunk < row:
                place[order[source]] |= 1 << (chunk + position)
        return SharedLayout(tuple(place[bit] for bit in range(len(order))))

    def vector(self, layout: Layout, limit: int) -> int:
        """The number of elements adjacent in memory that successive registers of a layout hold, at most ``limit``.

        A power of two; every register and thread starts its vectors at a multiple of it.
        """
        found = 0
        for position, basis in enumerate(layout.register):
            if 1 << (position + 1) > limit or self.place(basis) != 1 << position:
                break
            found += 1
        others = [self.place(basis) for basis in (*layout.register[found:], *layout.thread)]
        while any(place & ((1 << found) - 1) for place in others):
            found -= 1
            others.append(self.place(layout.register[found]))
        return 1 << found

    def waves(self, layout: Layout, vector: int, element_bytes: int) -> int:
        """The accesses to a bank that a phase of lanes takes when each warp accesses the vectors of a register; 1
        without bank conflicts.
        """
        bytes_each = vector * element_bytes
        phase = min(32, max(ROW_BYTES // bytes_each, 1))
        worst = 1
        for start in range(0, 32, phase):
            banks: dict[int, set[int]] = {}
            for lane in range(start, start + phase):
                first = self.place(gf2.apply(layout.lane, lane)) * element_bytes
                for word in range(first // 4, max((first + bytes_each + 3) // 4, first // 4 + 1)):
                    banks.setdefault(word % 32, set()).add(word)
            worst = max(worst, *(len(words) for words in banks.values()))
        return worst
