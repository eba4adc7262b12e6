"""The lowering of tiles with layouts to per-thread code, as a pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import builtin
from xdsl.ir import Operation

from tilewright.lowering.nvgpu.lower_pass import put_in_place
from tilewright.lowering.nvgpu.options import NvgpuOptions
from tilewright.lowering.scheduled.driver import lower_scheduled
from tilewright.passes.base import NV_TILEAA, NVGPU, TilePass
from tilewright.passes.tileas.warp_counts import DEFAULT_WARPS


@dataclass(frozen=True)
class ConvertTileasToNvgpu(TilePass):
    """Lowers scheduled kernels to per-thread code in a ``gpu.module``.

    ``num_warps``: the warps of a block of kernels without a hint. Tiles without a layout get that of operations
    without a rule.
    """

    name: ClassVar[str] = "convert-tileas-to-nvgpu"
    LEVEL: ClassVar = NV_TILEAA
    RESULT: ClassVar = NVGPU

    num_warps: int = DEFAULT_WARPS

    def __post_init__(self) -> None:
        NvgpuOptions(self.num_warps)

    def rewrite(self, root: Operation) -> Operation | None:
        assert isinstance(root, builtin.ModuleOp), "a lowering takes a whole module"
        lowered = lower_scheduled(root, NvgpuOptions(self.num_warps))
        put_in_place(root, lowered.module)
        return None
