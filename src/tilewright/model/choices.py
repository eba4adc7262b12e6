"""Estimates for the compiler's choices, before there is machine code."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilewright.model.queueing import clocks_of_a_block
from tilewright.model.tables import GPUS, Gpu

#: Stages that rings may have: their phases come round together, so that a profile may leave turns out. One is filled again
#: as soon as it was read.
RING_STAGES = (1, 2, 3, 4, 6, 8)
#: More stages than that are never asked for.
MOST_STAGES = 6
WARP = 32


def gpu_of(compute: int) -> Gpu | None:
    """The data center GPU that stands for a compute capability times ten, or the first one that runs its code."""
    return next((gpu for gpu in GPUS.values() if gpu.compute == compute), None)


def memory_rate(gpu: Gpu) -> float:
    """The bytes of memory that copies reach, of the whole GPU in a clock."""
    return gpu["hbm_rate"] * gpu["hbm_share"] / gpu["clock"]


def stages_that_hide(gpu: Gpu, stage_bytes: float) -> int:
    """The stages of a ring behind which the latency of memory hides, 2 to 6: while one is read, the copies of the others
    are under way.

    ``stage_bytes``: what a stage holds. A turn of the loop takes no less than its bytes from L2.
    """
    turn = max(stage_bytes / gpu["l2_rate"], 1.0)
    wanted = 1 + math.ceil(gpu["hbm_latency"] / turn)
    return next((n for n in RING_STAGES if n >= wanted and n <= MOST_STAGES), MOST_STAGES)


#: How much more than the least must be asked of memory, as blocks compute between their loads.
_MARGIN = 2
#: The share of memory's time that arithmetic may take in loops for which few blocks are enough.
_ARITHMETIC = 0.6


def blocks_for_rereads(gpu: Gpu, loaded: float, stored: float, operations: float) -> int | None:
    """The blocks of a multiprocessor that keep memory busy with loops of which each turn loads and stores so many bytes: fewer than fit leave more
    of L2 to each, for what it reads again. None where arithmetic needs more blocks.

    ``operations``: what a turn does for the elements of tiles, in instructions of one thread.
    """
    rate = memory_rate(gpu) / gpu["sms"]
    if operations / gpu["fma_lanes"] > _ARITHMETIC * (loaded + stored) / rate:
        return None
    return 1 + math.ceil(_MARGIN * rate * gpu["hbm_latency"] / loaded)


def bytes_that_leave(gpu: Gpu, blocks: int) -> int:
    """The shared memory of a block of which a multiprocessor holds so many and not one more, in steps of 128 bytes, the
    least that does."""
    share = gpu["shared_bytes"] / (blocks + 1) - gpu["reserved_shared_bytes"]
    return max(int(share) // 128 + 1, 0) * 128


@dataclass(frozen=True, slots=True)
class Turn:
    """What a turn of a loop of products asks of a multiprocessor, for one block: ``multiplications`` at a rate of the
    tables (``tensor_f16``, ``fma_lanes``), in so many ``steps`` of instructions, by ``wgmma`` or not; bytes that are
    ``copied`` into shared memory, and that warps ``read`` there."""

    multiplications: float
    rate: str
    steps: int
    by_warpgroups: bool
    copied: float
    read: float


def clocks_of_turn(gpu: Gpu, turn: Turn, resident: int, waits: float = 0.0) -> float:
    """The clocks between two ends of turns on a multiprocessor that holds so many blocks, whose rings hide the latency of
    memory. In a block that is alone the first fragments come before the first product of a turn, behind a barrier;
    ``waits``: further clocks in which it does nothing else."""
    by_mma_sync = turn.rate.startswith("tensor_") and not turn.by_warpgroups
    rate = gpu[turn.rate] * (gpu["mma_sync_share"] if by_mma_sync else 1.0)
    tensor, read = turn.multiplications / rate, turn.read / gpu["shared_rate"]
    shared = read + turn.copied / gpu["shared_rate"]
    busy = max(tensor, shared, turn.copied / gpu["l2_rate"])
    alone = max(tensor, shared) + min(tensor, read) / turn.steps + gpu["barrier_latency"] + waits
    return clocks_of_a_block(busy, max(busy, alone), resident)


#: A choice is another one than by default if it is modelled to be faster by this factor: the model is no better than that.
WORTH = 0.97


def resident_blocks(gpu: Gpu, warps: int, registers: int, shared: float) -> int:
    """The blocks that a multiprocessor holds, 1 at least: of ``warps``, with so many registers of a thread, and bytes of
    shared memory."""
    by_registers = gpu["registers"] // (WARP * warps * registers)
    by_shared = gpu["shared_bytes"] // (shared + gpu["reserved_shared_bytes"])
    return int(max(1, min(by_registers, by_shared, gpu["warps"] // warps, gpu["blocks"])))


#: Blocks along the first axis of a grid that bands may have.
BANDS = (4, 8, 16)
#: The part of a round for which memory must be busy, and the part of its bytes that another order of blocks may have at
#: most, for that order to be worth it.
BUSY, WORTH_OF_ORDER = 0.5, 0.8


@dataclass(frozen=True, slots=True)
class Sharing:
    """What a block loads in a turn of its loop, in bytes, by who loads the same in the same turn: blocks at the same place along
    the first axis of the grid (``across``), along the second one (``along``), or no other (``own``)."""

    across: float
    along: float
    own: float = 0.0

    def loaded(self, blocks: int, width: int) -> float:
        """The bytes that so many blocks load at least, which begin in rows of ``width``: in those of the grid, or of a band."""
        return (
            self.across * min(width, blocks)
            + self.along * max(1, math.ceil(blocks / width))
            + self.own * blocks
        )


@dataclass(frozen=True, slots=True)
class Order:
    """Bands of ``band`` blocks for grids that have more than ``limit`` blocks along the first axis. ``rows`` and ``bands``: the
    bytes that the blocks of a turn load from memory without, in rows just wider than the limit, and with bands;
    ``busy``: the part of the turn for which that keeps memory busy without."""

    band: int
    limit: int
    rows: float
    bands: float
    busy: float


def order_of_blocks(gpu: Gpu, sharing: Sharing, clocks: float, blocks: int) -> Order | float:
    """The order of blocks for a loop of whose turns a multiprocessor that holds so many ``blocks`` ends one every ``clocks``; for
    grids with as many rows as it takes, and arrays that L2 does not hold. Without one that is worth it, the
    largest part of a turn for which memory is busy in the order of the grid."""
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
