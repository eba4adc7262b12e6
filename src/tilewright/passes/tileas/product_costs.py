"""The work of products per loop iteration as the performance model wants it, before and after layouts are assigned."""

from __future__ import annotations

from math import prod

from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects.narrowing import integers_of
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas import pipelines as P
from tilewright.dialects.nv_tileas.types import TiledViewType
from tilewright.layouts.conversions import WIDEST
from tilewright.model.choices import ProductCost
from tilewright.numerics.element_types import FORMATS
from tilewright.passes.tileas.products import FRAGMENTS, WIDENED, Plan, plan_product
from tilewright.passes.tileas.target import Target
from tilewright.passes.tileas.thread_products import FMA, thread_accumulator, tile_of_thread
from tilewright.passes.tileas.warpgroup_products import (
    ROWS,
    STEP_BYTES,
    WarpgroupPlan,
    plan_warpgroups,
)

#: Registers of a thread other than accumulators; registers for operands of ``mma.sync`` (``wgmma`` needs none); the limit.
BESIDE_ACCUMULATORS, OPERANDS, MOST_REGISTERS = 88, 16, 255
_RATES = {"tf32": "tensor_tf32", "i8": "tensor_i8", "f64": "tensor_f64"}


def product_cost(
    op: DotOp, warps: int, chained: bool, copied: tuple[bool, bool], target: Target
) -> ProductCost | None:
    """Return the cost of an iteration in which ``warps`` warps compute a product; None without a tensor-core instruction.

    ``chained``: its left operand is the result of another product. ``copied``: which operands are loaded in the iteration.
    """
    plan: Plan | WarpgroupPlan | None = None
    if target.has_wgmma:
        plan = plan_warpgroups(op, warps)
    if plan is None:
        plan = plan_product(op, warps, chained, target)
    return None if plan is None else plan_cost(plan, chained, copied)


def plan_cost(plan: Plan | WarpgroupPlan, chained: bool, copied: tuple[bool, bool]) -> ProductCost:
    """A round in which warps make a product as planned; ``chained`` and ``copied`` as for ``product_cost``."""
    a, b = (prod(dims) * plan.bits / 8 for dims in (plan.a_dims, plan.b_dims))
    moved = a * copied[0] + b * copied[1]
    # The result of another product is in registers.
    in_shared = a * (not chained or copied[0])
    depth = plan.a_dims[-1]
    work = prod(plan.dims) * depth
    if isinstance(plan, Plan):
        # Each warp reads the rows of A and the columns of B of its part of the result.
        down, across = plan.warps
        read = in_shared * across + b * down
        steps = max(depth // plan.fragment.k, 1)
        return ProductCost(work, _rate(plan.name, plan.atom), steps, False, moved, read)
    # Each instruction reads 64 rows of A, and all columns of its warpgroup of B.
    read = in_shared * plan.groups[1] + b * (plan.dims[-2] // ROWS)
    steps = max(depth * plan.bits // (8 * STEP_BYTES), 1)
    return ProductCost(work, _rate(plan.name), steps, True, moved, read)


def scheduled_product_cost(op: S.Product) -> ProductCost:
    """Return the cost of an iteration with a scheduled product; operands in a pipeline stage are copied in the iteration."""
    atom, (down, across) = S.atom_of(op), integers_of(op.warps)
    dims, (a_dims, name), (b_dims, _) = T.dims_of(op.c.type), _operand(op.a), _operand(op.b)
    depth, size = a_dims[-1], max(FORMATS[name].storage_bits // 8, 1)
    a, b = prod(a_dims) * size, prod(b_dims) * size
    moved = a * _is_staged(op.a) + b * _is_staged(op.b)
    in_shared = a * (not isinstance(op.a.type, T.TileType))
    work, by_groups = prod(dims) * depth, atom == "wgmma"
    if atom == FMA:
        # A read of a thread occupies a bank for its whole warp.
        sums = thread_accumulator(dims, 32 * down * across)
        rows, columns = tile_of_thread(sums, dims)
        read, steps = sums.threads * 4 * depth * (rows + columns), depth * size // WIDEST
        return ProductCost(work, "fma_lanes", max(steps, 1), False, moved, read)
    if by_groups:
        read, steps = in_shared * across + b * (dims[-2] // ROWS), depth * size // STEP_BYTES
    else:
        read, steps = in_shared * across + b * down, depth // FRAGMENTS[name][0].k
    return ProductCost(work, _rate(name, atom), max(steps, 1), by_groups, moved, read)


def _operand(value: SSAValue) -> tuple[tuple[int, ...], str]:
    """Return the extents and the element type of an operand, in registers or in shared memory."""
    ty = value.type
    if isinstance(ty, TiledViewType):
        return tuple(ty.dims), T.element_name(ty.element_type)
    return T.dims_of(ty), T.element_name(T.element_of(ty))


def _is_staged(value: SSAValue) -> bool:
    """Whether an operand is in a stage of a pipeline."""
    while isinstance(owner := value.owner, S.ExtractSliceOp | S.PermuteViewOp):
        value = owner.source
    return isinstance(owner, P.ConsumerReadOp)


def _rate(name: str, atom: str = "") -> str:
    if name.startswith("f8") and atom != WIDENED:
        return "tensor_f8"
    return _RATES.get(name, "tensor_f16")


def registers_of(sums: int, warps: int, by_warpgroups: bool) -> int:
    """Return the registers per thread of a kernel whose ``warps`` warps hold ``sums`` accumulator elements together.

    An estimate, of 32-bit registers: with what the compiler needs beside accumulators, up to the limit of a thread.
    """
    beside = BESIDE_ACCUMULATORS + (0 if by_warpgroups else OPERANDS)
    return min(sums // (32 * warps) + beside, MOST_REGISTERS)


def element_count(value: SSAValue) -> int:
    """Return the number of elements of a tile; 0 for other values."""
    return prod(T.dims_of(value.type)) if isinstance(value.type, T.TileType) else 0


def operands_loaded(op: DotOp) -> tuple[bool, bool]:
    """Return which operands of a product are loaded in its block."""
    return is_loaded(op.a, op.parent), is_loaded(op.b, op.parent)


def is_loaded(value: SSAValue, block: Block | None = None) -> bool:
    """Whether a tile is loaded (in ``block``, if given), or computed from a loaded tile of its size other than by a product."""
    size, waiting, seen = element_count(value), [value], {value}
    while waiting:
        owner = waiting.pop().owner
        if isinstance(owner, Access):
            if block is None or owner.parent is block:
                return True
            continue
        if isinstance(owner, Operation) and not owner.regions and not isinstance(owner, DotOp):
            found = [other for other in owner.operands if element_count(other) == size]
            waiting += [other for other in found if other not in seen]
            seen.update(found)
    return False
