"""``tileas-order-blocks``: reorder tile blocks so that those in flight together share more of what they load.

The performance model picks the order from the products in the kernel's loops.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.memory import Load
from tilewright.dialects.nv_tileaa.ops.queues import GetProgramIdOp
from tilewright.dialects.syntax.engine import values_of
from tilewright.model.choices import (
    Order,
    Sharing,
    clocks_per_iteration,
    gpu_of,
    order_of_blocks,
    resident_blocks,
)
from tilewright.passes.tileas.access_layouts import element_bytes
from tilewright.passes.tileas.band_order import check_band, order_blocks, order_matters
from tilewright.passes.tileas.function_pass import FunctionPass
from tilewright.passes.tileas.product_costs import operands_loaded, product_cost, registers_of
from tilewright.passes.tileas.products import chained_products
from tilewright.passes.tileas.remarks import Remarks
from tilewright.passes.tileas.target import Target
from tilewright.passes.tileas.warp_counts import DEFAULT_WARPS, block_warps
from tilewright.passes.tileas.warps import accumulator_elements, ring_bytes

_KIND = "block-order"


@dataclass(frozen=True)
class OrderBlocks(FunctionPass):
    """Runs the blocks of large grids in bands along the first axis if their order does not matter.

    Applies to grids of more than ``limit`` blocks whose first axis is longer than ``band``. A ``band`` of 0 leaves
    both to the performance model of the ``target``; ``num_warps`` are those of kernels without a hint.
    """

    name: ClassVar[str] = "tileas-order-blocks"

    band: int = 0
    limit: int = 0
    num_warps: int = DEFAULT_WARPS
    target: str = "sm_80"

    def __post_init__(self) -> None:
        if self.band:
            check_band(self.band)

    def rewrite_function(self, func: FuncOp) -> None:
        if not self.band:
            choose_order(func, block_warps(func, self.num_warps), Target(self.target), Remarks())
        elif not order_matters(func):
            order_blocks(func, self.band, self.limit)


def choose_order(
    func: FuncOp, warps: int, target: Target, remarks: Remarks, band: int | None = None
) -> None:
    """Let the blocks of a kernel go through bands, in place, where the performance model has memory do less then.

    Nothing changes if the order of blocks may matter, or the model knows no GPU of the target; a remark says why.
    ``band``: so many blocks wide on every grid that is wider; 0: none.
    """
    if band is not None:
        remarks.add(_KIND, _as_decided(func, band), func)
        return
    loops = _loops(func)
    if not loops or gpu_of(target.compute) is None:
        return
    why = order_matters(func)
    if why:
        remarks.add(_KIND, f"blocks run in grid order: {why}", func)
        return
    found = max(
        (_asked(func, products, sharing, warps, target) for products, sharing in loops),
        key=lambda answer: answer.busy if isinstance(answer, Order) else -1.0,
    )
    if isinstance(found, Order):
        order_blocks(func, found.band, found.limit)
        remarks.add(
            _KIND,
            _told(found, target),
            func,
            band=found.band,
            limit=found.limit,
            bytes=round(found.bands),
            bytes_in_grid_order=round(found.rows),
            busy=found.busy,
        )
    else:
        remarks.add(_KIND, _told(found, target), func, band=0, busy=found)


def _as_decided(func: FuncOp, band: int) -> str:
    """Apply the requested order; returns the remark."""
    why = order_matters(func) if band else "as requested"
    if not why and order_blocks(func, band):
        return f"blocks run in bands of {band}, as requested"
    return f"blocks run in grid order: {why or 'no block reads its index'}"


def _asked(
    func: FuncOp, products: list[DotOp], sharing: Sharing, warps: int, target: Target
) -> Order | float:
    gpu = gpu_of(target.compute)
    assert gpu is not None
    chained = chained_products(func)
    costs = [product_cost(op, warps, op in chained, operands_loaded(op), target) for op in products]
    made = [cost for cost in costs if cost is not None]
    if len(made) < len(costs):
        # Products that tensor cores do not have keep memory idle.
        return 0.0
    by_groups = all(cost.by_warpgroups for cost in made)
    registers = registers_of(max(map(accumulator_elements, products)), warps, by_groups)
    blocks = resident_blocks(gpu, warps, registers, max(map(ring_bytes, products)))
    clocks = sum(clocks_per_iteration(gpu, cost, blocks) for cost in made)
    return order_of_blocks(gpu, sharing, clocks, blocks)


def _told(found: Order | float, target: Target) -> str:
    gpu = gpu_of(target.compute)
    assert gpu is not None
    if not isinstance(found, Order):
        return (
            f"blocks run in grid order: modelled on {gpu.title}, memory is busy for at most "
            f"{found:.0%} of an iteration, or bands would load as much"
        )
    return (
        f"blocks run in bands of {found.band} on grids wider than {found.limit}: modelled on "
        f"{gpu.title}, the blocks in flight load {found.bands / 1024:.0f} KiB per iteration "
        f"instead of {found.rows / 1024:.0f} KiB, which keeps memory busy for {found.busy:.0%} of "
        "it"
    )


def _loops(func: FuncOp) -> list[tuple[list[DotOp], Sharing]]:
    """The innermost loops with products whose blocks share what moves along one of the first two axes of the grid, not the
    other one, with what they share."""
    found: dict[Block, list[DotOp]] = {}
    for op in func.walk():
        if (
            isinstance(op, DotOp)
            and isinstance(op.parent_op(), scf.ForOp)
            and op.parent is not None
        ):
            found.setdefault(op.parent, []).append(op)
    shared = [(products, _sharing(block)) for block, products in found.items()]
    return [(products, sharing) for products, sharing in shared if sharing.across and sharing.along]


def _sharing(block: Block) -> Sharing:
    across = along = own = 0
    for op in block.ops:
        if not isinstance(op, Load) or not isinstance(op.moved.type, T.TileType):
            continue
        size = prod(T.dims_of(op.moved.type)) * element_bytes(op.moved.type)
        axes = _axes((*values_of(op, "base"), *values_of(op, "indices")))
        if axes & {0, 1} == {0, 1}:
            own += size
        elif 0 in axes:
            across += size
        elif 1 in axes:
            along += size
    return Sharing(across, along, own)


def _axes(values: Iterable[SSAValue]) -> set[int]:
    """The axes of the grid that these values depend on."""
    waiting, seen = list(values), set[SSAValue]()
    found: set[int] = set()
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        owner = value.owner
        if isinstance(value, BlockArgument):
            parent = value.block.parent_op()
            if isinstance(parent, scf.ForOp):
                waiting += _carried(parent, value)
            elif parent is not None and not isinstance(parent, FuncOp):
                waiting += parent.operands
            continue
        assert isinstance(owner, Operation)
        if isinstance(owner, GetProgramIdOp):
            found.add(int_property(owner, "axis"))
        elif isinstance(owner, Access):
            waiting += [*values_of(owner, "base"), *values_of(owner, "indices")]
        else:
            waiting += owner.operands
            for region in owner.regions:
                waiting += [operand for inner in region.walk() for operand in inner.operands]
    return found


def _carried(loop: scf.ForOp, value: BlockArgument) -> list[SSAValue]:
    """What an argument of the body of a loop comes from."""
    end = loop.body.block.last_op
    assert end is not None
    if value.index == 0:
        return [*loop.operands[:3]]
    return [loop.operands[2 + value.index], end.operands[value.index - 1]]
