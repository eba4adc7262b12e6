"""Memory for the tiles of the block that a thread is running."""

from __future__ import annotations

import ctypes

from tilewright.cpu.abi import ARENA_ALIGNMENT
from tilewright.diagnostics import TileIRError, define_code

OUT_OF_MEMORY = define_code(
    "cpu-out-of-memory",
    "There is not enough memory for the tiles of a kernel.",
    "Every thread needs room for the tiles of one tile block. Use smaller tiles, or fewer threads.",
)


class Arena:
    """Aligned memory that grows when more is asked for. Its contents do not last."""

    def __init__(self) -> None:
        self._memory: ctypes.Array[ctypes.c_char] | None = None
        self._size = -1
        self._address = 0

    def address(self, size: int) -> int:
        """The address of at least ``size`` bytes; a TileIRError where there are none."""
        if size > self._size:
            self._memory = None
            try:
                self._memory = (ctypes.c_char * (size + ARENA_ALIGNMENT))()
            except (MemoryError, OverflowError, ValueError):
                self._size = -1
                raise TileIRError.single(
                    OUT_OF_MEMORY, f"a thread needs {size} bytes for tiles, which cannot be had"
                ) from None
            start = ctypes.addressof(self._memory)
            self._address = -(-start // ARENA_ALIGNMENT) * ARENA_ALIGNMENT
            self._size = size
        return self._address
