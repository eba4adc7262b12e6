"""How much shared memory must stay free of rings for layout conversions that run while the rings are live."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.ir import Operation

from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.passes.tileas.shared_conversions import (
    exchanged_bytes,
    fewest_exchanged_bytes,
    threads_of,
)

#: Shared memory for conversions and reductions, in bytes.
EXCHANGES = 16 << 10
#: What aligns storages, and the barriers of pipelines.
BESIDE_RINGS = 1 << 10


def conversion_scratch(loop: scf.ForOp, *, least: bool = False, lasting: bool = False) -> int:
    """The bytes of shared memory that a ring of ``loop`` must leave: those of exchanges while the ring is needed, in the
    operation of the function that holds the loop, be that the loop itself, and in front of it. What exchanges tiles behind
    that takes the memory where the ring was. ``least``: no more than the largest exchange needs, so that each of them has to
    wait for the one before it. ``lasting``: the ring is filled for the next iteration of a loop around, too, so that exchanges
    behind ``loop`` need memory beside it."""
    holder: Operation = loop
    while not isinstance(func := holder.parent_op(), FuncOp):
        if func is None:
            return EXCHANGES
        holder = func
    threads, largest, beside = threads_of(func), 0, 0
    for op in func.body.block.ops:
        for inner in op.walk():
            size = exchanged_bytes(inner, threads)
            if size is None:
                return EXCHANGES
            largest = max(largest, size)
            if lasting and op is holder is not loop:
                beside = max(beside, fewest_exchanged_bytes(inner, threads) or 0)
        if op is holder:
            break
    if largest and not least:
        return max(EXCHANGES, beside)
    return largest + BESIDE_RINGS
