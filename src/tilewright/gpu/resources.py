"""The resource report of a kernel, as text."""

from __future__ import annotations

from math import prod

from tilewright.gpu.compile import CompiledKernel
from tilewright.gpu.tools import Assembled
from tilewright.model.tables import GPUS, Gpu
from tilewright.model.timing import block_limits


def resources(compiled: CompiledKernel, made: Assembled) -> list[str]:
    """Lines with registers, spills and shared memory; and the occupancy with its limiting resource, if the block size
    and a GPU of the architecture are known.
    """
    shared = made.shared_bytes + compiled.dynamic_shared_bytes
    lines = [
        f"{made.registers} registers, {shared} bytes of shared memory, {made.spill_bytes} bytes spilled"
    ]
    if made.spill_bytes:
        lines.append(
            "registers are spilled: use smaller tiles or more warps (num_worker_warps_per_cta)"
        )
    gpu = _gpu_of(compiled.arch.number)
    if compiled.block is None or gpu is None:
        return lines
    threads = prod(compiled.block)
    limits = block_limits(gpu, made.registers, threads, shared)
    limit = min(limits, key=lambda name: limits[name])
    others = ", ".join(f"{count} by {name}" for name, count in limits.items() if name != limit)
    warps = -(-threads // 32)
    share = 100 * limits[limit] * warps / int(gpu["warps"])
    lines.append(
        f"{threads} threads ({warps} warps); a multiprocessor of the {gpu.title} holds {limits[limit]} "
        f"blocks, {share:.0f} % of its warps, limited by {limit} ({others})"
    )
    return lines


def _gpu_of(compute: int) -> Gpu | None:
    """The oldest GPU that runs code for a compute capability."""
    found = [gpu for gpu in GPUS.values() if gpu.runs(compute)]
    return min(found, key=lambda gpu: gpu.compute, default=None)
