"""The simulator: runs kernels of ``nvgpu`` and the dialects around it on a CPU.

``Program(module).launch(kernel, grid, block, args)`` runs a kernel on NumPy arrays, finds what hangs
or corrupts a GPU, counts, and draws the pipeline. ``docs/simulator.md`` tells what is modelled.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.simulator.architectures import Occupancy, occupancy
    from tilewright.simulator.counters import Counters
    from tilewright.simulator.host import HostResult, run_host
    from tilewright.simulator.launch import Program, SimulationResult
    from tilewright.simulator.tensor_maps import TensorMap
    from tilewright.simulator.timeline import Timeline

_WHERE = {
    "Counters": "counters",
    "HostResult": "host",
    "Occupancy": "architectures",
    "Program": "launch",
    "SimulationResult": "launch",
    "TensorMap": "tensor_maps",
    "Timeline": "timeline",
    "occupancy": "architectures",
    "run_host": "host",
}
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


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"tilewright.simulator.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
