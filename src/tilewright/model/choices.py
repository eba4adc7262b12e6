"""Estimates for the compiler's choices, before there is machine code."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilewright.model.queueing import clocks_of_a_block
from tilewright.model.tables import GPUS, Gpu

#: The numbers of stages that rings may have. Their least common multiple is small, so that a profile may omit
#: iterations. A ring of one stage is refilled as soon as it has been read.
RING_STAGES = (1, 2, 3, 4, 6, 8)
#: The largest number of stages that is requested.
MOST_STAGES = 6
WARP = 32


def gpu_of(compute: int) -> Gpu | None:
    """The first GPU of a compute capability times ten, or None."""
    return next((gpu for gpu in GPUS.values() if gpu.compute == compute), None)


def memory_rate(gpu: Gpu) -> float:
    """The DRAM bandwidth that copies reach, in bytes per clock of the whole GPU."""
    return gpu["hbm_rate"] * gpu["hbm_share"] / gpu["clock"]


def stages_that_hide(gpu: Gpu, stage_bytes: float) -> int:
    """The number of ring stages that hides the latency of memory, 2 to 6: while one is read the others are in flight.

    ``stage_bytes``: the size of a stage. An iteration of the loop takes at least the time to load it from L2.
    """
    clocks = max(stage_bytes / gpu["l2_rate"], 1.0)
    wanted = 1 + math.ceil(gpu["hbm_latency"] / clocks)
    return next((n for n in RING_STAGES if n >= wanted and n <= MOST_STAGES), MOST_STAGES)


#: The factor by which memory must be oversubscribed, as blocks compute between their loads.
_MARGIN = 2
#: The largest share of the memory time that arithmetic may take in loops for which few blocks suffice.
_ARITHMETIC = 0.6


def blocks_for_rereads(gpu: Gpu, loaded: float, stored: float, operations: float) -> int | None:
    """The number of resident blocks that saturates memory, or None if arithmetic needs more blocks.

    ``loaded`` and ``stored`` are bytes per iteration of a block's loop. With fewer resident blocks each has more of L2
    for data that it reads again. ``operations``: arithmetic on elements per iteration, in instructions of one thread.
    """
    rate = memory_rate(gpu) / gpu["sms"]
    if operations / gpu["fma_lanes"] > _ARITHMETIC * (loaded + stored) / rate:
        return None
    return 1 + math.ceil(_MARGIN * rate * gpu["hbm_latency"] / loaded)


def bytes_that_leave(gpu: Gpu, blocks: int) -> int:
    """The least shared memory per block, in bytes and steps of 128, with which a multiprocessor holds ``blocks`` of
    them and not one more.
    """
    share = gpu["shared_bytes"] / (blocks + 1) - gpu["reserved_shared_bytes"]
    return max(int(share) // 128 + 1, 0) * 128


@dataclass(frozen=True, slots=True)
class ProductCost:
    """The demand of one iteration of a matrix-product loop, for one block.

    ``multiplications`` at a rate of the tables (``tensor_f16``, ``fma_lanes``), in ``steps`` of instructions, by
    ``wgmma`` or not; bytes ``copied`` to shared memory, and ``read`` from there by warps.
    """

    multiplications: float
    rate: str
    steps: int
    by_warpgroups: bool
    copied: float
    read: float


def clocks_per_iteration(gpu: Gpu, cost: ProductCost, resident: int, waits: float = 0.0) -> float:
    """The clocks per iteration on a multiprocessor with ``resident`` blocks, whose rings hide the latency of memory.

    A block that is alone also waits for its first fragments, after a barrier. ``waits``: further clocks in which it
    does nothing else.
    """
    by_mma_sync = cost.rate.startswith("tensor_") and not cost.by_warpgroups
    rate = gpu[cost.rate] * (gpu["mma_sync_share"] if by_mma_sync else 1.0)
    tensor, read = cost.multiplications / rate, cost.read / gpu["shared_rate"]
    shared = read + cost.copied / gpu["shared_rate"]
    busy = max(tensor, shared, cost.copied / gpu["l2_rate"])
    alone = max(tensor, shared) + min(tensor, read) / cost.steps + gpu["barrier_latency"] + waits
    return clocks_of_a_block(busy, max(busy, alone), resident)


#: The modelled speedup, as a ratio of times, below which a choice replaces the default; the model is no more accurate
#: than that.
WORTH = 0.97


def resident_blocks(gpu: Gpu, warps: int, registers: int, shared: float) -> int:
    """The number of resident blocks per multiprocessor, at least 1, for ``warps``, ``registers`` per thread, and bytes
    of shared memory.
    """
    by_registers = gpu["registers"] // (WARP * warps * registers)
    by_shared = gpu["shared_bytes"] // (shared + gpu["reserved_shared_bytes"])
    return int(max(1, min(by_registers, by_shared, gpu["warps"] // warps, gpu["blocks"])))


#: The widths of bands, in blocks along the first axis of a grid.
BANDS = (4, 8, 16)
#: The least share of time for which memory must be busy, and the largest ratio of its bytes, for another order of
#: blocks to be worthwhile.
BUSY, WORTH_OF_ORDER = 0.5, 0.8


@dataclass(frozen=True, slots=True)
class Sharing:
    """The bytes that a block loads per iteration, by which blocks load the same in the same iteration.

    These are blocks at the same position along the first axis of the grid (``across``), along the second one
    (``along``), or none (``own``).
    """

    across: float
    along: float
    own: float = 0.0

    def loaded(self, blocks: int, width: int) -> float:
        """The distinct bytes loaded per iteration by ``blocks`` blocks in rows of ``width``: those of the grid or of
        a band.
        """
        return (
            self.across * min(width, blocks)
            + self.along * max(1, math.ceil(blocks / width))
            + self.own * blocks
        )


@dataclass(frozen=True, slots=True)
class Order:
    """Bands of ``band`` blocks, for grids with more than ``limit`` blocks along the first axis.

    ``rows`` and ``bands``: the bytes that the blocks of an iteration load from memory without bands, in rows just wider
    than the limit, and with bands. ``busy``: the share of the iteration for which memory is busy without them.
    """

    band: int
    limit: int
    rows: float
    bands: float
    busy: float


def order_of_blocks(gpu: Gpu, sharing: Sharing, clocks: float, blocks: int) -> Order | float:
    """The order of blocks for a loop with ``clocks`` per iteration on a multiprocessor with ``blocks`` resident blocks.

    It is for grids with as many rows as needed, and arrays that exceed L2. If no order is worthwhile, returns the
    largest share of an iteration for which memory is busy in grid order.
    """
    in_flight = int(gpu["sms"]) * blocks
    rate = memory_rate(gpu)
    band = min(BANDS, key=lambda each: sharing.loaded(in_flight, each))
    inside = sharing.loaded(in_flight, band)
    for width in range(band + 1, in_flight + 1):
        loaded = sharing.loaded(in_flight, width)
        busy = loaded / rate / (clocks * blocks)
        if busy > BUSY and inside < WORTH_OF_ORDER * loaded:
            return Order(band, width - 1, loaded, inside, busy)
    return sharing.loaded(in_flight, in_flight) / rate / (clocks * blocks)
