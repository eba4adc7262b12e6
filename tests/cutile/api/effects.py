"""Printing, assertions that hold, dependencies between launches."""

from __future__ import annotations

import cuda.tile as ct
import numpy as np
from tests.corpus.cutile._table import canvas, integers
from tests.cutile.api._cases import Cases

CASES = Cases()


@CASES.add(
    lambda rng: {"x": np.arange(8, dtype=np.int32)},
    lambda given: {},
    prints=(
        "number 7 and tile [0, 1, 2, 3]",
        "[[0, 1], [2, 3]]-0.50|",
        "a-b",
        "  7 0x7 3.25e+00",
        "100%",
        "f: 7, 0007, [4, 5, 6, 7]",
    ),
)
@ct.kernel
def prints(x):
    number = ct.full((), 7, ct.int32)
    tile = ct.load(x, (0,), (4,))
    print(f"number {number} and tile {tile}")
    ct.print(tile.reshape((2, 2)), f"{ct.full((), 0.5, ct.float32):.2f}", sep="-", end="|\n")
    ct.print("a", "b", sep="-")
    ct.printf("%3d 0x%x %.2e\n", number, number, ct.full((), 3.25, ct.float32))
    ct.printf("100%%\n")
    ct.print(f"f: {number}, {number:04d}, {ct.load(x, (1,), (4,))}")


@CASES.add(
    lambda rng: {"x": integers(rng, 8, 1, 9), "out": canvas(8, np.int32)},
    lambda given: {"out": given["x"]},
)
@ct.kernel
def assertions(x, out):
    tile = ct.load(x, (0,), (8,))
    ct.assert_(tile > 0)
    ct.assert_(tile < 10, "too large")
    ct.assert_(ct.sum(tile) >= 8, message="too small")
    ct.store(out, (0,), tile)


@CASES.add(
    lambda rng: {"x": integers(rng, 8, 1, 9), "out": canvas(8, np.int32)},
    lambda given: {"out": given["x"] + 1},
)
@ct.kernel
def dependent_launches(x, out):
    ct.grid_dependency_control_wait()
    tile = ct.load(x, (0,), (8,))
    ct.grid_dependency_control_launch_dependents()
    ct.store(out, (0,), tile + 1)
