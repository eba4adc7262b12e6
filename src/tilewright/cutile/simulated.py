"""Launches on the simulator of a GPU architecture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.cutile.compiled import row_of, table_of
from tilewright.cutile.parameters import ArrayValue, ListValue, Value

if TYPE_CHECKING:
    from tilewright.cutile.scope import Settings
    from tilewright.dialects.cuda_tile.ops.module import ModuleOp


class SimulatedKernel:
    """A kernel as the threads of a simulated GPU; what the simulator finds ends a launch."""

    def __init__(self, module: ModuleOp, entry: str, arch: str):
        from tilewright.simulator.tiles import TileProgram

        self._program, self._entry = TileProgram(module, arch), entry

    def launch(
        self, grid: tuple[int, int, int], values: Sequence[Value], settings: Settings
    ) -> None:
        self._program.launch(
            self._entry,
            grid,
            list(arguments_of(values)),
            replace(
                settings.options,
                memory=[row for value in values for row in _listed(value)],
                allow_overlap=True,
            ),
        )


def arguments_of(values: Sequence[Value]) -> Iterator[object]:
    """What the entry of a kernel is given: arrays, extents, strides, numbers."""
    for value in values:
        if isinstance(value, ArrayValue):
            yield row_of(value)
            yield from value.layout.shape
            yield from value.layout.strides
        elif isinstance(value, ListValue):
            yield table_of(value)
            yield len(value.items)
        else:
            assert isinstance(value, np.ndarray)
            yield value.item()


def _listed(value: Value) -> Iterator[np.ndarray[Any, Any]]:
    """The memory of the arrays of a list, which kernels reach by their addresses."""
    if isinstance(value, ListValue):
        yield from map(row_of, value.items)
