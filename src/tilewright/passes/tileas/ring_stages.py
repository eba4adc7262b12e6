"""Chooses the number of stages of a product's ring, where fewer stages let more blocks share a multiprocessor.

With one stage per tile, copies start once an iteration has read it, and must arrive before the next iteration does: in
attention, they overlap with the product that does not use them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileas import ops as S
from tilewright.model.choices import WORTH, clocks_per_iteration, resident_blocks
from tilewright.model.queueing import clocks_of_a_block
from tilewright.model.tables import Gpu
from tilewright.passes.tileas.product_costs import (
    BESIDE_ACCUMULATORS,
    MOST_REGISTERS,
    OPERANDS,
    registers_of,
    scheduled_product_cost,
)
from tilewright.passes.tileas.remarks import Alternative, Comparison


@dataclass(frozen=True, slots=True)
class Ring:
    """What is known of a ring: the products of its loop, the warps of a block, bytes of a stage, and those of the
    block's other shared memory. ``bare_bytes``: those that it takes without a ring. ``work``: what an iteration does for elements of tiles, in instructions of one thread;
    ``spans``: by tile, its bytes, and the products and such instructions from where it is waited for to where it was read."""

    products: Sequence[S.Product]
    warps: int
    stage_bytes: int
    other_bytes: int
    work: float = 0.0
    spans: Sequence[tuple[int, Sequence[S.Product], float]] = ()
    bare_bytes: int = 0


def stages_of_ring(gpu: Gpu, ring: Ring, stages: int) -> tuple[int, Comparison | None]:
    """Two stages in the stead of ``stages``, where more blocks then share a multiprocessor and are modelled to be faster
    together; and how they compare, if that was a question.

    Copies start at the end of an iteration, so that with two stages a block waits for all of the latency of memory in the next
    one, with three for what an iteration leaves of it; other blocks compute meanwhile.
    """
    if stages <= 2 or not ring.products:
        return stages, None
    costs = [scheduled_product_cost(op) for op in ring.products]
    copied = ring.stage_bytes / len(costs)
    costs = [replace(cost, copied=copied) for cost in costs]
    sums = sum(prod(T.dims_of(op.c.type)) for op in ring.products)
    by_groups = all(cost.by_warpgroups for cost in costs)
    registers = registers_of(sums, ring.warps, by_groups)
    clocks: dict[int, float] = {}
    resident: dict[int, int] = {}
    for count in (2, stages):
        held = count * ring.stage_bytes + ring.other_bytes
        resident[count] = resident_blocks(gpu, ring.warps, registers, held)
        hidden = sum(clocks_per_iteration(gpu, cost, 1) for cost in costs) * (count - 2)
        waits = max(gpu["hbm_latency"] - hidden, 0.0) / len(costs)
        clocks[count] = sum(
            clocks_per_iteration(gpu, cost, resident[count], waits) for cost in costs
        )
    if resident[2] <= resident[stages]:
        return stages, None
    chosen = 2 if clocks[2] < WORTH * clocks[stages] else stages
    return chosen, _compared(gpu, clocks, resident)


def refills(gpu: Gpu, ring: Ring, stages: int) -> Comparison | None:
    """The comparison, if each tile of a ring had better have one stage that is filled again as soon as it was read, because
    so blocks share a multiprocessor, on which one with ``stages``, of which 0 or 1 are none, is alone, or because there is no
    other ring, and without one the block is alone, too, or threads lack registers to bring the largest tile themselves; else
    None."""
    costs = {op: scheduled_product_cost(op) for op in ring.products}
    by_groups = any(cost.by_warpgroups for cost in costs.values())
    if not costs or (by_groups and stages > 1):
        return None
    copied = ring.stage_bytes / len(costs)
    costs = {op: replace(cost, copied=copied) for op, cost in costs.items()}
    sums = sum(prod(T.dims_of(op.c.type)) for op in ring.products)
    registers = registers_of(sums, ring.warps, False)
    resident = {
        count: resident_blocks(
            gpu, ring.warps, registers, count * ring.stage_bytes + ring.other_bytes
        )
        for count in (1, max(stages, 1))
    }
    if stages > 1 and resident[stages] > 1:
        # Of two blocks one computes while the other waits in any case.
        return None
    if resident[1] <= 1:
        bare = resident_blocks(gpu, ring.warps, registers, ring.bare_bytes)
        others = bare > 1 and not by_groups and _go_through_registers(ring, sums)
        if stages > 1 or others:
            return None
    alone = {op: clocks_per_iteration(gpu, cost, 1) for op, cost in costs.items()}
    once = sum(alone.values()) + ring.work / gpu["fma_lanes"]
    rates = [max(clocks_per_iteration(gpu, cost, _MANY), 0.0) for cost in costs.values()]
    busy = max(sum(rates), ring.work / gpu["fma_lanes"])
    waits = max(
        gpu["hbm_latency"]
        + size / gpu["l2_rate"]
        - (once - sum(alone[op] for op in products) - work / gpu["fma_lanes"])
        for size, products, work in ring.spans
    )
    met = 2 * len(ring.spans) * gpu["barrier_latency"]
    clocks = {1: clocks_of_a_block(busy, once + max(waits, 0.0) + met, resident[1])}
    if stages > 1:
        waits = max(gpu["hbm_latency"] - once * max(stages - 2, 1), 0.0)
        clocks[stages] = clocks_of_a_block(busy, once + waits, resident[stages])
        if clocks[1] >= WORTH * clocks[stages]:
            return None
    return _compared(gpu, clocks, resident)


def _compared(gpu: Gpu, clocks: Mapping[int, float], resident: Mapping[int, int]) -> Comparison:
    """Clocks and resident blocks by the number of stages."""
    return Comparison(
        gpu.title,
        tuple(
            Alternative("1 stage" if count == 1 else f"{count} stages", each, resident[count])
            for count, each in clocks.items()
        ),
    )


def _go_through_registers(ring: Ring, sums: int) -> bool:
    """Whether threads have registers enough to bring the largest tile themselves, beside the sums."""
    largest = max(size for size, _, _ in ring.spans)
    words = (sums + largest // 4) // (32 * ring.warps)
    return words + BESIDE_ACCUMULATORS + OPERANDS <= MOST_REGISTERS


#: So many blocks that the one unit with most to do is always busy.
_MANY = 16
