"""Lowers whole ``nv_tileas`` modules."""

from __future__ import annotations

from xdsl.dialects import builtin as b

from tilewright.lowering.nvgpu.driver import LoweredThreads, lower_kernels
from tilewright.lowering.nvgpu.options import NvgpuOptions
from tilewright.lowering.scheduled import (
    accesses,
    agents,
    asynchronous,
    atomics,
    conversions,
    parts,
    pipelines,
    products,
    reductions,
    repacking,
    scans,
    shapes,
    stores,
)
from tilewright.lowering.scheduled.state import ScheduledKernel

#: The files that fill the table.
FAMILIES = (
    accesses,
    agents,
    asynchronous,
    atomics,
    conversions,
    parts,
    pipelines,
    products,
    reductions,
    repacking,
    scans,
    shapes,
    stores,
)


def lower_scheduled(
    module: b.ModuleOp, options: NvgpuOptions | None = None, entry: str | None = None
) -> LoweredThreads:
    """The kernels of a verified module whose tiles have layouts, as per-thread code; all, or that named.

    Raises ``TileIRError`` as ``lower_to_nvgpu`` does.
    """
    return lower_kernels(module, options or NvgpuOptions(), entry, ScheduledKernel)
