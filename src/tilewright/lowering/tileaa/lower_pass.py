"""The lowering to ``nv_tileaa`` as a pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import builtin
from xdsl.ir import Operation

from tilewright.dialects.cuda_tile.ops.module import ModuleOp
from tilewright.lowering.tileaa.driver import lower_to_tileaa
from tilewright.lowering.tileaa.options import DEFAULT_TARGET, DEFAULT_WARPS, TileAAOptions
from tilewright.passes.base import NV_TILEAA, TilePass


@dataclass(frozen=True)
class LowerCudaTileToTileAA(TilePass):
    """Lowers cuda_tile to nv_tileaa for a target architecture.

    A builtin module is changed in place; a ``cuda_tile.module`` is replaced by a new builtin module. ``num_warps``:
    the warps of a block of kernels without a hint. ``grid``: the blocks along each axis of a launch, if they are
    known.
    """

    name: ClassVar[str] = "lower-cuda-tile-to-tileaa"
    RESULT: ClassVar = NV_TILEAA

    target: str = DEFAULT_TARGET
    num_warps: int = DEFAULT_WARPS
    grid: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self._options()

    def _options(self) -> TileAAOptions:
        return TileAAOptions(self.target, self.num_warps, self.grid)

    def rewrite(self, root: Operation) -> Operation | None:
        assert isinstance(root, ModuleOp | builtin.ModuleOp), "a lowering takes a whole module"
        lowered = lower_to_tileaa(root, self._options()).module
        if isinstance(root, ModuleOp):
            return lowered
        body = root.body
        body.detach_block(body.block)
        body.add_block(lowered.body.detach_block(0))
        root.attributes = dict(lowered.attributes)
        root.properties = dict(lowered.properties)
        return None
