"""Lowering ``cuda_tile`` to ``nv_tileaa``, with and without passes, at growing sizes.

Times are those of the processor: all of this is one thread, and machines are shared.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

from benchmarks.inputs import OPS_PER_STEP, kernel, op_count
from benchmarks.report import Table
from benchmarks.timing import Sample, interleaved_reports
from tilewright.analysis.verifier import verify
from tilewright.lowering import lower_to_tileaa
from tilewright.passes import run_pipeline
from tilewright.text import parse

#: Operations asked for; the kernels have a few more.
SIZES = (100, 1_000, 10_000)
#: Early exits of a kernel, one behind the other.
EXITS = (20, 40, 80, 160)
_PASSES = "tileaa"


def _processor_time(job: Callable[[], object]) -> Callable[[], float]:
    def measure() -> float:
        start = process_time()
        job()
        return process_time() - start

    return measure


def _jobs(module: Any) -> dict[str, Callable[[], float]]:
    def passes() -> None:
        run_pipeline(lower_to_tileaa(module).module, _PASSES)

    def checked() -> None:
        verify(lower_to_tileaa(module).module)

    return {
        "lower": _processor_time(lambda: lower_to_tileaa(module)),
        "lower and verify": _processor_time(checked),
        f"lower, then the pipeline {_PASSES}": _processor_time(passes),
    }


def _rows(size: int, samples: dict[str, Sample]) -> list[tuple[str, ...]]:
    return [
        (
            str(size),
            name,
            f"{sample.median * 1e3:.1f} ms",
            f"{sample.spread} s",
            f"{sample.median / size * 1e6:.1f} µs",
        )
        for name, sample in samples.items()
    ]


_HEAD = ("operations", "job", "median", "min..max", "for each operation")


def sizes(runs: int) -> Table:
    """The same body repeated: time is to grow like the number of operations."""
    table = Table("sizes", "element-wise and reduce operations through views", _HEAD)
    for size in SIZES:
        module = kernel(size // OPS_PER_STEP)
        table.rows.extend(_rows(op_count(module), interleaved_reports(_jobs(module), runs)))
    return table


def exits(runs: int) -> Table:
    """Early returns, each of which nests what follows it one level deeper."""
    table = Table("exits", "early returns one behind the other", _HEAD)
    for count in EXITS:
        checks = "".join(
            f"%c{i} = trunci %a : tile<i32> -> tile<i1>\nif %c{i} {{ return }}\n"
            for i in range(count)
        )
        module = parse(f"entry @k(%a: tile<i32>) {{\n{checks}return\n}}\n")
        job = {"lower": _processor_time(lambda module=module: lower_to_tileaa(module))}
        table.rows.extend(_rows(op_count(module), interleaved_reports(job, runs)))
    return table


def tables(runs: int) -> list[Table]:
    return [sizes(runs), exits(runs)]
