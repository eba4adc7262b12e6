"""Which thread holds which elements of a tile, in the direct lowering.

There is one layout per number of elements. Tiles of the same size, whatever their shape and element type, are
distributed alike, so element-wise operations and reshapes move nothing. Elements are numbered in row-major order.
"""

from __future__ import annotations

from dataclasses import dataclass

#: The adjacent elements of a thread: 16 bytes of f32.
CHUNK = 4


@dataclass(frozen=True, slots=True)
class Layout:
    """The distribution of ``size`` elements over ``threads`` threads; both are powers of two.

    Thread t holds the chunks t, t + threads, t + 2 threads, ... in this order. If there are fewer elements than
    threads, thread t holds element t modulo ``size``; the first thread that holds an element owns it.
    """

    size: int
    threads: int

    @property
    def registers(self) -> int:
        """The number of elements per thread."""
        return max(self.size // self.threads, 1)

    @property
    def chunk(self) -> int:
        """The number of adjacent elements in a chunk."""
        return min(self.registers, CHUNK)

    @property
    def is_replicated(self) -> bool:
        """Whether several threads hold the same element."""
        return self.size < self.threads

    @property
    def offsets(self) -> tuple[int, ...]:
        """The row-major offset of each element of a thread from its first one."""
        return tuple(
            row * self.threads * self.chunk + column
            for row in range(self.registers // self.chunk)
            for column in range(self.chunk)
        )
