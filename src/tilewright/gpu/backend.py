"""Registers GPUs with ``launching.machine``: for tile kernels, and for per-thread ones."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tilewright.gpu.architectures import architecture
from tilewright.gpu.driver import open_gpu
from tilewright.gpu.tiles import ThreadProgram, TileProgram
from tilewright.launching.modules import is_tile_ir
from tilewright.launching.options import LaunchOptions


def check(variant: str) -> None:
    """A TileIRError for an architecture that there is not, and where there is no GPU."""
    if variant:
        architecture(variant)
    open_gpu()


def load(module: Operation, variant: str, options: LaunchOptions) -> TileProgram | ThreadProgram:
    """A module of ``cuda_tile``, ``nv_tileaa`` or ``nvgpu``."""
    if is_tile_ir(module):
        return TileProgram(module, variant or None, options)
    return ThreadProgram(cast("ModuleOp", module), variant or None, options)


def get_ready() -> None:
    """Importing it is all there is to do."""
