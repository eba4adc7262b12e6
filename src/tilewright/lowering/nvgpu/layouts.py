"""Which thread holds which elements of a tile, in the direct lowering.

There is one layout per number of elements. Tiles of the same size, whatever their shape and element type, are distributed
alike, so element-wise operations and reshapes move nothing. Elements are numbered in row-major order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Neighbours that one thread holds side by side: 16 bytes of f32.
CHUNK = 4


@dataclass(frozen=True, slots=True)
class Layout:
    """How ``size`` elements, a power of two, are dealt to ``threads``, another one.

    Thread t holds the chunks t, t + threads, t + 2 threads, ... in this order. Where there are
    fewer elements than threads, thread t holds element t modulo ``size``: several hold the same,
    and the first of them owns it.
    """

    size: int
    threads: int

    @property
    def registers(self) -> int:
        """How many elements each thread holds."""
        return max(self.size // self.threads, 1)

    @property
    def chunk(self) -> int:
        """How many elements of a thread are moved by one round of a loop."""
        return min(self.registers, CHUNK)

    @property
    def is_replicated(self) -> bool:
        """Whether several threads hold the same element."""
        return self.size < self.threads

    @property
    def offsets(self) -> tuple[int, ...]:
        """The number of each element of a thread, counted from its first one."""
        return tuple(
            row * self.threads * self.chunk + column
            for row in range(self.registers // self.chunk)
            for column in range(self.chunk)
        )


def coordinates_of(number: int, dims: Sequence[int]) -> list[int]:
    """The place of the element with a number along each axis."""
    found: list[int] = []
    for extent in reversed(dims):
        number, place = divmod(number, extent)
        found.append(place)
    return found[::-1]
