"""What the lowering to the level of threads is told beside the program."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.diagnostics import TileIRError, define_code

NOT_LOWERED = define_code(
    "not-lowered-to-threads",
    "The lowering from nv_tileaa to nvgpu does not take an operation.",
    "The message says which operation and why. The reference machine and the CPU run more of "
    "nv_tileaa than becomes code for a GPU here.",
)
BAD_WARPS = define_code("bad-block-warps", "A block has a power of two of warps, 1 to 32.")
DEFAULT_WARPS = 4


@dataclass(frozen=True, slots=True)
class NvgpuOptions:
    """How ``nv_tileaa`` is lowered.

    ``num_warps``: the warps of a block where the kernel does not say how many. ``shared_bytes``: the
    shared memory that a block may take; tiles that need more to be rearranged are refused.
    ``compute``: the compute capability times ten; instructions that it lacks are not used.

    Raises ``TileIRError`` (``bad-block-warps``).
    """

    num_warps: int = DEFAULT_WARPS
    shared_bytes: int = 227 << 10
    compute: int = 80

    def __post_init__(self) -> None:
        check_warps(self.num_warps)


def check_warps(warps: int) -> None:
    """A ``TileIRError`` unless a block can have so many warps."""
    if warps not in (1, 2, 4, 8, 16, 32):
        raise TileIRError.single(BAD_WARPS, f"a block has 1, 2, 4, 8, 16 or 32 warps, got {warps}")
