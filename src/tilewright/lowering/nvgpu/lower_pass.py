"""The direct lowering to per-thread code, as a pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import builtin
from xdsl.ir import Operation

from tilewright.lowering.nvgpu.driver import lower_to_nvgpu
from tilewright.lowering.nvgpu.options import NvgpuOptions
from tilewright.passes.base import NV_TILEAA, NVGPU, TilePass
from tilewright.passes.tileas.warp_counts import DEFAULT_WARPS


@dataclass(frozen=True)
class LowerTileAAToNvgpu(TilePass):
    """Lowers the kernels of nv_tileaa to per-thread code in a ``gpu.module``.

    ``num_warps``: the warps of a block of kernels without a hint. A module is changed in place.
    """

    name: ClassVar[str] = "lower-tileaa-to-nvgpu"
    LEVEL: ClassVar = NV_TILEAA
    RESULT: ClassVar = NVGPU

    num_warps: int = DEFAULT_WARPS

    def __post_init__(self) -> None:
        NvgpuOptions(self.num_warps)

    def rewrite(self, root: Operation) -> Operation | None:
        """Lower the module in place; returns None.

        Raises ``TileIRError`` (``bad-block-warps``, ``not-lowered-to-threads``).
        """
        assert isinstance(root, builtin.ModuleOp), "a lowering takes a whole module"
        put_in_place(root, lower_to_nvgpu(root, NvgpuOptions(self.num_warps)).module)
        return None


def put_in_place(root: builtin.ModuleOp, lowered: builtin.ModuleOp) -> None:
    """Replace the body and attributes of ``root`` by those of ``lowered``, which is left empty."""
    body = root.body
    body.detach_block(body.block)
    body.add_block(lowered.body.detach_block(0))
    root.attributes = dict(lowered.attributes)
