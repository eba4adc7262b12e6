"""Lowers ``nv_tileaa`` directly to per-thread code (``-O0``): ``gpu``, ``scf``, ``arith``, ``vector``, ``llvm`` for
global memory, ``memref`` for shared memory, and ``nvgpu``.
"""

from tilewright.lowering.nvgpu.driver import LoweredThreads, ThreadKernel, lower_to_nvgpu
from tilewright.lowering.nvgpu.options import NvgpuOptions

__all__ = ["LoweredThreads", "NvgpuOptions", "ThreadKernel", "lower_to_nvgpu"]
