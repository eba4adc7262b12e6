"""Legal numbers of warps per block."""

from __future__ import annotations

from tilewright.diagnostics import TileIRError, define_code

BAD_WARPS = define_code(
    "bad-block-warps", "The number of warps of a block is a power of two from 1 to 32."
)


def check_warps(warps: int) -> None:
    """A ``TileIRError`` unless a block can have so many warps."""
    if warps not in (1, 2, 4, 8, 16, 32):
        raise TileIRError.single(
            BAD_WARPS, f"expected 1, 2, 4, 8, 16 or 32 warps per block, got {warps}"
        )
