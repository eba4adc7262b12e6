"""Registers the reference machine with ``launching.machine``."""

from __future__ import annotations

from xdsl.ir import Operation

from tilewright.launching.machine import unsupported_level
from tilewright.launching.modules import is_tile_ir
from tilewright.launching.options import LaunchOptions
from tilewright.machine.launch import Program


def check(variant: str) -> None:
    """Always succeeds: this machine is always available."""


def load(module: Operation, variant: str, options: LaunchOptions) -> Program:
    """Load a module of ``cuda_tile`` or ``nv_tileaa``. Raises TileIRError for one of ``nvgpu``."""
    if not is_tile_ir(module):
        raise unsupported_level("reference")
    return Program(module, options)


def get_ready() -> None:
    """Does nothing: importing the machine is all the preparation it needs."""
