"""Memory for the tiles of the block that a thread is running."""

from __future__ import annotations

import ctypes
import mmap
from contextlib import suppress

from tilewright.cpu.abi import ARENA_ALIGNMENT, ARENA_PREFIX
from tilewright.diagnostics import TileIRError, define_code

OUT_OF_MEMORY = define_code(
    "cpu-out-of-memory",
    "There is not enough memory for the tiles of a kernel.",
    "Every thread needs memory for the tiles of one tile block. Use smaller tiles, or fewer threads.",
)


#: Arenas from this size on lie in large pages, where the system has them: with small ones a product
#: waits for addresses to be translated, and its tiles may meet in the same lines of the caches.
_LARGE, _LARGE_PAGE = 1 << 20, 1 << 21


class Arena:
    """Aligned memory that grows when more is asked for, behind a prefix (``abi``) that begins as zero.
    Its contents last for one launch."""

    def __init__(self) -> None:
        self._memory: ctypes.Array[ctypes.c_char] | None = None
        self._size = -1
        self._address = 0

    def address(self, size: int) -> int:
        """The address of at least ``size`` bytes, a multiple of ``ARENA_ALIGNMENT``.

        Asking for more moves the arena, and what it held is lost. Raises ``TileIRError`` (``cpu-out-of-memory``).
        """
        if size > self._size:
            self._memory = None
            try:
                self._memory = _memory(ARENA_PREFIX + size + ARENA_ALIGNMENT)
            except (MemoryError, OverflowError, ValueError, OSError):
                self._size = -1
                raise TileIRError.single(
                    OUT_OF_MEMORY,
                    f"a thread needs {size} bytes for tiles, which cannot be allocated",
                ) from None
            start = ctypes.addressof(self._memory) + ARENA_PREFIX
            self._address = -(-start // ARENA_ALIGNMENT) * ARENA_ALIGNMENT
            self._size = size
        return self._address


def _memory(size: int) -> ctypes.Array[ctypes.c_char]:
    """That many bytes of zeros."""
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if advice is None or size < _LARGE:
        return (ctypes.c_char * size)()
    pages = mmap.mmap(-1, size + _LARGE_PAGE)
    with suppress(OSError):
        pages.madvise(advice)
    # What is handed out begins with a large page.
    start = -ctypes.addressof(ctypes.c_char.from_buffer(pages)) % _LARGE_PAGE
    return (ctypes.c_char * size).from_buffer(pages, start)
