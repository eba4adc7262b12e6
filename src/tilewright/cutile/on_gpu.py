"""Launches on a GPU, by the code that Tilewright makes of a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from tilewright.cutile.errors import RefusedError
from tilewright.cutile.parameters import ArrayValue, ListValue, Value
from tilewright.cutile.simulated import arguments_of
from tilewright.gpu.tiles import TileProgram

if TYPE_CHECKING:
    from tilewright.cutile.scope import Settings
    from tilewright.dialects.cuda_tile.ops.module import ModuleOp


class GpuKernel:
    """A kernel compiled for the GPU that there is. Arrays of the host are copied there and back, so
    that they must not overlap, and no table of arrays can be passed."""

    def __init__(self, module: ModuleOp, entry: str):
        self._program, self._entry = TileProgram(module), entry

    def launch(
        self, grid: tuple[int, int, int], values: Sequence[Value], settings: Settings
    ) -> None:
        if any(isinstance(value, ListValue) for value in values):
            raise RefusedError(
                "the machine 'cuda' copies arrays to the GPU and cannot pass lists of arrays; run the "
                "program without Tilewright"
            )
        spans = sorted(
            (v.address + v.layout.low, v.address + v.layout.low + v.layout.size)
            for v in values
            if isinstance(v, ArrayValue) and v.layout.size
        )
        if any(first[1] > second[0] for first, second in pairwise(spans)):
            raise RefusedError(
                "the machine 'cuda' copies arrays to the GPU and cannot pass arrays that overlap; run "
                "the program without Tilewright"
            )
        self._program.launch(self._entry, grid, list(arguments_of(values)))
