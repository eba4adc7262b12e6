"""The simulator: runs kernels of ``nvgpu`` and the dialects around it on a CPU.

``Program(module).launch(kernel, grid, args, LaunchOptions(block=...))`` runs a kernel on NumPy arrays, detects errors
that hang or corrupt a GPU, counts events, and draws timelines. ``docs/simulator.md`` documents what is modelled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.lazy import lazy_names

if TYPE_CHECKING:
    from tilewright.simulator.architectures import Occupancy, occupancy
    from tilewright.simulator.counters import Counters
    from tilewright.simulator.host import HostResult, run_host
    from tilewright.simulator.launch import Program, SimulationResult
    from tilewright.simulator.tensor_maps import TensorMap
    from tilewright.simulator.timeline import Timeline

__all__ = [
    "Counters",
    "HostResult",
    "Occupancy",
    "Program",
    "SimulationResult",
    "TensorMap",
    "Timeline",
    "occupancy",
    "run_host",
]

__getattr__, __dir__ = lazy_names(
    globals(),
    {
        "architectures": "Occupancy occupancy",
        "counters": "Counters",
        "host": "HostResult run_host",
        "launch": "Program SimulationResult",
        "tensor_maps": "TensorMap",
        "timeline": "Timeline",
    },
)
