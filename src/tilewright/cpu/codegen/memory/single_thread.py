"""Atomic updates of a single-threaded launch: plain loads and stores.

The runtime tells a call (``abi.RT_ALONE``) that no other thread runs tile blocks of the launch, nor any other launch that
updates memory. An update whose result is unused then needs no atomic operation: elements follow one another in row-major
order as before, so results are the same bit for bit. Where addresses are contiguous, whole vectors are
updated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llvmlite import ir
from xdsl.ir import Operation

from tilewright.cpu.abi import RT_ALONE
from tilewright.cpu.codegen.analysis import effects
from tilewright.cpu.codegen.elementwise import EMITTERS
from tilewright.cpu.codegen.emitter.function import FunctionEmitter, vector_axis
from tilewright.cpu.codegen.emitter.vector_lengths import unroll_of
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I32, I64, PTR, Element
from tilewright.cpu.codegen.ir.masked import masked_load, masked_store
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import Coords, Lane, lanes_in
from tilewright.cpu.codegen.loops.lane_strides import along_last, lane_strides_of
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import Tile, guards, to_buffer
from tilewright.cpu.codegen.loops.value_ranges import Whole, whole_access
from tilewright.cpu.codegen.memory.access import loaded
from tilewright.cpu.codegen.memory.addresses import where_on
from tilewright.cpu.codegen.memory.locks import Held, PageLocks
from tilewright.cpu.codegen.memory.pointers import first_lane
from tilewright.cpu.codegen.memory.spaced import lane_steps_of
from tilewright.cpu.target import CpuTarget
from tilewright.dialects.declare import enum_property
from tilewright.dialects.nv_tileaa.ops import memory as M

_SPAN = 64
"""Bytes that lanes write to which are off."""

Step = Callable[[Builder, Value, Value], Value]


def can_be_alone(op: Operation) -> bool:
    """Whether an operation is an update through pointers that need not be atomic where one thread
    runs: nobody uses the old values, and nobody outside of the launch may look meanwhile."""
    return (
        isinstance(op, M.AtomicRMWOp)
        and effects.is_pointer_access(op)
        and not op.result.uses
        and enum_property(op, "mem_scope") != "sys"
    )


def is_launch(b: Builder, runtime: Value, kind: int) -> Value:
    """Whether the runtime says that a call is part of a launch that is ``ALONE``, or ``CLOSED``."""
    where = b.gep(runtime, [ir.Constant(I32, RT_ALONE)], source_etype=PTR)
    return b.icmp_unsigned("==", b.load(where, typ=I64), ir.Constant(I64, kind))


def update_alone(
    f: FunctionEmitter,
    mode: str,
    value: Tile,
    pointers: Tile,
    mask: Tile | None,
    locks: PageLocks | None = None,
) -> None:
    """Update elements in order, without atomic operations; under ``locks`` where other threads update some, too."""
    element = value.element

    def step(b: Builder, old: Value, data: Value) -> Value:
        return combined(b, mode, old, data, element)

    whole = whole_access(f.builder, pointers, mask) if value.dims else None
    held = None if locks is None else locks.held_by(f.builder)
    way = _InPlace(element, step, f.pointer_to(f.scratch(_SPAN)), held)

    def body(nest: LoopNest, coords: Coords) -> None:
        _update_vector(nest, coords, way, (value, pointers, mask), whole)

    addressing = [tile for tile in (pointers, mask) if tile is not None]
    strides = None if whole is None else along_last(pointers, whole.settled)
    if whole is not None and strides is not None and strides.is_run(element.memory_bytes):
        # Where all of it follows the formula, lanes need no addresses of their own.
        own = [] if whole.guard is None else [whole.guard]
        f.nest(value.dims, [value], body, guard=[*guards(*addressing), *own], unroll=1)
    else:
        tiles = [value, *addressing]
        f.nest(value.dims, tiles, body, lanes=_lanes(f, tiles, pointers, element), unroll=1)
    if held is not None:
        held.drop(f.builder)


@dataclass(frozen=True, slots=True)
class _InPlace:
    """How lanes are updated: ``spare`` memory is for those that are off; ``held`` is the lock of a page, None without locks."""

    element: Element
    step: Step
    spare: Value
    held: Held | None

    def run(self, b: Builder, first: Value, data: Value, on: Lane | None) -> None:
        """Lanes side by side, from an address on."""
        if self.held is None:
            _update_run(b, first, data, on, self.element, self.step)
            return

        def part(inner: Builder, among: Value | None) -> None:
            lanes = on
            if among is not None:
                lanes = Lane(among if on is None else inner.and_(on.value, among))
            _update_run(inner, first, data, lanes, self.element, self.step)

        self.held.over(b, first, self.element.memory_bytes, llvm.lanes_of(data.type), part)

    def apart(self, b: Builder, where: Value, data: Value, on: Lane | None) -> None:
        """Lanes wherever they lie."""
        if self.held is None:
            _update_lanes(b, where, data, on, self.element, self.step, self.spare)
        else:
            _update_under_locks(b, where, data, on, self.element, self.step, self.held)


def _update_vector(
    nest: LoopNest,
    coords: Coords,
    way: _InPlace,
    tiles: tuple[Tile, Tile, Tile | None],
    whole: Whole | None,
) -> None:
    """The elements at these positions of a tile of data, pointers and a mask."""
    (value, pointers, mask), size = tiles, way.element.memory_bytes
    lanes, data = lanes_in(coords), nest.vector(value, coords)
    if whole is not None and not nest.masked and _is_run(nest, pointers, coords, whole, size):
        first = nest.eval(pointers, first_lane(nest, coords))
        on = None
        if mask is not None and whole.on is None:
            on = nest.widened(nest.eval(mask, coords), lanes)
        way.run(nest.inner, first.value, data, on)
        return
    on = None if mask is None else nest.widened(nest.eval(mask, coords), lanes)
    steps = lane_strides_of(pointers, coords) if lanes else None
    is_run = steps is not None and not steps.limited and steps.is_run(size)
    if is_run and steps is not None and steps.exact:
        first = nest.eval(pointers, first_lane(nest, coords))
        way.run(nest.inner, first.value, data, on)
        return
    where = nest.vector(pointers, coords)
    b = nest.inner
    if not is_run:
        way.apart(b, where, data, on)
        return
    ends = [b.extract_element(where, ir.Constant(I32, lane)) for lane in (0, lanes - 1)]
    span = ir.Constant(I64, (lanes - 1) * size)
    with b.if_else(b.icmp_signed("==", b.sub(ends[1], ends[0]), span)) as (one, others):
        with one:
            way.run(b, ends[0], data, on)
        with others:
            way.apart(b, where, data, on)


def _is_run(nest: LoopNest, pointers: Tile, coords: Coords, whole: Whole, size: int) -> bool:
    """Whether lanes follow one another where what is known of all addresses holds."""
    if not lanes_in(coords):
        return False
    found = lane_steps_of(nest, pointers, coords, whole, None)
    return found is not None and found.exact and found.is_run(size)


def _most(target: CpuTarget, element: Element) -> int | None:
    """How many updates stand side by side at most; sums of floats, which take longer, hide what others suffer from."""
    return target.most_updates if isinstance(element.register, ir.IntType) else None


def _lanes(
    f: FunctionEmitter, tiles: Sequence[Tile], pointers: Tile, element: Element
) -> int | None:
    """How many lanes are updated at once; None for as many as usual, also where much is computed for each."""
    dims, most = pointers.dims, _most(f.unit.target, element)
    if most is None or not dims or dims[vector_axis(dims)] < most or unroll_of(tiles) == 1:
        return None
    found = along_last(pointers, frozenset())
    return None if found is not None and found.is_run(element.memory_bytes) else most


def combined(b: Builder, mode: str, old: Value, data: Value, element: Element) -> Value:
    """What an update of a kind leaves of an old value."""
    if mode == "xchg":
        return data
    if mode == "addf":
        return EMITTERS["addf"](b, old, data, element=element)
    if mode in ("add", "xor"):
        return getattr(b, mode)(old, data)
    if mode in ("and", "or"):
        return getattr(b, f"{mode}_")(old, data)
    return llvm.intrinsic(b, mode if mode.startswith("u") else f"s{mode}", [old, data])


def _update_run(
    b: Builder, address: Value, data: Value, on: Lane | None, element: Element, step: Step
) -> None:
    """Lanes that lie side by side: no two are the same element."""
    pointer, size = b.inttoptr(address, PTR), element.buffer_bytes
    ty = llvm.vector(element.buffer, llvm.lanes_of(data.type))
    if on is None or llvm.is_all_on(on.value):
        old = loaded(b, b.load(pointer, typ=ty, align=size), element)
        b.store(to_buffer(b, step(b, old, data), element), pointer, align=size)
        return
    old = loaded(b, masked_load(b, pointer, ty, on.value), element)
    held = to_buffer(b, step(b, old, data), element)
    masked_store(b, held, pointer, on.value)


def _update_lanes(
    b: Builder,
    where: Value,
    data: Value,
    on: Lane | None,
    element: Element,
    step: Step,
    spare: Value,
) -> None:
    lanes = llvm.lanes_of(where.type)
    if not lanes:
        with where_on(b, on):
            _update_one(b, where, data, element, step)
        return
    if on is not None:
        nowhere = llvm.splat(b, b.ptrtoint(spare, I64), lanes)
        where = b.select(on.value, where, nowhere)
    most = _most(llvm.target_of(b), element)
    if most is not None and lanes > most and lanes % most == 0:
        _update_in_turn(b, where, data, element, step, most)
        return
    for lane in range(lanes):
        place = ir.Constant(I32, lane)
        one = b.extract_element(data, place)
        _update_one(b, b.extract_element(where, place), one, element, step)


def _update_under_locks(
    b: Builder,
    where: Value,
    data: Value,
    on: Lane | None,
    element: Element,
    step: Step,
    held: Held,
) -> None:
    """Lanes one after the other, wherever they lie."""
    lanes = max(llvm.lanes_of(where.type), 1)
    for lane in range(lanes):
        if lanes == 1:
            address, one, among = where, data, on
        else:
            place = ir.Constant(I32, lane)
            address, one = b.extract_element(where, place), b.extract_element(data, place)
            among = None if on is None else Lane(b.extract_element(on.value, place))
        with where_on(b, among):
            held.take(b, address)
            _update_one(b, address, one, element, step)


def _update_in_turn(
    b: Builder, where: Value, data: Value, element: Element, step: Step, most: int
) -> None:
    """Some lanes after the other, in a loop that takes their addresses and data from the stack, but for a number that is the same for
    all."""
    same = data.lane if isinstance(data, llvm.Splat) else llvm.splatted(data)
    varying = [where] if same is not None else [where, data]
    with b.goto_entry_block():
        stacks = [llvm.stack(b, value.type, _SPAN) for value in varying]
    for value, memory in zip(varying, stacks, strict=True):
        b.store(value, memory, align=_SPAN)

    def some(inner: Builder, first: Value) -> None:
        for turn in range(most):
            lane = inner.add(first, ir.Constant(I64, turn))
            found: list[Value] = []
            for value, memory in zip(varying, stacks, strict=True):
                ty = llvm.scalar_of(value.type)
                place = inner.gep(memory, [lane], source_etype=ty)
                found.append(inner.load(place, typ=ty, align=llvm.scalar_bytes(ty)))
            _update_one(inner, found[0], found[1] if same is None else same, element, step)

    lanes = ir.Constant(I64, llvm.lanes_of(where.type))
    llvm.count(b, ir.Constant(I64, 0), lanes, ir.Constant(I64, most), some)


def _update_one(b: Builder, address: Value, data: Value, element: Element, step: Step) -> None:
    pointer, size = b.inttoptr(address, PTR), element.buffer_bytes
    old = loaded(b, b.load(pointer, typ=element.buffer, align=size), element)
    b.store(to_buffer(b, step(b, old, data), element), pointer, align=size)


def update_in_place(b: Builder, mode: str, address: Value, data: Value, element: Element) -> None:
    """Update the element at an address, a number, which no other thread updates."""
    _update_one(b, address, data, element, lambda b, old, new: combined(b, mode, old, new, element))
