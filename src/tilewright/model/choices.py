"""What the compiler asks the tables of GPUs before there is machine code."""

from __future__ import annotations

import math

from tilewright.model.tables import GPUS, Gpu

#: Stages that rings may have: their phases come round together, so that a profile may leave turns out.
RING_STAGES = (2, 3, 4, 6, 8)
#: More stages than that are never asked for.
MOST_STAGES = 6


def gpu_of(compute: int) -> Gpu | None:
    """The data center GPU that stands for a compute capability times ten, or the first one that runs its code."""
    return next((gpu for gpu in GPUS.values() if gpu.compute == compute), None)


def stages_that_hide(gpu: Gpu, stage_bytes: float, product_clocks: float = 0.0) -> int:
    """The stages of a ring behind which the latency of memory hides, 2 to 6: while one is read, the copies of the others
    are under way.

    ``stage_bytes``: what a stage holds. ``product_clocks``: what a turn of the loop needs of the tensor units. A turn takes
    no less than these, and than its bytes from L2.
    """
    turn = max(product_clocks, stage_bytes / gpu["l2_rate"], 1.0)
    wanted = 1 + math.ceil(gpu["hbm_latency"] / turn)
    return next((n for n in RING_STAGES if n >= wanted and n <= MOST_STAGES), MOST_STAGES)
