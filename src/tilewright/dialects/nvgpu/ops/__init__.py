"""The operations, one module for each family."""

from tilewright.dialects.nvgpu.ops import arithmetic, async_copy, matrix, mbarrier, tma, warpgroup

__all__ = ["arithmetic", "async_copy", "matrix", "mbarrier", "tma", "warpgroup"]
