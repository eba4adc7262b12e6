"""The simulator: a Hopper tile step, a whole product, growth with blocks, and mma.sync."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.report import Table
from benchmarks.timing import interleaved
from tilewright.simulator import Program

_EXAMPLES = Path(__file__).resolve().parent.parent / "examples" / "nvgpu"


def _program(name: str) -> Program:
    path = _EXAMPLES / name
    return Program.parse(path.read_text(), str(path))


def _operands(m: int, n: int, k: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    return [a.astype(np.float16), b.astype(np.float16), np.zeros((m, n), np.float32)]


def _hopper(program: Program, m: int, n: int, k: int) -> Callable[[], object]:
    arrays = _operands(m, n, k)
    grid = n // 128, m // 128
    return lambda: program.launch(None, grid, 288, [*arrays, k // 64])


def tables(runs: int) -> list[Table]:
    hopper, mma = _program("matmul_hopper.mlir"), _program("matmul_mma.mlir")
    arrays = _operands(128, 128, 64)
    jobs: dict[str, Callable[[], object]] = {
        "Hopper kernel, 128 x 128 x 64 (one step of one block)": _hopper(hopper, 128, 128, 64),
        "Hopper kernel, 128 x 128 x 1024 (16 steps of one block)": _hopper(hopper, 128, 128, 1024),
        "Hopper kernel, 256 x 256 x 256 (4 blocks)": _hopper(hopper, 256, 256, 256),
        "Hopper kernel, 512 x 512 x 256 (16 blocks)": _hopper(hopper, 512, 512, 256),
        "mma.sync kernel, 128 x 128 x 64 (4 blocks, 2 steps)": lambda: mma.launch(
            None, (2, 2), 128, arrays, arch="sm_80"
        ),
    }
    samples = interleaved(jobs, runs)
    return [Table.of("simulator", "Products on the simulator", samples, next(iter(jobs)))]
