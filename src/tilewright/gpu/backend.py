"""Registers GPUs with ``launching.machine``: for tile kernels, and for per-thread ones.

Whether there is a GPU is asked often where there is none: the compiler is imported when something is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tilewright.gpu.architectures import architecture
from tilewright.gpu.driver import open_gpu
from tilewright.launching import native_code as native_code  # says so where llvmlite is missing

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation

    from tilewright.gpu.tiles import ThreadProgram, TileProgram
    from tilewright.launching.options import LaunchOptions


def check(variant: str) -> None:
    """Raises ``TileIRError`` if the architecture is unknown (``gpu-unknown-target``), or if there is no GPU
    (``gpu-not-available``).
    """
    if variant:
        architecture(variant)
    open_gpu()


def load(module: Operation, variant: str, options: LaunchOptions) -> TileProgram | ThreadProgram:
    """A program for a module of ``cuda_tile``, ``nv_tileaa`` or ``nvgpu``; an empty ``variant`` is the GPU's
    architecture.
    """
    from tilewright.gpu.tiles import ThreadProgram, TileProgram
    from tilewright.launching.modules import is_tile_ir

    if is_tile_ir(module):
        return TileProgram(module, variant or None, options)
    return ThreadProgram(cast("ModuleOp", module), variant or None, options)


def get_ready() -> None:
    """Import the compiler."""
    from tilewright.gpu import tiles as tiles
