"""Options of the direct lowering."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.diagnostics import define_code
from tilewright.passes.tileas.warp_counts import DEFAULT_WARPS, check_warps

NOT_LOWERED = define_code(
    "not-lowered-to-threads",
    "An operation cannot be lowered from nv_tileaa to nvgpu.",
    "The message says which operation and why. The reference machine and the CPU support more of "
    "nv_tileaa than the GPU.",
)


@dataclass(frozen=True, slots=True)
class NvgpuOptions:
    """The options of the lowering.

    ``num_warps``: the warps per block of a kernel that does not specify them. ``shared_bytes``: the shared memory per
    block; tiles that need more for a layout conversion are refused. ``compute``: the compute capability times ten;
    newer instructions are not used.

    Raises ``TileIRError`` (``bad-block-warps``).
    """

    num_warps: int = DEFAULT_WARPS
    shared_bytes: int = 227 << 10
    compute: int = 80

    def __post_init__(self) -> None:
        check_warps(self.num_warps)
