"""Loop-carried accumulators of products: their initialization and their final store.

Such an accumulator lies in a buffer across iterations. It need not be zeroed before the loop if the first product can
overwrite it; and if everything behind the loop is a store of the accumulator, as it is or rounded to a narrower float, to an array
that the kernel does not read, the last product writes its results there directly. Which accumulators qualify is decided for a whole
function before code is generated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from llvmlite import ir
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tilewright.cpu.codegen.analysis import effects
from tilewright.cpu.codegen.analysis.plan import Plan
from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I1, I64, element_of
from tilewright.cpu.codegen.ir.types import Value
from tilewright.cpu.codegen.loops.tiles import Strided
from tilewright.cpu.codegen.memory.access import position_of_tile
from tilewright.cpu.codegen.memory.views import TilePosition, as_value
from tilewright.cpu.codegen.products.accumulation import accumulation_kernel_of
from tilewright.cpu.codegen.products.microkernel import FEWEST_ROWS, Shape, shape_of
from tilewright.cpu.codegen.products.state import Destination, RunningSum
from tilewright.cpu.target import CpuTarget
from tilewright.dialects.arith import ArithOp, ConstantOp
from tilewright.dialects.declare import enum_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops import memory as M
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.dialects.nv_tileaa.ops.hints import AssumeOp
from tilewright.dialects.nv_tileaa.ops.pointers import AddPtrOp, FpToFpOp, MakeMemrefOp
from tilewright.dialects.nv_tileaa.ops.queues import GetProgramIdOp
from tilewright.dialects.nv_tileaa.ops.shapes import (
    BlockTileOp,
    ExpandDimsOp,
    GetDimSizeOp,
    ViewOp,
)

#: Operations by which views and indices are made, that may be done before their time.
_ADDRESSING = (MakeMemrefOp, BlockTileOp, GetDimSizeOp, GetProgramIdOp, AssumeOp, AddPtrOp)

#: Operations by which the axes of a tile change, and no element.
_RESHAPES = (ViewOp, ExpandDimsOp)


def find_sums(
    ops: Iterable[Operation], plan: Plan, target: CpuTarget, *, checked: bool
) -> dict[DotOp, RunningSum]:
    """The products of a function that add to what a loop carries, or that are all that a store writes."""
    found: dict[DotOp, RunningSum] = {}
    every = list(ops)
    for op in every:
        if not isinstance(op, DotOp):
            continue
        argument = plan.in_place.get(op.result)
        exact = accumulation_kernel_of(target, op).accumulator == element_of(op.result.type)
        if not exact and (argument is not None or not _is_half(op.result)):
            continue
        if argument is None and not checked:
            store = _only_store(op, None, op.result, plan, every)
            if store is not None:
                found[op] = RunningSum(None, 0, False, store)
        if not isinstance(argument, BlockArgument):
            continue
        loop = argument.owner.parent_op()
        if loop is None:
            continue
        position = argument.index - 1
        fresh = (
            op.c is argument
            and len(list(argument.uses)) == 1
            and _is_zero(loop.operands[3 + position])
        )
        result = loop.results[position]
        store = None if checked else _only_store(op, loop, result, plan, every)
        if fresh or store is not None:
            found[op] = RunningSum(loop, position, fresh, store)
    return found


def _is_zero(value: SSAValue) -> bool:
    owner = value.owner
    return isinstance(owner, ConstantOp) and set(owner.bits()) == {0}


def _only_store(
    dot: DotOp, loop: Operation | None, result: SSAValue, plan: Plan, ops: Sequence[Operation]
) -> M.TiledStoreOp | None:
    """The store that is all that becomes of a product, or of the result of the loop that adds it up, if it may be done where
    the product is made."""
    if len(list(dot.result.uses)) != 1 or len(T.dims_of(dot.result.type)) != 2:
        return None
    total, maker = _moved_or_rounded(result), dot if loop is None else loop
    users = [use.operation for use in total.uses]
    if len(users) != 1 or _axes_of_matrix(dot, total) is None:
        return None
    store = users[0]
    if not isinstance(store, M.TiledStoreOp) or store.parent is not maker.parent:
        return None
    if store not in plan.non_temporal or not store.is_weak or store.mask is not None:
        return None
    if store.value is not total or "multimem" in store.properties or store in plan.groups:
        return None
    root = effects.root_of(store.operands[0])
    if any(effects.may_write(op, root) for op in ops if op is not store):
        return None
    sources = [store.operands[0], *store.indices]
    return store if all(can_be_made_before(maker, v, plan) for v in sources) else None


def _moved_or_rounded(value: SSAValue) -> SSAValue:
    """The same elements behind all reshapes, and one rounding to a float of 16 bits, by which alone they are read."""
    rounded = False
    while len(uses := list(value.uses)) == 1:
        user = uses[0].operation
        if not isinstance(user, _RESHAPES):
            if rounded or not _rounds_to_half(user):
                break
            rounded = True
        value = user.results[0]
    return value


def _rounds_to_half(op: Operation) -> bool:
    """Whether an operation rounds f32 to the nearest float of 16 bits."""
    if not isinstance(op, FpToFpOp) or enum_property(op, "rounding_mode") not in (
        "",
        "nearest_even",
    ):
        return False
    return element_of(op.source.type).name == "f32" and _is_half(op.result)


def _is_half(value: SSAValue) -> bool:
    return element_of(value.type).name in ("f16", "bf16")


def _axes_of_matrix(dot: DotOp, shown: SSAValue) -> tuple[int, int] | None:
    """Which axes of a reshaped product are its rows and its columns; None where they are not whole axes
    in that order beside others of extent 1."""
    matrix, dims = T.dims_of(dot.result.type), T.dims_of(shown.type)
    if dims == matrix:
        return 0, 1
    long = [axis for axis, extent in enumerate(dims) if extent > 1]
    if len(long) != 2 or tuple(dims[axis] for axis in long) != matrix:
        return None
    return long[0], long[1]


def can_be_made_before(loop: Operation, value: SSAValue, plan: Plan) -> bool:
    """Whether a value is there before a loop, or can be computed by then."""
    owner = value.owner
    if isinstance(owner, Block):
        return owner.is_ancestor(loop)  # not of a loop inside
    if plan.position.get(owner, plan.end) < plan.position[loop]:
        return True
    pure = isinstance(owner, (ArithOp, *_ADDRESSING))
    tiles = any(isinstance(result.type, T.TileType) for result in owner.results)
    return pure and not tiles and all(can_be_made_before(loop, v, plan) for v in owner.operands)


# -- code ----------------------------------------------------------------------------------------


def destinations(f: FunctionEmitter, sums: Mapping[DotOp, RunningSum]) -> None:
    """Before a loop, or a product that is in none: find out where the last products write."""
    for op, running in sums.items():
        store = running.store
        if store is None:
            continue
        for value in (store.operands[0], *store.indices):
            make_early(f, value)
        place = position_of_tile(f, store, T.dims_of(store.value.type))
        accumulation = accumulation_kernel_of(f.unit.target, op)
        axes = _axes_of_matrix(op, store.value)
        assert axes is not None
        rows, columns = axes
        rounds = place.element.name != accumulation.accumulator.name
        if place.contiguous != columns or (rounds and not _can_round(f, op)):
            continue
        b = f.builder
        with b.goto_entry_block():
            there = llvm.stack(b, I1)
        b.store(ir.Constant(I1, 0), there)
        size = ir.Constant(I64, place.element.buffer_bytes)
        step = b.mul(as_value(place.strides[rows]), size)
        possible = ir.Constant(I1, 1) if place.inside is None else place.inside
        if (cut := _can_be_cut(f, op, store, place, (rows, columns))) is not None:
            possible = b.or_(possible, cut)
        f.destinations[op] = f.destinations[store] = Destination(
            place.element, place.pointer, step, possible, there
        )


def _shape_of(f: FunctionEmitter, op: DotOp) -> Shape:
    (m, k), n = T.dims_of(op.a.type), T.dims_of(op.b.type)[1]
    return shape_of(f.unit.target, accumulation_kernel_of(f.unit.target, op), m, n, k)


def _can_round(f: FunctionEmitter, op: DotOp) -> bool:
    """Whether the kernel of a product has its sums in registers when it writes them."""
    shape = _shape_of(f, op)
    return not shape.along_k and shape.m > FEWEST_ROWS


def _can_be_cut(
    f: FunctionEmitter, op: DotOp, store: M.TiledStoreOp, place: TilePosition, axes: tuple[int, int]
) -> Value | None:
    """Whether a product can write a tile that ends behind its array: the kernel leaves out what lies there, if that is all
    that is observed. None where it never can."""
    observed = f.observed.get(op)
    if observed is None or [each for each, _ in observed.stores] != [store]:
        return None
    if place.loose is not None or _shape_of(f, op).along_k:
        return None
    b = f.builder
    least = [1 if axis in axes else extent for axis, extent in enumerate(place.dims)]
    return llvm.all_of(
        b,
        [
            b.icmp_unsigned(">=", limit, ir.Constant(I64, number))
            for limit, number in zip(place.limits, least, strict=True)
            if limit is not None
        ],
    )


def make_early(f: FunctionEmitter, value: SSAValue) -> None:
    """Make the code of what a value is computed from; when its turn comes it is made again."""
    owner = value.owner
    if value in f.values or isinstance(owner, Block):
        return
    for operand in owner.operands:
        make_early(f, operand)
    now = f.now
    f.operation(owner)
    f.now = now


@dataclass(frozen=True, slots=True)
class Target:
    """Where a product writes its sums, and the bytes from row to row; ``rounded``: where it writes them instead, rounded, if
    ``there`` holds."""

    pointer: Value
    step: Value
    rounded: Destination | None = None
    there: Value | None = None


def target_of(
    f: FunctionEmitter, dot: DotOp, buffer: Strided, row_bytes: int, whole: Value | None = None
) -> Target:
    """Where the product of this round writes: the buffer, or in the last round the destination; with ``whole`` only
    if that holds."""
    own = Target(buffer.pointer, ir.Constant(I64, row_bytes))
    place, b = f.destinations.get(dot), f.builder
    if place is None:
        return own
    loop, there = f.sums[dot].loop, place.possible
    if loop is not None:
        if buffer is not f.targets.get(dot.result):
            return own
        now = f.rounds[loop]
        last = b.icmp_unsigned("<=", b.sub(now.upper, now.counter), now.step)
        there = b.and_(last, place.possible)
    if whole is not None:
        there = b.and_(there, whole)
    b.store(there, place.there)
    if place.element.name != buffer.element.name:
        return replace(own, rounded=place, there=there)
    return Target(
        b.select(there, place.pointer, own.pointer), b.select(there, place.step, own.step)
    )


def is_fresh(f: FunctionEmitter, dot: DotOp) -> Value:
    """Whether the sum begins in this round."""
    running = f.sums.get(dot)
    if running is None or not running.fresh:
        return ir.Constant(I1, 0)
    assert running.loop is not None
    now = f.rounds[running.loop]
    return f.builder.icmp_signed("==", now.counter, now.lower)


def of_loop(f: FunctionEmitter, loop: Operation) -> dict[DotOp, RunningSum]:
    """The sums that a loop carries."""
    return {op: running for op, running in f.sums.items() if running.loop is loop}


def fresh_positions(sums: Mapping[DotOp, RunningSum]) -> set[int]:
    """Which of the carried values need no beginning."""
    return {running.position for running in sums.values() if running.fresh}
