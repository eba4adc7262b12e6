"""How many warps a block has, and may have."""

from __future__ import annotations

from tilewright.diagnostics import TileIRError, define_code
from tilewright.dialects.nv_tileaa.attributes import KernelSpecAttr
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp

#: The warps of a block for which nothing says how many it has.
DEFAULT_WARPS = 4

BAD_WARPS = define_code(
    "bad-block-warps", "The number of warps of a block is a power of two from 1 to 32."
)


def check_warps(warps: int) -> None:
    """Raises ``TileIRError`` (``bad-block-warps``) unless a block can have ``warps`` warps: a power of two up to 32."""
    if warps not in (1, 2, 4, 8, 16, 32):
        raise TileIRError.single(
            BAD_WARPS, f"expected 1, 2, 4, 8, 16 or 32 warps per block, got {warps}"
        )


def block_warps(func: FuncOp, default: int = DEFAULT_WARPS) -> int:
    """The warps of a block of a kernel: those of its hint, else ``default``.

    Raises ``TileIRError`` (``bad-block-warps``) where a block cannot have so many.
    """
    spec = func.properties.get("kernel_spec")
    warps = spec.integer("numWarps") if isinstance(spec, KernelSpecAttr) else default
    check_warps(warps)
    return warps
