"""How much of a product there is to compute: rows, columns and terms that are known when the code runs.

Where a tile ends behind its array, most of a product may be zeros or unseen. What is left out:

* terms of which both factors lie outside their arrays and are zero, the padding, so that their products are, too;
* rows and columns that nothing observes (``observed``).

A kernel has a second form for such tiles (``microkernel``), which takes these numbers. It counts in whole vectors and blocks,
so elements beyond them may hold anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from llvmlite import ir
from xdsl.ir import Operation, SSAValue

from tilewright.cpu.codegen.analysis.plan import Plan
from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I64, element_of
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import Coords, Index
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import Elementwise, Mapped, Tile
from tilewright.cpu.codegen.memory.access import ViewLoad, place_of_tile
from tilewright.cpu.codegen.products.accumulation import AccumulationKernel
from tilewright.cpu.codegen.products.packed_operands import loaded_from
from tilewright.cpu.codegen.products.running_sums import make_early
from tilewright.cpu.codegen.products.state import Extents, Observed
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.dialects.nv_tileaa.ops.pointers import FpToFpOp
from tilewright.dialects.nv_tileaa.ops.shapes import ExpandDimsOp, PermuteOp, ViewOp

_ANY = 1 << 62
#: Operations of one operand that make zero of zero.
_KEEP_ZERO = frozenset(
    {
        *(f"arith.{name}" for name in ("extsi", "extui", "trunci", "sitofp", "uitofp")),
        *(kind.name for kind in (FpToFpOp, PermuteOp, ViewOp, ExpandDimsOp)),
    }
)
_WITHOUT_ZERO = frozenset({"f8E8M0FNU"})


def is_whole(b: Builder, extents: Extents, dims: tuple[int, int, int]) -> Value | None:
    """Whether all of a product of extents M, N, K is to be computed; None where that is sure."""
    pairs = zip((extents.rows, extents.columns, extents.depth), dims, strict=True)
    conditions = [
        b.icmp_unsigned(">=", found, ir.Constant(I64, extent))
        for found, extent in pairs
        if found is not None
    ]
    return llvm.all_of(b, conditions)


def numbers(extents: Extents, dims: tuple[int, int, int]) -> tuple[Value, Value, Value]:
    """The rows, columns and terms of a product of extents M, N, K."""
    found = zip((extents.rows, extents.columns, extents.depth), dims, strict=True)
    m, n, k = (ir.Constant(I64, extent) if value is None else value for value, extent in found)
    return m, n, k


def up_to(b: Builder, number: Value | None, unit: int, extent: int) -> Value | None:
    """The next multiple of a unit, a power of two, from a number on, ``extent`` at most; None for None, which means
    all.
    """
    if number is None:
        return None
    above = b.add(number, ir.Constant(I64, unit - 1))
    whole = b.and_(above, ir.Constant(I64, -unit))
    return llvm.intrinsic(b, "umin", [whole, ir.Constant(I64, extent)])


def observe(f: FunctionEmitter, anchor: Operation) -> None:
    """Before an operation: find out how much is observed of the products in it."""
    for op, observed in f.observed.items():
        if observed.anchor is anchor:
            f.extents[op] = _observed(f, observed)


def _observed(f: FunctionEmitter, observed: Observed) -> Extents:
    b = f.builder
    found: list[tuple[Value | None, ...]] = []
    for store, (rows, columns) in observed.stores:
        for value in (store.operands[0], *store.indices):
            make_early(f, value)
        dims = T.dims_of(store.value.type)
        limits = place_of_tile(f, store, dims).limits
        axes = (None if axis is None else (limits[axis], dims[axis]) for axis in (rows, columns))
        # Its checks come with the store; until then an index, and what follows from it, may be any number.
        found.append(
            tuple(
                None
                if pair is None or pair[0] is None
                else llvm.intrinsic(b, "umin", [pair[0], ir.Constant(I64, pair[1])])
                for pair in axes
            )
        )
    rows, columns = zip(*found, strict=True)
    return Extents(_furthest(b, rows), _furthest(b, columns))


def _furthest(b: Builder, limits: tuple[Value | None, ...]) -> Value | None:
    """The largest of some limits, one at least; None where one of them is no limit."""
    found: Value | None = ir.Constant(I64, 1)
    for limit in limits:
        if limit is None or found is None:
            return None
        found = llvm.intrinsic(b, "umax", [found, limit])
    return found


@dataclass(frozen=True, slots=True)
class Ends:
    """How many rows and columns of a matrix lie inside its array, None where all do; ``others``: whether it lies
    inside along all other axes of the tile it is from (None: it does); ``dense``: it is known that rows are dense."""

    rows: Value | None
    columns: Value | None
    others: Value | None
    dense: bool


@dataclass(frozen=True, slots=True)
class Parts:
    """How much of a product is to be computed, and where its factors end, behind which they are zero, if that is
    known."""

    extents: Extents = field(default_factory=Extents)
    left: Ends | None = None
    right: Ends | None = None


def work_of(
    f: FunctionEmitter, op: DotOp, accumulation: AccumulationKernel, a: Tile, b: Tile
) -> Parts:
    """How much of the product of two matrices is to be computed at the place where code goes."""
    observed = f.observed.get(op)
    if observed is not None and observed.anchor is op:
        observe(f, op)  # Each time: code is made again for another call.
    extents = f.extents.get(op, Extents())
    if op.sfa is not None:
        return Parts(extents)
    left, right = ends_of(f, op.a, a), ends_of(f, op.b, b)
    if left is None or right is None or left.columns is None or right.rows is None:
        return Parts(extents, left, right)
    if accumulation.row_factor:  # All elements of a row are summed.
        return Parts(extents, left, right)
    depth = _furthest(f.builder, (left.columns, right.rows))
    return Parts(replace(extents, depth=depth), left, right)


def ends_of(f: FunctionEmitter, value: SSAValue, tile: Tile) -> Ends | None:
    """Where a matrix ends behind which all is zero; None where that is not known."""
    if not _zero_stays(value, f.plan):
        return None
    row, column = Index(0, None, _ANY), Index(0, None, _ANY)
    coords: Coords | None = (row, column)
    while coords is not None and isinstance(tile, Mapped | Elementwise):
        if isinstance(tile, Mapped):
            coords = tile.mapping(LoopNest(f.builder), coords)
        if len(tile.sources) != 1:
            return None
        (tile,) = tile.sources
    if coords is None or not isinstance(tile, ViewLoad) or not _is_zero(tile.padding):
        return None
    place, b = tile.place, f.builder
    axes = [next((axis for axis, at in enumerate(coords) if at is it), -1) for it in (row, column)]
    if -1 in axes:
        return None
    others = [
        b.icmp_unsigned(">=", limit, ir.Constant(I64, extent))
        for axis, (limit, extent) in enumerate(zip(place.limits, place.dims, strict=True))
        if limit is not None and axis not in axes
    ]
    rows, columns = (place.limits[axis] for axis in axes)
    return Ends(rows, columns, llvm.all_of(b, others), place.loose is None)


def _is_zero(number: Value) -> bool:
    constant = isinstance(number, ir.Constant)
    return constant and number.get_reference() in ("0", "0xH0000", "0x0000000000000000")


def _zero_stays(value: SSAValue, plan: Plan) -> bool:
    """Whether a tile is one of memory, moved or converted so that a zero stays one."""
    load = loaded_from(value, plan)
    while load is not None and value.owner is not load:
        owner = value.owner
        if not isinstance(owner, Operation) or owner.name not in _KEEP_ZERO:
            return False
        (value,) = (v for v in owner.operands if isinstance(v.type, T.TileType))
        if element_of(value.type).name in _WITHOUT_ZERO:
            return False
    return load is not None
