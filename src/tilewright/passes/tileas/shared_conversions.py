"""Which operations exchange elements between threads through shared memory, and how many bytes of scratch they need.

Such an operation writes its scratch memory, executes a barrier, and reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import builtin as b
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import facts
from tilewright.dialects.declare import int_property
from tilewright.dialects.facts import Elements
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import TileAAOp, int_list
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.contraction import ReduceOp, ScanOp
from tilewright.dialects.nv_tileaa.ops.extensions import InsertSliceOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.hints import (
    AssertOp,
    MarkForReuseOp,
    OptimizationBarrierOp,
    PragmaOp,
)
from tilewright.dialects.nv_tileaa.ops.memory import Atomic
from tilewright.dialects.nv_tileaa.ops.pointers import BitcastOp
from tilewright.dialects.nv_tileaa.ops.shapes import (
    BroadcastOp,
    CatOp,
    ExtractOp,
    ExtractSliceOp,
    PermuteOp,
)
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas.base import is_schedule_op
from tilewright.dialects.nv_tileas.storage import held_bytes
from tilewright.dialects.nv_tileas.types import layout_of, layout_or_dealt
from tilewright.layouts import Layout, plan_conversion
from tilewright.layouts.conversions import halving_bit
from tilewright.layouts.reductions import index_bits_along, partials_layouts, totals_layout
from tilewright.passes.tileas.access_layouts import element_bytes
from tilewright.passes.tileas.element_accesses import goes_by_element, updates_in_place
from tilewright.passes.tileas.part_layouts import (
    cat_keeps_positions,
    part_keeps_positions,
    repacked_bits,
    repacking_keeps_positions,
)
from tilewright.passes.tileas.warp_counts import block_warps

#: The discardable attribute of an operation with scratch memory: the first of its bytes, and the one behind the last where
#: that is known.
SCRATCH = "nv_tileas.scratch"
#: Each tile of an exchange begins at a multiple of that.
_ALIGNMENT = 16
_KEPT = (Elements.SAME_POSITION, Elements.MADE, Elements.RESHAPED)
#: What has a rule for layouts, or looks at elements where they are.
_IN_PLACE = (AssertOp, BroadcastOp, MarkForReuseOp, OptimizationBarrierOp, PermuteOp, PragmaOp)


def scratch_of(op: Operation) -> tuple[int, int | None] | None:
    """The first byte of an operation's scratch memory and the one behind the last, None where that is not known; None
    for operations that have none, or have no place yet."""
    found = op.attributes.get(SCRATCH)
    if not isinstance(found, b.DenseArrayBase):
        return None
    start, *ends = int_list(found)
    return start, ends[0] if ends else None


def exchanged_bytes(op: Operation, threads: int) -> int | None:
    """The bytes of shared memory by which an operation hands elements to other threads, 0 for none; None where they
    are not known: for what has no rule for layouts."""
    if isinstance(op, S.ConvertLayoutOp):
        layouts = (layout_or_dealt(value.type, threads) for value in (op.source, op.result))
        return _conversion([op.source], *layouts)
    if isinstance(op, ReduceOp | ScanOp):
        return _fold(op, threads)
    if isinstance(op, Access):
        return None if _has_no_rule(op, threads) else 0
    if isinstance(op, ExtractSliceOp | InsertSliceOp):
        return 0 if part_keeps_positions(op, threads) else None
    if isinstance(op, CatOp):
        return 0 if cat_keeps_positions(op, threads) else None
    kept = facts.elements(op) in _KEPT or isinstance(op, _IN_PLACE)
    if isinstance(op, ExtractOp) and prod(T.dims_of(op.source.type)) == 1:
        kept = True
    if isinstance(op, BitcastOp):
        kept = not repacked_bits(op) or repacking_keeps_positions(op, threads)
    if kept or is_schedule_op(op) or not isinstance(op, TileAAOp) or not _has_tiles(op):
        return 0
    return None


def fewest_exchanged_bytes(op: Operation, threads: int) -> int | None:
    """The bytes of ``exchanged_bytes`` that suffice where memory is scarce: a conversion may go in two halves.

    None where they are not known.
    """
    size = exchanged_bytes(op, threads)
    if not size or not isinstance(op, S.ConvertLayoutOp):
        return size
    source, target = (layout_or_dealt(value.type, threads) for value in (op.source, op.result))
    return size // 2 if halving_bit(source, target) is not None else size


def needed_bytes(func: FuncOp) -> int:
    """The shared memory that a block of a kernel with places needs in bytes: for storages, and for exchanges where it is
    scarce."""
    threads = threads_of(func)
    needed = held_bytes(func)
    for op in func.walk():
        place = scratch_of(op)
        if place is not None:
            needed = max(needed, place[0] + (fewest_exchanged_bytes(op, threads) or 0))
    return needed


def threads_of(func: FuncOp) -> int:
    """The threads that layouts of a function speak of; those of a block, by its hint, where it has no layouts.

    Raises ``TileIRError`` (``bad-block-warps``) as ``block_warps``.
    """
    for op in func.walk():
        for value in op.results:
            layout = layout_of(value.type)
            if layout is not None:
                return layout.threads
    return 32 * block_warps(func)


def _has_tiles(op: Operation) -> bool:
    return any(isinstance(value.type, T.TileType) for value in (*op.operands, *op.results))


def _has_no_rule(op: Access, threads: int) -> bool:
    if not isinstance(op.moved.type, T.TileType):
        # Each thread loads a scalar for itself, and one stores it.
        return isinstance(op, Atomic) or goes_by_element(op)
    if isinstance(op, Atomic):
        return not updates_in_place(op, layout_or_dealt(op.moved.type, threads))
    return goes_by_element(op)


def _conversion(values: Sequence[SSAValue], source: Layout, target: Layout) -> int:
    """What it takes to convert tiles together, of which all go the way of the first one."""
    sizes = [element_bytes(value.type) for value in values]
    if plan_conversion(source, target, sizes[0]).shared_conversion is None:
        return 0
    return sum(-(-source.size * size // _ALIGNMENT) * _ALIGNMENT for size in sizes)


def _fold(op: ReduceOp | ScanOp, threads: int) -> int:
    """What warps tell one another of their parts."""
    given = op.operands[0].type
    dims, axis, layout = T.dims_of(given), int_property(op, "axis"), layout_or_dealt(given, threads)
    if isinstance(op, ReduceOp):
        both = partials_layouts(layout, dims, axis)
    else:
        places = index_bits_along(layout, dims, axis) or ()
        kinds = [place.kind for place in places]
        both = None
        if "warp" in kinds:
            both = totals_layout(layout, dims, axis, places[kinds.index("warp") :])
    return 0 if both is None else _conversion(op.operands, *both)
