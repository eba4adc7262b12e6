"""Triton's benchmarking functions without a GPU: they time by the events of the device that is pretended.

Only ``triton.testing`` is served. Kernels of Triton need a GPU.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

#: A buffer that is cleared between runs, as there is no L2 to flush.
_CACHE_BYTES = 1 << 20


class _Utilities:
    """What programs ask of the GPU to size their grids."""

    def get_device_properties(self, device: int = 0) -> dict[str, int]:
        told = torch.cuda.get_device_properties(device)
        return {
            "max_shared_mem": told.shared_memory_per_block_optin,
            "max_num_regs": told.regs_per_multiprocessor,
            "multiprocessor_count": told.multi_processor_count,
            "warpSize": told.warp_size,
            "sm_clock_rate": told.clock_rate,
            "mem_clock_rate": told.memory_clock_rate,
            "mem_bus_width": told.memory_bus_width,
        }


class HostDriver:
    """What ``triton.testing`` asks of a driver."""

    utils = _Utilities()

    def get_device_interface(self) -> Any:
        """``torch.cuda``, which Triton asks for streams and events."""
        return torch.cuda

    def get_active_torch_device(self) -> torch.device:
        """The device that tensors are made on."""
        return torch.device("cuda", 0)

    def get_current_device(self) -> int:
        """The number of the only device."""
        return 0

    def get_current_stream(self, device: int = 0) -> int:
        """The handle of the stream, as torch gives it."""
        return torch.cuda.current_stream().cuda_stream

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        """A buffer that is larger than the caches, to be written between measurements."""
        return torch.empty(_CACHE_BYTES, dtype=torch.int8)

    def clear_cache(self, cache: torch.Tensor) -> None:
        """Write the buffer, so that caches hold nothing else."""
        cache.zero_()

    def get_benchmarker(self) -> Any:
        """Triton's ``do_bench``."""
        from triton.testing import do_bench

        return do_bench

    def get_current_target(self) -> Any:
        """Raises RefusedError: kernels of Triton need a GPU."""
        from tilewright.cutile.errors import RefusedError

        raise RefusedError("kernels of Triton need a GPU")

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Raises RefusedError, likewise."""
        return str(self.get_current_target())


def install() -> None:
    """Make it Triton's driver. Triton's own would look for the GPU that torch says it has."""
    sys.modules["triton.runtime.driver"].driver.set_active(HostDriver())
