"""Privatization: thread-private copies of small arrays that a kernel only adds to.

An atomic update whose result is unused and that orders nothing can be deferred if nothing in the launch reads the array: a
call of the kernel, which runs many tile blocks, accumulates all updates in private memory and merges them at its end, with one
atomic update for each element that has changed. Integer results do not depend on the order, nor on what is accumulated first. For
floats, the sum of each call is rounded by itself, which is no new freedom: several threads add in any order anyway.

Which updates qualify is decided at compile time; whether the array is small, the updates are many, and each goes to
the array, at run time. All others go to memory at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import prod

from llvmlite import ir
from xdsl.ir import Operation

from tilewright.analysis.tileaa import Facts, Root
from tilewright.analysis.tileaa.patterns import Patterns
from tilewright.cpu.codegen.analysis import effects
from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import ELEMENTS, I8, I32, I64, PTR, element_of
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import Coords, Lane, lanes_in
from tilewright.cpu.codegen.loops.lane_strides import lane_strides_of
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import Elementwise, Tile, to_buffer
from tilewright.cpu.codegen.memory.access import loaded
from tilewright.cpu.codegen.memory.addresses import where_on
from tilewright.cpu.codegen.memory.compare_exchange import update_one
from tilewright.cpu.codegen.memory.listed_updates import (
    Listed,
    goes_by_list,
    listed,
    near_or_far,
)
from tilewright.cpu.codegen.memory.locks import LINE, PageLocks
from tilewright.cpu.codegen.memory.pointers import first_lane
from tilewright.cpu.codegen.memory.privatized_arrays import (
    COPIES,
    IDENTITY,
    Copies,
    Target,
    in_copy,
)
from tilewright.cpu.codegen.memory.single_thread import combined, update_alone, update_in_place
from tilewright.dialects.arith import Extension
from tilewright.dialects.declare import enum_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops import memory as M
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.pointers import AddPtrOp
from tilewright.passes.tileas.remarks import Remarks

#: Bytes of the largest array that is copied: a part of what caches of one core hold; in a closed launch, which
#: hands copies on faster, about all of that.
_LARGEST, _LARGEST_CLOSED = 1 << 19, 1 << 22
#: Room for the copies of an array.
COPIES_BYTES = _LARGEST_CLOSED + 2 * LINE
#: Bytes of several copies that are used in turn.
_SMALL = 1 << 15
#: How many updates for each element of the array make a copy worth while; in a closed launch, for how many elements
#: one of them is enough.
_WORTH, _ENOUGH_FOR = 4, 2
_SHORTEST_TILE = 16
LOCKED = "rows of an array without private copies are updated under locks of pages"
"""The remark where they may be."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """How many blocks a call runs, and the launch; on how many threads, and whether it is closed (``abi``)."""

    called: Value
    total: Value
    threads: Value
    closed: Value | None


Spans = Callable[[int], tuple[Value, Value]]
"""The address that a parameter holds, and that behind the last byte of its array."""


def find_targets(func: FuncOp, *, distinct_arguments: bool) -> dict[Operation, Target]:
    """The updates that may go to private copies.

    Nothing else in the kernel may touch the array, nor anything whose memory is not known;
    ``distinct_arguments``: no other parameter points to it. Kernels that order or wait for anything
    have none: with them, others can tell when an update was made.
    """
    ops = list(func.walk())
    found = {op for op in ops if _may_be_put_off(op)}
    if not found or not distinct_arguments or any(effects.orders(op) for op in ops):
        return {}
    facts = Facts(func)
    provenances = facts.provenances
    sharers: dict[Root, list[Operation]] = {}
    # In the order of the program, so that a kernel always has the same code.
    alone: dict[Root, None] = {}
    for op in ops:
        if isinstance(op, Access):
            roots = provenances.of(op.operands[0]).roots
            if any(root.kind not in ("argument", "alloca") for root in roots):
                return {}
            if op in found and len(roots) == 1:
                alone |= dict.fromkeys(roots)
            for root in roots:
                sharers.setdefault(root, []).append(op)
    targets: dict[Operation, Target] = {}
    for root in alone:
        users = sharers[root]
        by_rows = any(_goes_by_rows(op, facts.patterns) for op in users)
        kinds = {_target(root, op, by_rows=by_rows) if op in found else None for op in users}
        single = all(len(provenances.of(op.operands[0]).roots) == 1 for op in users)
        target = kinds.pop() if len(kinds) == 1 else None
        if root.kind == "argument" and single and target is not None:
            targets |= dict.fromkeys(users, target)
    return targets


def _target(root: Root, op: Operation, *, by_rows: bool) -> Target:
    assert isinstance(op, M.AtomicRMWOp)
    mode, element = enum_property(op, "rmw_mode"), element_of(op.value.type)
    return Target(int(root.name), mode, element, by_rows)


def _goes_by_rows(op: Operation, patterns: Patterns) -> bool:
    """Whether an update goes to elements side by side, if no number of their addresses wraps around."""
    value = op.operands[0]
    while isinstance(value.type, T.TileType):
        if patterns.of(value).axes[-1].run >= _SHORTEST_TILE:
            return True
        owner = value.owner
        if not isinstance(owner, AddPtrOp | Extension):
            return False
        value = owner.operands[-1]
    return False


def _may_be_put_off(op: Operation) -> bool:
    """Whether an operation is an update through a tile of pointers of which nobody learns."""
    if not isinstance(op, M.AtomicRMWOp) or isinstance(op.base.type, T.MemrefType):
        return False
    return (
        enum_property(op, "rmw_mode") in IDENTITY
        and op.semantic == "relaxed"
        and enum_property(op, "mem_scope") != "sys"
        and not list(op.result.uses)
        and prod(T.dims_of(op.value.type)) >= _SHORTEST_TILE
    )


def tell_why_not(
    remarks: Remarks, ops: Iterable[Operation], targets: Mapping[Operation, Target]
) -> None:
    """Remarks about the updates that go to memory element by element."""
    for op in ops:
        if op in targets or not effects.updates(op):
            continue
        remarks.add("atomic", f"an atomic is not privatized: {_why_not(op)}", op)


def _why_not(op: Operation) -> str:
    if not isinstance(op, M.AtomicRMWOp) or isinstance(op.base.type, T.MemrefType):
        return "it accesses a view or is a compare-and-swap"
    if op.result.uses:
        return "its results are used"
    if enum_property(op, "rmw_mode") not in IDENTITY:
        return "the result of an exchange depends on the order"
    if enum_property(op, "mem_scope") == "sys":
        return "its scope is sys, so other devices may observe it"
    if op.semantic != "relaxed":
        return "it orders other accesses"
    if prod(T.dims_of(op.value.type)) < _SHORTEST_TILE:
        return f"its tile has fewer than {_SHORTEST_TILE} elements"
    return "another access of the kernel may touch its array or observe the update"


# -- the call of a kernel ------------------------------------------------------------------------


def open_copies(
    f: FunctionEmitter, targets: Mapping[Operation, Target], spans: Spans, blocks: Blocks
) -> dict[Operation, Copies]:
    """Make room for the copies of a call, and clear it."""
    work: dict[Target, int] = {}
    for op, target in targets.items():
        work[target] = work.get(target, 0) + prod(T.dims_of(op.operands[1].type))
    opened = {
        target: _open(f, target, spans(target.parameter), blocks, work[target]) for target in work
    }
    return {op: opened[target] for op, target in targets.items()}


def _open(
    f: FunctionEmitter, target: Target, span: tuple[Value, Value], blocks: Blocks, work: int
) -> Copies:
    b, unit = f.builder, target.element.buffer_bytes
    base, behind = span
    count = b.udiv(b.sub(behind, base), ir.Constant(I64, unit))
    size = b.mul(count, ir.Constant(I64, unit))
    needed = b.mul(count, ir.Constant(I64, _WORTH))
    use, locks = _is_worth(b, blocks.called, work, needed, size, _LARGEST), None
    if f.alone is not None and blocks.closed is not None:
        # All calls of a closed launch do the same, so that nobody updates what others hand on. One thread that is
        # alone updates the array itself.
        share, needed = (
            b.udiv(blocks.total, blocks.threads),
            b.udiv(count, ir.Constant(I64, _ENOUGH_FOR)),
        )
        largest = _LARGEST if target.by_rows else _LARGEST_CLOSED
        closed = _is_worth(b, share, work, needed, size, largest)
        use = b.and_(b.select(blocks.closed, closed, use), b.not_(f.alone))
        if target.by_rows:
            locks = PageLocks(b.and_(blocks.closed, b.not_(use)))
    size = b.select(use, size, ir.Constant(I64, 0))
    # A line between copies keeps the same element of two out of the same set of a cache.
    padded = b.and_(b.add(size, ir.Constant(I64, 2 * LINE - 1)), ir.Constant(I64, -LINE))
    several = b.icmp_unsigned("<=", padded, ir.Constant(I64, _SMALL // COPIES))
    stride = b.select(several, padded, ir.Constant(I64, 0))
    memory = f.pointer_to(f.scratch(COPIES_BYTES, f.plan.end))
    held = b.select(several, b.mul(padded, ir.Constant(I64, COPIES)), padded)
    _clear(b, memory, b.select(use, held, ir.Constant(I64, 0)), target)
    return Copies(target, base, memory, size, stride, locks)


def _is_worth(
    b: Builder, blocks: Value, work: int, needed: Value, size: Value, largest: int
) -> Value:
    """Whether so many blocks make the updates of an array that are needed for a copy of it."""
    updates = b.mul(blocks, ir.Constant(I64, work))
    small = b.icmp_unsigned("<=", size, ir.Constant(I64, largest))
    return b.and_(small, b.icmp_unsigned(">=", updates, needed))


def _clear(b: Builder, memory: Value, size: Value, target: Target) -> None:
    """Put what changes nothing into so many bytes, whole lines."""
    lanes = LINE // target.element.buffer_bytes
    nothing = llvm.splat_constant(target.identity, lanes)

    def line(inner: Builder, at: Value) -> None:
        inner.store(nothing, inner.gep(memory, [at], source_etype=I8), align=LINE)

    llvm.count(b, ir.Constant(I64, 0), size, ir.Constant(I64, LINE), line)


# -- an update -----------------------------------------------------------------------------------


def update(
    f: FunctionEmitter, op: Operation, value: Tile, pointers: Tile, mask: Tile | None
) -> None:
    """Put updates into the copies; what goes elsewhere to memory. Without copies, rows go there under locks."""
    held = f.copies[op]
    locks = held.locks
    if locks is None:
        _update(f, held, value, pointers, mask)
        return
    f.flush()
    f.unit.remarks.add("atomic", LOCKED, op)
    with f.builder.if_else(locks.on) as (locked, free):
        with locked:
            update_alone(f, held.target.mode, value, pointers, mask, locks)
        with free:
            _update(f, held, value, pointers, mask)


def _update(
    f: FunctionEmitter, held: Copies, value: Tile, pointers: Tile, mask: Tile | None
) -> None:
    element = held.target.element
    if goes_by_list(value, pointers, exact=True):
        update_listed(f, held, listed(f, value, in_copies(f, held, pointers), mask))
        return

    def body(nest: LoopNest, coords: Coords) -> None:
        lanes = lanes_in(coords)
        data = nest.vector(value, coords)
        on = None if mask is None else nest.vector(mask, coords)
        lane_steps = lane_strides_of(pointers, coords) if lanes else None
        if (
            lane_steps is None
            or not lane_steps.exact
            or not lane_steps.is_run(element.memory_bytes)
        ):
            _update_lanes(nest, held, nest.vector(pointers, coords), data, on, lanes)
            return
        first = nest.eval(pointers, first_lane(nest, coords)).value
        b, span = nest.inner, lanes * element.memory_bytes
        offset = b.sub(first, held.base)
        behind = b.add(offset, ir.Constant(I64, span))
        inside = b.and_(
            b.icmp_unsigned("<", offset, held.size), b.icmp_unsigned("<=", behind, held.size)
        )
        with b.if_else(inside, likely=True) as (near, far):
            with near:
                _update_run(b, held, offset, data, on)
            with far:
                steps = [lane * element.memory_bytes for lane in range(lanes)]
                where = b.add(llvm.splat(b, first, lanes), llvm.int_lanes(steps))
                _update_each(b, held, where, data, on, lanes)

    tiles = [tile for tile in (value, pointers, mask) if tile is not None]
    f.nest(value.dims, tiles, body, unroll=1)


def _update_run(b: Builder, held: Copies, offset: Value, data: Value, on: Value | None) -> None:
    """Lanes that lie side by side, in the first copy."""
    target, lanes = held.target, llvm.lanes_of(data.type)
    if on is not None:
        data = b.select(on, data, llvm.splat_constant(target.identity, lanes))
    where = in_copy(b, held, 0, offset)
    ty, align = llvm.vector(target.element.buffer, lanes), target.element.buffer_bytes
    old = loaded(b, b.load(where, typ=ty, align=align), target.element)
    total = combined(b, target.mode, old, data, target.element)
    b.store(to_buffer(b, total, target.element), where, align=align)


@dataclass(frozen=True, slots=True, eq=False)
class _Ways(Tile):
    """How far each lane's copy lies behind the array; the same for all vectors."""

    held: Copies
    first: Value
    """The way to the first copy."""

    def at(self, nest: LoopNest, coords: Coords) -> Lane:
        lanes, stride = lanes_in(coords), self.held.stride

        def make(b: Builder) -> Value:
            turns = llvm.int_lanes([lane % COPIES for lane in range(lanes)])
            further = b.mul(llvm.splat(b, stride, lanes), turns)
            return b.add(llvm.splat(b, self.first, lanes), further)

        return nest.emit([], make) if lanes else Lane(self.first)


def in_copies(f: FunctionEmitter, held: Copies, pointers: Tile) -> Tile:
    """The addresses where the copies, in turn, have what lies in the array; others stay."""
    first = f.builder.sub(f.builder.ptrtoint(held.memory, I64), held.base)
    ways = _Ways(ELEMENTS["i64"], pointers.dims, held, first)

    def moved(b: Builder, where: Value, way: Value) -> Value:
        lanes = llvm.lanes_of(where.type)
        offset = b.sub(where, llvm.splat(b, held.base, lanes))
        inside = b.icmp_unsigned("<", offset, llvm.splat(b, held.size, lanes))
        return b.select(inside, b.add(where, way), where)

    return Elementwise(ELEMENTS["i64"], pointers.dims, (pointers, ways), moved)


def update_listed(f: FunctionEmitter, held: Copies, found: Listed) -> None:
    """Make the updates of a list with addresses ``in_copies``."""
    target, memory = held.target, f.builder.ptrtoint(held.memory, I64)
    behind = ir.Constant(I64, COPIES_BYTES)

    def is_copy(b: Builder, place: Value) -> Value:
        lanes = llvm.lanes_of(place.type)
        offset = b.sub(place, llvm.splat(b, memory, lanes))
        return b.icmp_unsigned("<", offset, llvm.splat(b, behind, lanes))

    def near(b: Builder, place: Value, data: Value) -> None:
        update_in_place(b, target.mode, place, data, target.element)

    def far(b: Builder, place: Value, data: Value) -> None:
        where = b.inttoptr(place, PTR)
        update_one(b, target.mode, where, data, target.element, "monotonic")

    near_or_far(f.builder, found, is_copy, near, far)


def _update_lanes(
    nest: LoopNest, held: Copies, where: Value, data: Value, on: Value | None, lanes: int
) -> None:
    b = nest.inner
    offsets = b.sub(where, llvm.splat(b, held.base, lanes))
    if on is not None:
        offsets = b.select(on, offsets, llvm.number(offsets.type, 0))
    inside = b.icmp_unsigned("<", offsets, llvm.splat(b, held.size, lanes))
    if lanes:
        inside = llvm.intrinsic(b, "vector.reduce.and", [inside], inside.type.element)
    with b.if_else(inside, likely=True) as (near, far):
        with near:
            _update_copies(b, held, offsets, data, on, lanes)
        with far:
            _update_each(b, held, where, data, on, lanes)


def _update_copies(
    b: Builder, held: Copies, offsets: Value, data: Value, on: Value | None, lanes: int
) -> None:
    target = held.target
    if on is not None:
        nothing = llvm.splat_constant(target.identity, lanes)
        data = b.select(on, data, nothing)
    near = b.trunc(offsets, llvm.shaped(I32, offsets.type))
    for lane in range(max(lanes, 1)):
        offset = b.zext(_lane(b, near, lane), I64)
        copy = b.ptrtoint(in_copy(b, held, lane % COPIES, offset), I64)
        update_in_place(b, target.mode, copy, _lane(b, data, lane), target.element)


def _update_each(
    b: Builder, held: Copies, where: Value, data: Value, on: Value | None, lanes: int
) -> None:
    """Lanes some of which go elsewhere."""
    target = held.target
    for lane in range(max(lanes, 1)):
        address, value = _lane(b, where, lane), _lane(b, data, lane)
        with where_on(b, None if on is None else Lane(_lane(b, on, lane))):
            offset = b.sub(address, held.base)
            inside = b.icmp_unsigned("<", offset, held.size)
            with b.if_else(inside) as (near, far):
                with near:
                    copy = b.ptrtoint(in_copy(b, held, 0, offset), I64)
                    update_in_place(b, target.mode, copy, value, target.element)
                with far:
                    place = b.inttoptr(address, PTR)
                    update_one(b, target.mode, place, value, target.element, "monotonic")


def _lane(b: Builder, value: Value, lane: int) -> Value:
    if not llvm.lanes_of(value.type):
        return value
    return b.extract_element(value, ir.Constant(I32, lane))
