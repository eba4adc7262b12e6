"""The shared memory that rings leave to what exchanges tiles between threads while they are there."""

from __future__ import annotations

from xdsl.dialects import scf

from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.passes.tileas.shared_conversions import exchanged_bytes, threads_of

#: Shared memory for conversions and reductions, in bytes.
_EXCHANGES = 16 << 10
#: What aligns storages, and the barriers of pipelines.
BESIDE_RINGS = 1 << 10


def conversion_scratch(loop: scf.ForOp) -> int:
    """The bytes of shared memory that a ring of ``loop`` must leave: those of exchanges in the loop and in front of it.
    What exchanges tiles behind the loop of a function takes the memory where the ring was; behind a loop in another
    one, the ring is still needed."""
    func = loop.parent_op()
    if not isinstance(func, FuncOp):
        return _EXCHANGES
    threads = threads_of(func)
    for op in func.body.block.ops:
        if any(exchanged_bytes(inner, threads) != 0 for inner in op.walk()):
            return _EXCHANGES
        if op is loop:
            break
    return BESIDE_RINGS
