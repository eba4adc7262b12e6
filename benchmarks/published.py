"""Published times of library kernels beside what the performance model says of kernels for the same problem.

``python -m benchmarks.published`` prints the table of docs/model.md. What is modelled is the fastest, by the model, of a few kernels of
ours and of NVIDIA's tileiras; it is not the code that was measured. Attention is of two designs: FlashAttention-3 starts the
next product before the softmax, as ``tileas-ahead`` does; Triton's does not, and neither do the kernels beside it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from unittest.mock import patch

import cuda.tile as ct

from benchmarks import gpu_kernels as k
from benchmarks.gpu_cases import LOG2_E, Case
from benchmarks.gpu_compilers import Compiled, ours, tileiras
from tilewright.gpu.tools import disassemble_to_json
from tilewright.model.sass import Kernel, read_kernels
from tilewright.model.tables import GPUS
from tilewright.model.timing import Options, profile
from tilewright.model.walk import LaunchShape, parameter_words

_F16 = ct.float16
_TARGETS = {"a100": "sm_80", "h100": "sm_90a"}
#: Where numbers were published.
SOURCES = {
    "cuBLAS, A100": "https://github.com/triton-lang/triton/issues/3551",
    "CUTLASS, H100": "https://gist.github.com/Chillee/2ec89696db8b7ed1c24461159e325405",
    "Triton's attention, H100": "https://github.com/pytorch/benchmark/pull/2391",
    "FlashAttention-3, H100": "https://github.com/pytorch/benchmark/pull/2391",
}
#: Teraflops of f16 products of square matrices.
_SQUARE = {
    512: 21.85, 640: 39.38, 768: 63.20, 896: 73.94, 1024: 104.86, 1280: 157.54, 1536: 176.95, 1792: 172.91,
    2048: 233.02, 2304: 246.27, 2560: 244.54, 2816: 230.76, 2944: 247.94, 3072: 229.24, 3200: 244.27,
}  # fmt: skip
#: Of attention without a mask, 16 heads of 128, by batch and length: Triton's, and FlashAttention-3's.
_ATTENTION = {
    (32, 512): (328.88, 430.32), (16, 1024): (389.72, 517.10), (8, 2048): (433.72, 565.54),
    (4, 4096): (458.36, 590.23), (2, 8192): (470.73, 614.23), (1, 16384): (476.75, 620.73),
}  # fmt: skip
_TILES = ((128, 128, 32), (128, 128, 64), (64, 64, 64))


@dataclass(frozen=True, slots=True)
class Row:
    """A problem, the teraflops that were published for it, and those of the model."""

    source: str
    problem: str
    published: float
    modelled: float

    @property
    def error(self) -> float:
        """Of the modelled number, as a part of the published one."""
        return self.modelled / self.published - 1


def _product(m: int, n: int, depth: int, tiles: tuple[int, int, int]) -> Case:
    arrays = ((_F16, (m, depth)), (_F16, (depth, n)), (_F16, (m, n)))
    constants = tuple((extent,) for extent in tiles)
    grid = (-(-m // tiles[0]), -(-n // tiles[1]), 1)
    return Case("product", "published", k.product, (*arrays, *constants), grid, ())


def _attention(heads: int, length: int) -> Case:
    whole = (_F16, (heads, length, 128))
    factor = LOG2_E / math.sqrt(128)
    arguments = (whole, whole, whole, whole, factor, (128,), (128,), (128,))
    return Case("attention", "published", k.attention, arguments, (length // 128, heads, 1), ())


def _compiled(case: Case, gpu: str) -> list[tuple[Kernel, Compiled]]:
    found: list[tuple[Kernel, Compiled]] = []
    for compiler in (tileiras, ours):
        made = compiler(case.bytecode(), _TARGETS[gpu])
        if not made.failure:
            found.append((read_kernels(made.cubin, disassemble_to_json)[0], made))
    return found


def _seconds(kernels: Sequence[tuple[Kernel, Compiled]], case: Case, gpu: str) -> float:
    """The modelled time of the fastest of these kernels."""
    times: list[float] = []
    for kernel, made in kernels:
        words = parameter_words(kernel, case.scalars())
        launch = LaunchShape(case.grid, kernel.file.threads or (128, 1, 1), words)
        options = Options(
            dynamic_shared_bytes=made.dynamic_shared_bytes, footprint_bytes=case.array_bytes
        )
        times.append(profile(kernel, GPUS[gpu], launch, options).seconds)
    return min(times)


def rows() -> list[Row]:
    """All rows, in the order of the sources."""
    found: list[Row] = []
    for gpu in ("a100", "h100"):
        known = [(tiles, _compiled(_product(2048, 2048, 2048, tiles), gpu)) for tiles in _TILES]
        problems = {(n, n, n): t for n, t in _SQUARE.items()}
        source = "cuBLAS, A100"
        if gpu == "h100":
            problems, source = {(4224, 2048, 8192): 780.17}, "CUTLASS, H100"
        for (m, n, depth), teraflops in problems.items():
            best = min(_seconds(made, _product(m, n, depth, tiles), gpu) for tiles, made in known)
            name = f"product {m} x {n} x {depth}"
            found.append(Row(source, name, teraflops, 2 * m * n * depth / best / 1e12))
    ahead = _compiled(_attention(16, 4096), "h100")
    with patch("tilewright.lowering.scheduled.schedule.pipeline_products"):
        behind = _compiled(_attention(16, 4096), "h100")
    for number, kernels in enumerate((behind, ahead)):
        source = ("Triton's attention, H100", "FlashAttention-3, H100")[number]
        for (batch, length), teraflops in _ATTENTION.items():
            heads = 16 * batch
            seconds = _seconds(kernels, _attention(heads, length), "h100")
            work = 4 * heads * length * length * 128
            name = f"attention of 128, {batch} x 16 heads of {length}"
            found.append(Row(source, name, teraflops[number], work / seconds / 1e12))
    return found


def rank_correlation(found: Sequence[Row]) -> float:
    """Spearman's, of what was published and what is modelled."""

    def ranks(values: Sequence[float]) -> list[float]:
        order = sorted(values)
        return [float(order.index(value)) for value in values]

    return statistics.correlation(
        ranks([row.published for row in found]), ranks([row.modelled for row in found])
    )


def table(found: Sequence[Row]) -> str:
    """The table and its summary, as Markdown."""
    lines = [
        "| source | problem | published Tflop/s | modelled | error |",
        "|---|---|---:|---:|---:|",
    ]
    lines += [
        f"| {row.source} | {row.problem} | {row.published:.0f} | {row.modelled:.0f} | {row.error:+.0%} |"
        for row in found
    ]
    errors = sorted(abs(row.error) for row in found)
    lines.append("")
    lines.append(
        "Sources: " + ", ".join(f"[{name}]({link})" for name, link in SOURCES.items()) + "."
    )
    lines.append("")
    lines.append(
        f"{len(found)} rows: the error is {statistics.fmean(errors):.0%} on average, {statistics.median(errors):.0%} in the median, "
        f"{errors[-1]:.0%} at most; rank correlation {rank_correlation(found):.2f}."
    )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(rows()))
