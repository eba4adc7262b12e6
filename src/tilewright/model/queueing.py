"""Closed-form estimate for blocks that share a multiprocessor, for choices made before there is machine code."""

from __future__ import annotations

import math


def clocks_of_a_block(busy: float, latency: float, resident: int) -> float:
    """The clocks per block on a multiprocessor with ``resident`` blocks.

    ``busy``: clocks for which a block needs the busiest unit. ``latency``: clocks of a block that is alone. Exact for
    one block; tends to ``busy`` for many, and is at least ``busy`` and ``latency / resident``.
    """
    thinking = max(0.0, latency - busy)
    queued = throughput = 0.0
    for count in range(1, resident + 1):
        served = busy * (1 + queued)
        throughput = count / (thinking + served) if thinking + served else math.inf
        queued = throughput * served
    return 1 / throughput
