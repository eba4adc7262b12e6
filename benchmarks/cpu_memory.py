"""How much memory a launch takes beside its arrays: measured in a process of its own."""

from __future__ import annotations

import json
import resource
import subprocess
import sys

import numpy as np

from benchmarks import cpu_kernels as kernels
from benchmarks.report import Table
from tilewright.cpu import Program

_LENGTH = 1 << 24
_SIZE = 1024


def _peak() -> float:
    """The most memory that this process has had so far, in MiB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def _launches() -> dict[str, tuple[float, float]]:
    """For each launch: MiB of its arrays, and by how much the peak rises while it runs."""
    found: dict[str, tuple[float, float]] = {}
    arrays = [np.ones(_LENGTH, np.float32) for _ in range(3)]
    blocks = _LENGTH // kernels.VECTOR
    add = kernels.elementwise(2, lambda k, x, y: k.addf(x, y))
    rows, columns, _ = kernels.MATRIX_TILES["f32"]
    matrices = [np.ones((_SIZE, _SIZE), np.float32) for _ in range(3)]
    jobs = {
        "vector add, 64 MiB each": (add, (blocks,), arrays, (_LENGTH,)),
        f"matrix product, {_SIZE}x{_SIZE}, f32": (
            kernels.matmul("f32", "f32"),
            (_SIZE // rows, _SIZE // columns),
            matrices,
            (_SIZE, _SIZE, _SIZE),
        ),
    }
    for title, (module, grid, given, sizes) in jobs.items():
        program = Program(module)
        program.prepare()
        before = _peak()
        program.launch(None, grid, (*given, *sizes))
        found[title] = sum(array.nbytes for array in given) / 2**20, _peak() - before
    return found


def table() -> Table:
    """The launches of a fresh process."""
    command = [sys.executable, "-m", "benchmarks.cpu_memory"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    rows = [
        (title, f"{arrays:.0f} MiB", f"{more:.1f} MiB")
        for title, (arrays, more) in json.loads(done.stdout).items()
    ]
    return Table("memory", "memory of a launch", ("launch", "arrays", "more at the peak"), rows)


if __name__ == "__main__":
    print(json.dumps(_launches()))
