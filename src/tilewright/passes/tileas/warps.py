"""How many warps a block gets where nobody says: enough that what a thread holds stays in registers."""

from __future__ import annotations

from math import prod

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.queues import GetNumProgramsOp
from tilewright.passes.tileas.access_layouts import element_bytes
from tilewright.passes.tileas.pipeline import DEFAULT_STAGES
from tilewright.passes.tileas.products import WIDER
from tilewright.passes.tileas.remarks import Remarks

#: The registers of a thread that the sums of products may take, of 255.
SUMS_REGISTERS = 128
#: The registers that the widest tile of a kernel may take.
TILE_REGISTERS = 128
#: More warps than that leave each thread less than 128 registers, or make no smaller fragments.
MOST_WITH_PRODUCTS, MOST = 8, 16


def chosen_warps(
    func: FuncOp, default: int, shared_bytes: int, remarks: Remarks | None = None
) -> int:
    """The warps of a block of a kernel for which no hint says how many; a power of two.

    ``shared_bytes``: what a block may take of a multiprocessor's shared memory, nearly all of it.
    """
    products = [op for op in func.walk() if isinstance(op, DotOp)]
    warps = default
    if not products:
        held = max((_registers(value) for value in _tiles(func)), default=0)
        while warps < MOST and held > TILE_REGISTERS * 32 * warps:
            warps *= 2
        why = f"a tile takes {held // (32 * default)} registers of each of {32 * default} threads"
    else:
        held = max(_sums_together(op) for op in products)
        while warps < MOST_WITH_PRODUCTS and held > SUMS_REGISTERS * 32 * warps:
            warps *= 2
        why = f"sums take {held // (32 * default)} registers of each of {32 * default} threads"
        if warps == default < MOST_WITH_PRODUCTS and held >= SUMS_REGISTERS * 32 * warps:
            if any(_is_persistent(op) for op in products):
                warps *= 2
                why = (
                    "its loop goes over the blocks of the grid, of which each has a multiprocessor"
                )
            elif 2 * (ring := max(_ring_bytes(op) for op in products)) > shared_bytes:
                warps *= 2
                why = f"{DEFAULT_STAGES} stages of {ring // DEFAULT_STAGES} bytes leave room for one block"
            elif any(_meets_loaded_tile(op) for op in products):
                warps *= 2
                why = "behind its loop the sums meet a tile of their size that is loaded"
    if warps != default and remarks is not None:
        remarks.add("warps", f"{warps} warps: {why}", func)
    return warps


def _tiles(func: FuncOp) -> list[SSAValue]:
    return [
        value for op in func.walk() for value in op.results if isinstance(value.type, T.TileType)
    ]


def _registers(value: SSAValue) -> int:
    """The registers of 32 bits that a tile takes in all threads together."""
    return prod(T.dims_of(value.type)) * max(element_bytes(value.type) // 4, 1)


def _sums_together(op: Operation) -> int:
    """The registers of the sums of a product, and of those that are computed beside it in one block."""
    block = op.parent
    assert block is not None
    products = [other for other in block.ops if isinstance(other, DotOp)]
    return sum(_registers(other.results[0]) for other in products)


def _ring_bytes(op: DotOp) -> int:
    """What the operands of a product in a loop take in all stages, and once more where they are widened."""
    if not isinstance(op.parent_op(), scf.ForOp):
        return 0
    total = 0
    for value in (op.a, op.b):
        count, size = prod(T.dims_of(value.type)), element_bytes(value.type)
        widened = 2 * count if T.element_name(T.element_of(value.type)) in WIDER else 0
        total += DEFAULT_STAGES * count * size + widened
    return total


def _meets_loaded_tile(op: DotOp) -> bool:
    """Whether the sums of a product, or what is computed from them behind its loop, are combined with a
    tile as large that is loaded: both are held at once."""
    loop = op.parent_op()
    if not isinstance(loop, scf.ForOp):
        return False
    size = prod(T.dims_of(op.result.type))
    waiting = [value for value in loop.results if _size(value) == size]
    seen = set(waiting)
    while waiting:
        for use in waiting.pop().uses:
            if use.operation.regions:
                continue
            for other in use.operation.operands:
                if other not in seen and _size(other) == size and _is_loaded(other):
                    return True
            found = [value for value in use.operation.results if _size(value) == size]
            waiting += [value for value in found if value not in seen]
            seen.update(found)
    return False


def _size(value: SSAValue) -> int:
    return prod(T.dims_of(value.type)) if isinstance(value.type, T.TileType) else 0


def _is_loaded(value: SSAValue) -> bool:
    """Whether a tile is loaded, or computed from tiles as large of which one is."""
    size, waiting, seen = _size(value), [value], {value}
    while waiting:
        owner = waiting.pop().owner
        if isinstance(owner, Access):
            return True
        if isinstance(owner, Operation) and not owner.regions:
            found = [other for other in owner.operands if _size(other) == size]
            waiting += [other for other in found if other not in seen]
            seen.update(found)
    return False


def _is_persistent(op: Operation) -> bool:
    """Whether a product is made again for other tiles, in a loop whose step is the extent of the grid. One whose sums go
    on from round to round, as where blocks share the depth, is not."""
    parent = op.parent_op()
    if isinstance(parent, scf.ForOp) and any(_size(value) for value in parent.results):
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
