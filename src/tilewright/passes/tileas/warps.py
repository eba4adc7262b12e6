"""Chooses the number of warps of a block without a hint: enough that each thread's values stay in registers.

A thread has 255 registers of 32 bits. Half of them are for the largest tile, or for the accumulators of products, which a loop holds all the
time; the rest is for operands, addresses and what ptxas needs beside. More warps share the same tiles, so that each thread holds less, up
to the count at which fragments cannot get smaller. Where that leaves two counts, the performance model compares their clocks per iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp, ScanOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.memory import Load
from tilewright.dialects.nv_tileaa.ops.queues import GetNumProgramsOp
from tilewright.model.choices import WORTH, clocks_per_iteration, gpu_of, resident_blocks
from tilewright.passes.tileas.access_layouts import element_bytes
from tilewright.passes.tileas.left_operands import computed_left
from tilewright.passes.tileas.pipeline import DEFAULT_STAGES
from tilewright.passes.tileas.product_costs import (
    BESIDE_ACCUMULATORS,
    MOST_REGISTERS,
    element_count,
    is_loaded,
    operands_loaded,
    product_cost,
    registers_of,
)
from tilewright.passes.tileas.products import WIDER, chained_products
from tilewright.passes.tileas.register_pressure import pressure_of_routines, tile_registers
from tilewright.passes.tileas.remarks import Alternative, Comparison, Remarks
from tilewright.passes.tileas.target import Target
from tilewright.passes.tileas.tile_ops import is_elementwise, tiles_of

#: The registers of a thread that the sums of products may take, of 255.
ACCUMULATOR_REGISTERS = 128
#: The registers that the widest tile of a kernel may take.
TILE_REGISTERS = 128
#: The registers that tiles may take of a thread which computes functions of f64, and the warps that share more: each function is
#: a chain of dependent instructions, which other warps hide.
ROUTINE_REGISTERS, MOST_IN_ROUTINES = 64, 8
#: The registers of a thread beside accumulators and what operands are computed from, where nothing else is held.
BESIDE_COMPUTED = 40
#: The registers of a thread that a loop around the loop of a product takes.
AROUND = 24
#: The rows of a product that a warp multiplies at once.
ROWS_OF_WARP = 16
#: More warps than that leave each thread less than 128 registers, or make no smaller fragments.
MOST_WITH_PRODUCTS, MOST = 8, 16


def chosen_warps(func: FuncOp, default: int, target: Target, remarks: Remarks | None = None) -> int:
    """The warps of a block of a kernel for which no hint says how many: ``default`` or a power of two above it, at most 16 without
    products and 8 with them. Where registers leave the choice, the tables of the performance model for ``target`` are asked
    (``model.choices``). A remark (``warps``) says why it is not the default."""
    remarks = Remarks() if remarks is None else remarks
    products = [op for op in func.walk() if isinstance(op, DotOp)]
    warps = default
    if not products:
        held, scanned = largest_tile(func), scanned_registers(func)
        while warps < MOST and max(held, scanned) > TILE_REGISTERS * 32 * warps:
            warps *= 2
        what = "a tile takes" if held >= scanned else "a scan takes"
        why = f"with {default} warps, {what} {max(held, scanned) // (32 * default)} registers per thread"
        inside = pressure_of_routines(func)
        if warps == default < MOST_IN_ROUTINES and inside > ROUTINE_REGISTERS * 32 * warps:
            warps *= 2
            why = f"with {default} warps, tiles take {inside // (32 * default)} registers per thread around f64 functions"
    else:
        held = max(accumulator_elements(op) for op in products)
        most = ACCUMULATOR_REGISTERS
        if target.has_wgmma and not all(
            _has_rows(op, 2 * warps) for op in chained_products(func) if isinstance(op, DotOp)
        ):
            # More warpgroups than rows for each exchange the left operand between the products.
            most = MOST_REGISTERS - BESIDE_ACCUMULATORS
        while warps < MOST_WITH_PRODUCTS and held > most * 32 * warps:
            warps *= 2
        why = (
            f"with {default} warps, accumulators take {held // (32 * default)} registers per thread"
        )
        if warps == default < MOST_WITH_PRODUCTS:
            is_full = held >= ACCUMULATOR_REGISTERS * 32 * warps
            beside = _held_beside(products, held, warps, is_full)
            if beside:
                warps, why = 2 * warps, beside
            elif is_full:
                return _asked(func, products, (warps, 2 * warps), target, remarks)
    if warps != default:
        remarks.add("warps", f"{warps} warps: {why}", func, warps=warps)
    return warps


def _held_beside(products: Sequence[DotOp], held: int, warps: int, is_full: bool) -> str:
    """What is held beside accumulators, for which registers do not suffice; empty if they do. ``is_full``: if accumulators take as
    many as they may."""
    if is_full and any(_meets_loaded_tile(op) for op in products):
        return "the accumulator is combined with a loaded tile of its size"
    if is_full and any(_has_computed_left(op) and _has_rows(op, 2 * warps) for op in products):
        return "a left operand is computed in registers beside the accumulator"
    if held + _computed_registers(products) > (MOST_REGISTERS - BESIDE_COMPUTED) * 32 * warps:
        return "a large operand is computed in registers beside the accumulator"
    return ""


def _asked(
    func: FuncOp,
    products: Sequence[DotOp],
    counts: tuple[int, int],
    target: Target,
    remarks: Remarks,
) -> int:
    """Which of two counts of warps is modelled to be the better one. Where they are alike, the larger one if a multiprocessor
    holds one block of the smaller one: it has nothing else to hide latency."""
    gpu = gpu_of(target.compute)
    if gpu is None:
        return counts[0]
    alone = any(_is_persistent(op) for op in products)
    ring = max(ring_bytes(op) for op in products)
    held = max(accumulator_elements(op) for op in products)
    chained = chained_products(func)
    clocks: list[float] = []
    resident: list[int] = []
    for warps in counts:
        costs = [
            product_cost(op, warps, op in chained, operands_loaded(op), target) for op in products
        ]
        made = [cost for cost in costs if cost is not None]
        if len(made) < len(costs):
            return counts[0]
        registers = registers_of(held, warps, all(cost.by_warpgroups for cost in made))
        if alone and registers + AROUND > MOST_REGISTERS:
            # Only the first count can be too small.
            why = f"{counts[1]} warps: a persistent loop needs registers, too"
            remarks.add("warps", why, func, warps=counts[1])
            return counts[1]
        resident.append(1 if alone else resident_blocks(gpu, warps, registers, ring))
        clocks.append(sum(clocks_per_iteration(gpu, cost, resident[-1]) for cost in made))
    ratio = clocks[0] / clocks[1]
    more = ratio > 1 / WORTH or (ratio >= WORTH and resident[0] == 1)
    chosen = counts[more]
    compared = Comparison(
        gpu.title,
        tuple(
            Alternative(str(warps), each, blocks)
            for warps, each, blocks in zip(counts, clocks, resident, strict=True)
        ),
    )
    alike = ", which differ too little" if WORTH <= ratio <= 1 / WORTH else ""
    remarks.add("warps", f"{chosen} warps: {compared}{alike}", func, compared, warps=chosen)
    return chosen


def _has_rows(op: DotOp, warps: int) -> bool:
    """Whether so many warps have fragments of rows of their own: four by four, as ``wgmma`` takes them."""
    return T.dims_of(op.c.type)[-2] >= ROWS_OF_WARP * warps


def largest_tile(func: FuncOp) -> int:
    """The 32-bit registers, of the whole block, of the largest tile of a kernel."""
    tiles = [value for op in func.walk() for value in tiles_of(op.results)]
    return max(map(tile_registers, tiles), default=0)


def scanned_registers(func: FuncOp) -> int:
    """The 32-bit registers, of the whole block, of what a scan reads and what it makes of it: it holds both."""
    scans = [op for op in func.walk() if isinstance(op, ScanOp)]
    return max((sum(map(tile_registers, (*op.operands, *op.results))) for op in scans), default=0)


def accumulator_elements(op: Operation) -> int:
    """The registers, of the whole block, of the sums of a product, of those that are computed beside it in one block, and of tiles as large that
    the loop around them carries beside these: sums of sums."""
    block, loop = op.parent, op.parent_op()
    assert block is not None
    products = [other for other in block.ops if isinstance(other, DotOp)]
    held = sum(tile_registers(other.results[0]) for other in products)
    end = block.last_op
    if isinstance(loop, scf.ForOp) and end is not None:
        own = {other.results[0] for other in products}
        least = element_count(op.results[0])
        beside = [
            value for value in end.operands if value not in own and element_count(value) >= least
        ]
        held += sum(tile_registers(value) for value in beside)
    return held


def ring_bytes(op: DotOp) -> int:
    """The bytes that the operands of a product in a loop take of shared memory in all stages, and once more where they are widened; 0
    outside of loops."""
    if not isinstance(op.parent_op(), scf.ForOp):
        return 0
    total = 0
    for value in (op.a, op.b):
        count, size = prod(T.dims_of(value.type)), element_bytes(value.type)
        widened = 2 * count if T.element_name(T.element_of(value.type)) in WIDER else 0
        total += DEFAULT_STAGES * count * size + widened
    return total


def _meets_loaded_tile(op: DotOp) -> bool:
    """Whether the sums of a product, or what is computed from them in its iteration or behind its loop, are combined with
    a tile as large that is loaded: both are held at once."""
    loop = op.parent_op()
    if not isinstance(loop, scf.ForOp):
        return False
    size = prod(T.dims_of(op.result.type))
    waiting = [value for value in (op.result, *loop.results) if element_count(value) == size]
    seen = set(waiting)
    while waiting:
        for use in waiting.pop().uses:
            # A product takes an operand from where it lies.
            if use.operation.regions or isinstance(use.operation, DotOp | scf.YieldOp):
                continue
            for other in use.operation.operands:
                if other not in seen and element_count(other) == size and is_loaded(other):
                    return True
            found = [value for value in use.operation.results if element_count(value) == size]
            waiting += [value for value in found if value not in seen]
            seen.update(found)
    return False


def _has_computed_left(op: DotOp) -> bool:
    """Whether threads compute the left operand of a product from a tile that its iteration loads."""
    block = op.parent
    assert block is not None
    return any(isinstance(load, Load) and op in computed_left(load) for load in block.ops)


def _computed_registers(products: Sequence[DotOp]) -> int:
    """The registers, of the whole block, of the largest tile from which an operand of a product is computed in its iteration."""
    found = 0
    for op in products:
        waiting = [op.a, op.b]
        while waiting:
            owner = waiting.pop().owner
            if isinstance(owner, Operation) and owner.parent is op.parent and is_elementwise(owner):
                tiles = tiles_of(owner.operands)
                found = max(
                    found, *(element_count(v) * element_bytes(v.type) // 4 for v in tiles), 0
                )
                waiting += tiles
    return found


def _is_persistent(op: Operation) -> bool:
    """Whether a product is made again for other tiles, in a loop whose step is the extent of the grid. One whose sums go
    on from round to round, as where blocks share the depth, is not."""
    parent = op.parent_op()
    if isinstance(parent, scf.ForOp) and any(element_count(value) for value in parent.results):
        parent = parent.parent_op()
    while parent is not None:
        if isinstance(parent, scf.ForOp) and _comes_from_grid(parent.operands[2]):
            return True
        parent = parent.parent_op()
    return False


def _comes_from_grid(value: SSAValue) -> bool:
    seen: set[SSAValue] = set()
    waiting = [value]
    while waiting:
        owner = waiting.pop().owner
        if isinstance(owner, Operation):
            if isinstance(owner, GetNumProgramsOp):
                return True
            waiting += [operand for operand in owner.operands if operand not in seen]
            seen.update(owner.operands)
    return False
