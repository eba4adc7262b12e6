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


def _reference(module: Any, grid: Grid, arrays: Sequence[np.ndarray]) -> object:
    return ReferenceProgram(module).launch(None, grid, arrays)


def _tileaa(module: Any, grid: Grid, arrays: Sequence[np.ndarray]) -> object:
    lowered = lower_to_tileaa(module, TileAAOptions(target="sm_100")).module
    return ReferenceProgram(lowered).launch(None, grid, arrays)


def _cpu(**options: Any) -> Launch:
    given = LaunchOptions(**options)
    return lambda module, grid, arrays: CpuProgram(module, options=given).launch(None, grid, arrays)


def _simulator(arch: str) -> Launch:
    return lambda module, grid, arrays: TileProgram(module, arch).launch(None, grid, arrays)


MACHINES: Mapping[str, Launch] = {
    "reference": _reference,
    "nv_tileaa": _tileaa,
    "cpu": _cpu(),
    "cpu-generic": _cpu(cpu="generic"),
    "cpu-checked": _cpu(checked=True),
} | {f"sim:{arch}": _simulator(arch) for arch in ARCHITECTURES}
"""Each runs the only kernel of a verified module over a grid, in place."""


def run(
    machine: str, module: Any, arrays: Sequence[np.ndarray], grid: Grid = (1, 1, 1)
) -> list[np.ndarray]:
    """The arrays after a launch; those given stay as they are."""
    held = [array.copy() for array in arrays]
    MACHINES[machine](module, grid, held)
    return held
