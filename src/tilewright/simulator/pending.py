"""Accumulators of ``wgmma`` in flight: values that only the next product may use.

``nvvm.wgmma.product`` that leaves groups unfinished returns a ``Pending``. It passes through control flow and into the
next product unchanged; any other operation that uses it checks whether its group has been waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Operation, SSAValue

from tilewright.analysis.preorder import operations
from tilewright.dialects.nvgpu.wgmma import WgmmaProductOp, WgmmaSumsOp
from tilewright.numerics.arrays import Array
from tilewright.simulator import codes
from tilewright.simulator.faults import note_at
from tilewright.simulator.groups import Apart, join
from tilewright.simulator.state import Warp


@dataclass(frozen=True, slots=True, eq=False)
class Pending:
    """The accumulator of a group of products of a warp."""

    data: Array
    group: int
    op: Operation


def pending_values(function: Operation) -> frozenset[SSAValue]:
    """The values of a kernel that may be pending.

    These are the results of products that leave groups unfinished, and values of their types that control flow passes
    on.
    """
    found: set[SSAValue] = {
        op.d for op in operations(function) if isinstance(op, WgmmaProductOp) and op.unfinished != 0
    }
    if not found:
        return frozenset()
    types = {value.type for value in found}
    for op in operations(function):
        if op.regions:
            passed = [*op.results, *(arg for r in op.regions for b in r.blocks for arg in b.args)]
            found.update(value for value in passed if value.type in types)
    return frozenset(found)


def takes_pending(op: Operation, pending: frozenset[SSAValue]) -> Sequence[SSAValue]:
    """The operands that may be pending, and must have been waited for."""
    if not pending or op.regions:
        return ()
    sums = op.c if isinstance(op, WgmmaProductOp | WgmmaSumsOp) else None
    return [value for value in op.operands if value in pending and value is not sums]


def settling(op: Operation, slots: Sequence[int]) -> Callable[[Warp], None]:
    """A step that replaces pending values in the slots by their data, and reports those not waited for."""

    def settle(warp: Warp, value: Pending) -> Array:
        if value.group > warp.products_done:
            warp.launch.collector.add(
                codes.UNWAITED_PRODUCT,
                f"{op.name} of {warp.name()} reads an accumulator whose product is still in flight",
                op,
                other=value.op,
                notes=[note_at("the product starts here", value.op)],
                help="set waitGroup = 0 there, or execute nvvm.wgmma.wait.group.sync.aligned 0",
            )
        return value.data

    def run(warp: Warp) -> None:
        regs = warp.regs
        for slot in slots:
            value: Any = regs[slot]
            if isinstance(value, Pending):
                regs[slot] = settle(warp, value)
            elif isinstance(value, Apart) and isinstance(value[0], Pending):
                regs[slot] = join([settle(m, v) for m, v in zip(warp.members, value, strict=True)])

    return run
