"""The simulator: steps of Hopper and Ampere kernels, growth with blocks, and single operations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.report import Table
from benchmarks.timing import interleaved
from tilewright import LaunchOptions
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
    return lambda: program.launch(None, grid, [*arrays, k // 64], options=LaunchOptions(block=288))


#: Kinds of operations: what a turn of a loop does, and how many operations that is.
_OPERATIONS = {
    "arith on vector<8xf32>": ("%{n} = arith.addf %v8, %v8 : vector<8xf32>", 16),
    "arith on vector<32xf32>": ("%{n} = arith.mulf %v32, %v32 : vector<32xf32>", 16),
    "arith on index": ("%{n} = arith.addi %tid, %at : index", 16),
    "vector.load, 32 shared bytes": (
        "%{n} = vector.load %s[%at] : memref<1024xf32, 3>, vector<8xf32>",
        8,
    ),
    "vector.store, 32 shared bytes": (
        "vector.store %v8, %s[%at] : memref<1024xf32, 3>, vector<8xf32>",
        8,
    ),
    "mma.sync m16n8k16": (
        "%{n} = nvgpu.mma.sync (%a, %b, %c) {{mmaShape = [16, 8, 16]}} : "
        "(vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>",
        4,
    ),
    "gpu.barrier": ("gpu.barrier", 4),
    "a turn of scf.for": ("scf.for %{n} = %c0 to %c1 step %c1 {{\n}}", 16),
}
_STEPS_KERNEL = """\
module attributes {gpu.container_module} {
gpu.module @kernels {
memref.global "private" @s : memref<1024xf32, 3> {alignment = 16 : i64}
gpu.func @steps(%turns: index, %f: f32) kernel {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %tid = gpu.thread_id x
  %at = arith.muli %tid, %c8 : index
  %s = memref.get_global @s : memref<1024xf32, 3>
  %v8 = vector.broadcast %f : f32 to vector<8xf32>
  %v32 = vector.broadcast %f : f32 to vector<32xf32>
  %a = arith.constant dense<0.5> : vector<4x2xf16>
  %b = arith.constant dense<0.5> : vector<2x2xf16>
  %c = arith.constant dense<0.0> : vector<2x2xf32>
  vector.store %v8, %s[%at] : memref<1024xf32, 3>, vector<8xf32>
  scf.for %i = %c0 to %turns step %c1 {
    BODY
  }
  gpu.return
}
}
}
"""
_TURNS, _WARPS = 50, 4


def _operation(operation: str, count: int, *, in_groups: bool) -> Callable[[], object]:
    """A kernel that does nothing but one operation, by a block of four warps."""
    body = "\n".join(operation.format(n=f"n{i}") for i in range(count))
    program = Program.parse(_STEPS_KERNEL.replace("BODY", body))
    return lambda: program.launch(
        None,
        1,
        [_TURNS, 1.5],
        arch="sm_80",
        options=LaunchOptions(block=32 * _WARPS, in_groups=in_groups),
    )


def _operations(runs: int) -> Table:
    """Operations of warps in a second, in groups and warp by warp."""
    rows: list[tuple[str, ...]] = []
    for name, (operation, count) in _OPERATIONS.items():
        jobs = {
            mode: _operation(operation, count, in_groups=mode == "in groups")
            for mode in ("in groups", "one by one")
        }
        together, alone = interleaved(jobs, runs).values()
        total = count * _TURNS * _WARPS
        rates = [f"{total / sample.median:,.0f}" for sample in (together, alone)]
        microseconds = f"{together.median / total * 1e6:.1f} us"
        rows.append((name, microseconds, *rates, f"{alone.median / together.median:.1f}"))
    head = ["operation", "time of a warp's", "a second, in groups", "one by one", "ratio"]
    return Table("simulator-operations", "Operations of a block of four warps", head, rows)


def tables(runs: int) -> list[Table]:
    hopper, mma = _program("matmul_hopper.mlir"), _program("matmul_mma.mlir")
    arrays = _operands(128, 128, 64)
    jobs: dict[str, Callable[[], object]] = {
        "Hopper kernel, 128 x 128 x 64 (one step of one block)": _hopper(hopper, 128, 128, 64),
        "Hopper kernel, 128 x 128 x 1024 (16 steps of one block)": _hopper(hopper, 128, 128, 1024),
        "Hopper kernel, 256 x 256 x 256 (4 blocks)": _hopper(hopper, 256, 256, 256),
        "Hopper kernel, 512 x 512 x 256 (16 blocks)": _hopper(hopper, 512, 512, 256),
        "mma.sync kernel, 128 x 128 x 64 (4 blocks, 2 steps)": lambda: mma.launch(
            None, (2, 2), arrays, arch="sm_80", options=LaunchOptions(block=128)
        ),
    }
    samples = interleaved(jobs, runs)
    products = Table.of("simulator", "Products on the simulator", samples, next(iter(jobs)))
    return [products, _operations(runs)]
