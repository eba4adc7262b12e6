"""The same kernel on every machine that runs here, which must all leave what the reference leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright import LaunchOptions
from tilewright.cpu import Program as CpuProgram
from tilewright.lowering import TileAAOptions, lower_to_tileaa
from tilewright.machine import Program as ReferenceProgram
from tilewright.simulator.tiles import TileProgram

Grid = tuple[int, int, int]
Launch = Callable[[Any, Grid, Sequence[np.ndarray]], object]
ARCHITECTURES = ("sm_80", "sm_90a", "sm_120a")


def _tileaa(module: Any) -> Any:
    return ReferenceProgram(lower_to_tileaa(module, TileAAOptions(target="sm_100")).module)


def _cpu(**options: Any) -> Callable[[Any], Any]:
    given = LaunchOptions(**options)
    return lambda module: CpuProgram(module, options=given)


def _simulator(arch: str) -> Callable[[Any], Any]:
    return lambda module: TileProgram(module, arch)


PROGRAMS: Mapping[str, Callable[[Any], Any]] = {
    "reference": ReferenceProgram,
    "nv_tileaa": _tileaa,
    "cpu": _cpu(),
    "cpu-generic": _cpu(cpu="generic"),
    "cpu-checked": _cpu(checked=True),
} | {f"sim:{arch}": _simulator(arch) for arch in ARCHITECTURES}
"""Each makes a program of a verified module, whose code is made once."""


def _launch(machine: str) -> Launch:
    return lambda module, grid, arrays: PROGRAMS[machine](module).launch(None, grid, arrays)


MACHINES: Mapping[str, Launch] = {machine: _launch(machine) for machine in PROGRAMS}
"""Each runs the only kernel of a verified module over a grid, in place."""


def run(
    machine: str, module: Any, arrays: Sequence[np.ndarray], grid: Grid = (1, 1, 1)
) -> list[np.ndarray]:
    """The arrays after a launch; those given stay as they are."""
    held = [array.copy() for array in arrays]
    MACHINES[machine](module, grid, held)
    return held
