"""Registers the simulator with ``launching.machine``: for tile kernels, and for per-thread ones."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tilewright.launching.modules import is_tile_ir
from tilewright.launching.options import LaunchOptions
from tilewright.simulator.architectures import check_architecture
from tilewright.simulator.launch import Program
from tilewright.simulator.tiles import TileProgram


def check(variant: str) -> None:
    """Raise ``TileIRError`` for an architecture that the simulator does not know."""
    check_architecture(variant)


def load(module: Operation, variant: str, options: LaunchOptions) -> Program | TileProgram:
    """A program for a module of ``cuda_tile``, ``nv_tileaa`` or ``nvgpu``."""
    if is_tile_ir(module):
        return TileProgram(module, variant, options)
    return Program(cast("ModuleOp", module), variant, options)


def get_ready() -> None:
    """Nothing to do beyond the import of this module."""
