"""Right operands that threads compute in registers from loaded bytes."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.dialects.nv_tileaa.ops.memory import Load
from tilewright.dialects.nv_tileaa.ops.shapes import CatOp
from tilewright.layouts import Layout
from tilewright.layouts.layout import axis_bits
from tilewright.layouts.parts import Part, part_layout, says_bits
from tilewright.passes.tileas import tile_ops
from tilewright.passes.tileas.access_layouts import (
    Shape,
    coalesced,
    element_bytes,
    storage_between,
)
from tilewright.passes.tileas.element_accesses import goes_by_element
from tilewright.passes.tileas.operand_layouts import operand_layouts
from tilewright.passes.tileas.product_costs import element_count
from tilewright.passes.tileas.products import Plan

#: The bytes of an element of the operands that are made of bytes.
HALF = 2
#: The neighbours of a row, as a logarithm, that a thread computes: a word of bytes.
MOST_SPREAD = 2
#: With so many rows at most, warps had better share columns only, each with a right operand of its own, and read all of the left one.
MOST_ROWS = 64
#: The registers of a thread that the sums and such an operand may take; beyond, ptxas spills what bytes become.
MOST_REGISTERS = 96


@dataclass(frozen=True, slots=True)
class RightOperand:
    """The load that a right operand is computed from, the layout in which threads read its tile, and how many neighbours of a
    row a thread computes, as a logarithm."""

    load: Access
    layout: Layout
    spread: int


def may_be_right(load: Access) -> bool:
    """Whether a load is one of bytes in a loop."""
    block = load.parent
    in_loop = block is not None and isinstance(block.parent_op(), scf.ForOp)
    return in_loop and element_bytes(load.moved.type) == 1 and not goes_by_element(load)


def plan_right(
    product: DotOp, plan: Plan, shapes: Mapping[Access, Shape], known: Container[SSAValue]
) -> RightOperand | None:
    """How threads compute the right operand of a product; None where they had better not: several warps need the same of
    it, or its tile comes otherwise. Values that are ``known`` have a layout already."""
    if plan.bits != HALF * 8 or plan.atom != "mma_sync" or plan.warps[0] != 1:
        return None
    load = computed_right(product)
    if load is None or load.moved in known:
        return None
    spread = spread_of(load, product, plan, shapes[load])
    wanted = replace(plan, spread=spread).b
    if wanted.is_replicated or plan.accumulator.registers + wanted.registers // 2 > MOST_REGISTERS:
        return None
    layout = layout_of_load(load, product, wanted, shapes[load])
    return None if layout is None else RightOperand(load, layout, spread)


def computed_right(product: DotOp) -> Access | None:
    """The tile of bytes, loaded in the iteration of a loop, that the right operand of a product of halves is computed from, element by
    element; None where there is none, or where anything else is computed from it."""
    block = product.parent
    if block is None or not isinstance(block.parent_op(), scf.ForOp):
        return None
    if element_bytes(product.b.type) != HALF:
        return None
    found: set[Operation] = set()
    chain: set[Operation] = {product}
    waiting: list[SSAValue] = [product.b]
    while waiting:
        value = waiting.pop()
        op = value.owner
        if not isinstance(op, Operation) or op.parent is not block or op in chain | found:
            continue
        if isinstance(op, Load) and value is op.moved and element_bytes(value.type) == 1:
            found.add(op)
        elif _keeps_places(op):
            chain.add(op)
            size = element_count(value)
            whole = [each for each in op.operands if element_count(each) in (size, size // 2)]
            waiting += [each for each in whole if tile_ops.is_tile(each)]
    if len(found) != 1:
        return None
    (load,) = found
    assert isinstance(load, Access)
    if goes_by_element(load) or not _leads_only_to(load, chain):
        return None
    return load


def _keeps_places(op: Operation) -> bool:
    moves = op.name in (tile_ops.PERMUTE, *tile_ops.RESHAPES) or isinstance(op, CatOp)
    return moves or tile_ops.is_elementwise(op)


def _leads_only_to(load: Access, chain: set[Operation]) -> bool:
    """Whether all that takes a loaded tile, and what is made of it, is in a chain of operations."""
    made = [load.moved, *(value for op in chain for value in op.results)]
    ends = {value for op in chain if isinstance(op, DotOp) for value in op.results}
    return all(use.operation in chain for value in made if value not in ends for use in value.uses)


def spread_of(load: Access, product: DotOp, plan: Plan, shape: Shape) -> int:
    """How many neighbours of a row, as a logarithm, a thread has best of a right operand that it computes from what is loaded as
    ``shape`` says: as many as come in a word, where its warp has so many columns; one where rows of memory go along k."""
    value = product.b
    while value is not load.moved:
        op = value.owner
        assert isinstance(op, Operation)
        if op.name == tile_ops.PERMUTE:
            return 0
        value = next(each for each in op.operands if _comes_from(each, load))
    if shape.axis != len(T.dims_of(load.moved.type)) - 1:
        return 0
    columns = plan.dims[-1] // plan.warps[1] // plan.fragment.n
    return max(min(MOST_SPREAD, columns.bit_length() - 1, shape.width.bit_length() - 1), 0)


def layout_of_load(load: Access, product: DotOp, wanted: Layout, shape: Shape) -> Layout | None:
    """The layout in which threads read a loaded tile to compute the right operand of a product in the layout that is
    ``wanted``; None where no bits say it, or where they would read it from shared memory with conflicts of banks."""
    value, layout = product.b, wanted
    while value is not load.moved:
        op = value.owner
        assert isinstance(op, Operation)
        if isinstance(op, CatOp):
            mask = 1 << axis_bits(T.dims_of(value.type))[int_property(op, "axis")].stop - 1
            if not says_bits(layout, mask) or mask not in layout.register:
                return None
            layout = part_layout(layout, Part(mask, 0))
        elif op.name == tile_ops.PERMUTE:
            layout = operand_layouts(op, layout)[0]
        value = next(each for each in op.operands if _comes_from(each, load))
    dims = T.dims_of(load.moved.type)
    filled = coalesced(dims, wanted.threads, shape).without_copies()
    return None if storage_between(filled, layout, 1) is None else layout


def _comes_from(value: SSAValue, load: Access) -> bool:
    op = value.owner
    if value is load.moved:
        return True
    if not isinstance(op, Operation) or op.parent is not load.parent or not _keeps_places(op):
        return False
    return any(_comes_from(each, load) for each in op.operands if tile_ops.is_tile(each))
