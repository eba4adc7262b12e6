"""How many stages a ring of products has, where fewer let more blocks share a multiprocessor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileas import ops as S
from tilewright.model.choices import WORTH, clocks_of_turn, resident_blocks
from tilewright.model.tables import Gpu
from tilewright.passes.tileas.turns import registers_of, turn_of_product


@dataclass(frozen=True, slots=True)
class Ring:
    """What is known of a ring: the products of its loop, the warps of a block, bytes of a stage, and those of the
    block's other shared memory."""

    products: Sequence[S.Product]
    warps: int
    stage_bytes: int
    other_bytes: int


def stages_of_ring(gpu: Gpu, ring: Ring, stages: int) -> tuple[int, str]:
    """Two stages in the stead of ``stages``, where more blocks then share a multiprocessor and are modelled to be faster
    together; and the figures, if that was a question.

    Copies start at the end of a round, so that with two stages a block waits for all of the latency of memory in the next
    one, with three for what a round leaves of it; other blocks compute meanwhile.
    """
    if stages <= 2 or not ring.products:
        return stages, ""
    turns = [turn_of_product(op) for op in ring.products]
    copied = ring.stage_bytes / len(turns)
    turns = [replace(turn, copied=copied) for turn in turns]
    sums = sum(prod(T.dims_of(op.c.type)) for op in ring.products)
    by_groups = all(turn.by_warpgroups for turn in turns)
    registers = registers_of(sums, ring.warps, by_groups)
    clocks: dict[int, float] = {}
    resident: dict[int, int] = {}
    for count in (2, stages):
        held = count * ring.stage_bytes + ring.other_bytes
        resident[count] = resident_blocks(gpu, ring.warps, registers, held)
        hidden = sum(clocks_of_turn(gpu, turn, 1) for turn in turns) * (count - 2)
        waits = max(gpu["hbm_latency"] - hidden, 0.0) / len(turns)
        clocks[count] = sum(clocks_of_turn(gpu, turn, resident[count], waits) for turn in turns)
    if resident[2] <= resident[stages]:
        return stages, ""
    figures = "; ".join(
        f"{count} stages: {round(each)} clocks a round, {resident[count]} "
        f"{'block' if resident[count] == 1 else 'blocks'}"
        for count, each in clocks.items()
    )
    chosen = 2 if clocks[2] < WORTH * clocks[stages] else stages
    return chosen, f"modelled for {gpu.title}, {figures}"
