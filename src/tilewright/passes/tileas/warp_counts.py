"""Legal numbers of warps per block."""

from __future__ import annotations

from tilewright.diagnostics import TileIRError, define_code

BAD_WARPS = define_code("bad-block-warps", "A block has a power of two of warps, 1 to 32.")


def check_warps(warps: int) -> None:
    """A ``TileIRError`` unless a block can have so many warps."""
    if warps not in (1, 2, 4, 8, 16, 32):
        raise TileIRError.single(BAD_WARPS, f"a block has 1, 2, 4, 8, 16 or 32 warps, got {warps}")
