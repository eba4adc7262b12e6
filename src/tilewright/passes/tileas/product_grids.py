"""Chooses the grid of warps over a product's result by asking the performance model about each candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.model.choices import WORTH, clocks_per_iteration, gpu_of
from tilewright.passes.tileas.product_costs import operands_loaded, plan_cost
from tilewright.passes.tileas.products import TURNED_EXTENT, Plan
from tilewright.passes.tileas.remarks import Alternative, Comparison, Remarks
from tilewright.passes.tileas.target import Target
from tilewright.passes.tileas.warpgroup_products import WARPS, WarpgroupPlan

P = TypeVar("P", Plan, WarpgroupPlan)


def arranged(
    op: DotOp,
    plan: P,
    chained: bool,
    target: Target,
    remarks: Remarks,
    wanted: tuple[int, int] | None = None,
) -> P:
    """The plan of a product with the grid of warps that is ``wanted``, if there can be such, else with one that the tables of
    the performance model say to be faster, by more than the model can be wrong for like code. ``chained``: sums stay in
    registers from one product to the next, which leaves no choice."""
    others: Sequence[P] = [] if chained else other_grids(plan)
    if wanted is not None:
        found = next((each for each in (plan, *others) if each.warps == wanted), None)
        if found is None:
            there = ", ".join("{}x{}".format(*each.warps) for each in (plan, *others))
            remarks.add(
                "grid",
                f"no {wanted[0]}x{wanted[1]} grid of warps for this product; possible: {there}",
                op,
            )
        return plan if found is None else found
    gpu = gpu_of(target.compute)
    if gpu is None or not others:
        return plan
    copied = operands_loaded(op)
    every = [plan, *others]
    clocks = [clocks_per_iteration(gpu, plan_cost(each, chained, copied), 1) for each in every]
    best = min(range(len(every)), key=clocks.__getitem__)
    chosen = best if clocks[best] < WORTH * clocks[0] else 0
    ordered = sorted(zip(every, clocks, strict=True), key=lambda pair: pair[1])
    alternatives = [Alternative("{}x{}".format(*each.warps), clock) for each, clock in ordered]
    figures = ", ".join(f"{each.choice}: {round(each.clocks)}" for each in alternatives)
    rows, columns = every[chosen].warps
    remarks.add(
        "grid",
        f"{rows}x{columns} warps per product: modelled clocks per iteration on {gpu.title}: {figures}",
        op,
        Comparison(gpu.title, tuple(alternatives)),
    )
    return every[chosen]


def other_grids(plan: P) -> Sequence[P]:
    """The same product by as many warps in other grids, in which each has a part of its own; none where there is no such grid."""
    down, across = plan.warps
    if isinstance(plan, WarpgroupPlan):
        count = down * across // WARPS
        grids = [(1 << n, count >> n) for n in range(count.bit_length())]
        made = [replace(plan, groups=grid) for grid in grids if grid != plan.groups]
        return [each for each in made if each.is_possible]
    rows = plan.dims[-2] // plan.fragment.m
    columns = plan.dims[-1] // (TURNED_EXTENT if plan.turned[1] else plan.fragment.n)
    count = down * across
    grids = [(1 << n, count >> n) for n in range(count.bit_length())]
    return [
        replace(plan, warps=grid)
        for grid in grids
        if grid != plan.warps
        and down <= rows
        and across <= columns
        and grid[0] <= rows
        and grid[1] <= columns
    ]
