"""Loads and stores of global memory: one predicated access per group of adjacent elements that a thread holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from xdsl.dialects import arith as A
from xdsl.dialects import builtin as b
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.memory import Load, Scattered, Store
from tilewright.dialects.syntax.engine import values_of
from tilewright.dialects.upstream.arith import vectors as V
from tilewright.dialects.upstream.llvm import ops as L
from tilewright.layouts import Layout
from tilewright.lowering.nvgpu import memory
from tilewright.lowering.nvgpu.address_ranges import known, padding_name, view_of_access
from tilewright.lowering.nvgpu.elementwise import bits_constant, pointee_bytes
from tilewright.lowering.nvgpu.state import View
from tilewright.lowering.nvgpu.types import GLOBAL_POINTER, I32, I64, element_type, scalar_of
from tilewright.lowering.nvgpu.vectors import part
from tilewright.lowering.scheduled.lanes import lanes_of
from tilewright.lowering.scheduled.state import ScheduledKernel
from tilewright.lowering.scheduled.table import lowers
from tilewright.numerics.element_types import FORMATS
from tilewright.numerics.floats import padding_bits
from tilewright.passes.tileas.access_layouts import access_shape, element_bytes
from tilewright.passes.tileas.element_accesses import goes_by_element


@dataclass(frozen=True, slots=True)
class Group:
    """``width`` successive registers that move at once: where, and under which conditions; ``inside``
    the memory of a view, and where the mask is on. None always holds."""

    address: SSAValue
    inside: SSAValue | None
    mask: SSAValue | None


class Moves:
    """How the registers of an access move, in order: in groups of ``known`` neighbours, or, where
    ``guard`` holds, of ``wide``. Without a guard both are the same."""

    def __init__(self, low: ScheduledKernel, op: Access):
        self.low, self.op = low, op
        self.layout, self.dims = low.layout_of(op.moved.type), T.dims_of(op.moved.type)
        shape = access_shape(low.facts, op)
        run = self.layout.run(self.dims, shape.axis)
        self.wide, self.known = min(shape.width, run), min(shape.known, run)
        masks = values_of(op, "mask")
        self.mask = low.value(masks[0]) if masks else None
        self.addresses: SSAValue | None = None
        self.places: ViewPositions | None = None
        self._find_places()
        self.guard = self._guard(shape.axis) if self.known < self.wide else None

    def _find_places(self) -> None:
        low, op = self.low, self.op
        (base,) = values_of(op, "base")
        if isinstance(op, Scattered) and isinstance(base.type, T.MemrefType):
            self.addresses = _scattered(low, op)
            return
        found = view_of_access(low, op)
        if found is None:
            given = low.value(base)
            if not isinstance(given.type, b.VectorType):
                given = low.splat(given, self.layout.registers)
            self.addresses = given
            return
        view, indices, promised = found
        bounds = [fact.verdict == "inside" for fact in low.facts.bounds.of(op)]
        promised = [
            (axis < len(promised) and promised[axis]) or (axis < len(bounds) and bounds[axis])
            for axis in range(len(indices))
        ]
        self.places = ViewPositions(low, view, indices, promised, self.layout)

    def groups(self, width: int, *, guarded: bool = False) -> list[Group]:
        """The groups of ``width`` registers, one for each access; ``guarded``: where the guard holds."""
        low = self.low
        firsts = range(0, self.layout.registers, width)
        masks: Sequence[SSAValue | None] = [self.mask] * len(firsts)
        if self.mask is not None and isinstance(self.mask.type, b.VectorType):
            masks = [None] * len(firsts)
            if not (guarded and self._asks_mask):
                masks = chosen(low, self.mask, firsts)
        if self.places is not None:
            places = self.places.afresh()
            return [
                Group(places.address(at), places.inside(at), mask)
                for at, mask in zip(firsts, masks, strict=True)
            ]
        assert self.addresses is not None
        addresses = chosen(low, self.addresses, firsts)
        return [Group(each, None, mask) for each, mask in zip(addresses, masks, strict=True)]

    @property
    def _asks_mask(self) -> bool:
        """Whether neighbours may have masks that differ: the guard asks that all are on."""
        if self.mask is None or not isinstance(self.mask.type, b.VectorType):
            return False
        return self.known < self.wide

    def _guard(self, axis: int) -> SSAValue | None:
        """Whether the thread's groups are aligned in memory, and all there or none."""
        low, size = self.low, element_bytes(self.op.moved.type)
        mask = self.mask if self._asks_mask else None
        if self.places is None:
            assert self.addresses is not None
            return guard_of_pointers(low, self.addresses, mask, self.wide, size)
        found = self.places.guard(axis, self.wide, size)
        return found if mask is None else low.both(found, _folded(low, mask, A.AndIOp))

    def each(self, work: Callable[[int, list[Group]], Sequence[SSAValue]]) -> Sequence[SSAValue]:
        """What ``work`` makes with the width and the groups: both ways where it has to be asked which."""
        if self.guard is None:
            return work(self.known, self.groups(self.known))
        return self.low.either(
            self.guard,
            lambda: work(self.wide, self.groups(self.wide, guarded=True)),
            lambda: work(self.known, self.groups(self.known)),
        )


def chosen(low: ScheduledKernel, value: SSAValue, lanes: Sequence[int]) -> list[SSAValue]:
    """Elements of a vector."""
    held = lanes_of(low, value, lanes)
    return [part(low, held, number) for number in range(len(lanes))]


def guard_of_pointers(
    low: ScheduledKernel, addresses: SSAValue, mask: SSAValue | None, wide: int, size: int
) -> SSAValue | None:
    """Whether a thread's groups of ``wide`` elements of ``size`` bytes are aligned, and no lane of a mask is off.

    None if there is nothing to ask: for single bytes without a mask.
    """
    found: SSAValue | None = None
    if wide * size > 1:
        assert isinstance(addresses.type, b.VectorType)
        firsts = range(0, addresses.type.get_shape()[0], wide)
        bits = _folded(low, lanes_of(low, addresses, firsts), A.OrIOp)
        found = low.compare("eq", low.binary(A.AndIOp, bits, wide * size - 1), 0)
    return found if mask is None else low.both(found, _folded(low, mask, A.AndIOp))


def _folded(low: ScheduledKernel, value: SSAValue, kind: type[Operation]) -> SSAValue:
    """The elements of a vector, combined to one."""
    assert isinstance(value.type, b.VectorType)
    count = value.type.get_shape()[0]
    while count > 1:
        count //= 2
        upper = low.picked(value, range(count, 2 * count))
        value = low.binary(kind, low.picked(value, range(count)), upper)
    return low.first(value)


def _scattered(low: ScheduledKernel, op: Scattered) -> SSAValue:
    """The addresses of elements of a memref at tiles of indices, beside which scalars hold for all."""
    (base,) = values_of(op, "base")
    held = low.memref(base)
    size = pointee_bytes(low, T.PtrType(held.element))
    ty = b.VectorType(I64, [low.count(op.moved.type)])
    total = low.splat(held.pointer, ty.get_shape()[0])
    for index, stride in zip(values_of(op, "indices"), held.strides, strict=True):
        step = low.splat(low.times(stride, size), ty.get_shape()[0])
        total = low.plus(total, low.times(low.operand(index, ty), step))
    return total


class ViewPositions:
    """Where a thread's elements of a tile of a view lie: what all threads share, what is the
    thread's own, and what is its register's."""

    def __init__(
        self,
        low: ScheduledKernel,
        view: View,
        indices: Sequence[SSAValue],
        promised: Sequence[bool],
        layout: Layout,
    ):
        self.low, self.view = low, view
        self.size = pointee_bytes(low, T.PtrType(view.memref.element))
        start: SSAValue = view.memref.pointer
        self.firsts: list[SSAValue] = []
        self.steps: list[list[int]] = []
        self.room: list[SSAValue | None] = []
        self._conditions: dict[tuple[int, int], SSAValue] = {}
        for axis, index in enumerate(indices):
            first, steps = low.along(layout, view.dims, axis)
            origin = low.times(low.value(index), view.steps[axis])
            sure = axis < len(promised) and promised[axis]
            self.room.append(None if sure else self._room(axis, origin))
            stride = view.memref.strides[view.axes[axis]]
            start = low.plus(start, low.times(low.times(origin, stride), self.size))
            self.firsts.append(first)
            self.steps.append(steps)
        self.first_of_tile = start
        for axis, first in enumerate(self.firsts):
            if view.dims[axis] > 1:
                stride = view.memref.strides[view.axes[axis]]
                mine = (
                    low.times(low.widen(first), stride) if known(stride) != 1 else low.widen(first)
                )
                start = low.plus(start, low.times(mine, self.size))
        self.start = start

    def afresh(self) -> ViewPositions:
        """The same, in a block where conditions that were made elsewhere do not hold."""
        self._conditions = {}
        return self

    def guard(self, axis: int, width: int, size: int) -> SSAValue:
        """Whether, along an axis, aligned groups of ``width`` elements are neighbours, aligned, and each
        in the view or outside of it as a whole: the same for all threads."""
        low, view = self.low, self.view
        bits = self.first_of_tile
        for other, extent in enumerate(view.dims):
            stride = view.memref.strides[view.axes[other]]
            if other != axis and extent > 1:
                bits = low.binary(A.OrIOp, bits, low.times(stride, size))
        found = low.compare("eq", low.binary(A.AndIOp, bits, width * size - 1), 0)
        stride = view.memref.strides[view.axes[axis]]
        if known(stride) != 1:
            found = low.binary(A.AndIOp, found, low.compare("eq", stride, 1))
        room = self.room[axis]
        if room is not None:
            whole = low.compare("eq", low.binary(A.AndIOp, room, width - 1), 0)
            found = low.binary(A.AndIOp, found, whole)
        return found

    def _room(self, axis: int, origin: SSAValue) -> SSAValue:
        """How many elements of the tile there are along an axis, of 32 bits."""
        low, extent = self.low, self.view.dims[axis]
        limit = self.view.memref.sizes[self.view.axes[axis]]
        left = low.binary(A.SubiOp, limit, origin)
        left = low.select(low.compare("slt", origin, limit), left, low.constant(0, I64))
        return low.one(V.TruncIOp, (low.binary(A.MinSIOp, left, extent),), I32)

    def address(self, register: int) -> SSAValue:
        """The address of the element in a register, in bytes."""
        low, total, fixed = self.low, self.start, 0
        for axis, steps in enumerate(self.steps):
            step = steps[register]
            stride = self.view.memref.strides[self.view.axes[axis]]
            number = known(stride)
            if number is not None:
                fixed += number * step * self.size
            elif step:
                total = low.plus(total, low.times(stride, step * self.size))
        return low.plus(total, fixed)

    def inside(self, register: int) -> SSAValue | None:
        """Whether the element in a register lies inside the tensor; None where it always does."""
        low, found = self.low, None
        for axis, room in enumerate(self.room):
            if room is None:
                continue
            step = self.steps[axis][register]
            condition = self._conditions.get((axis, step))
            if condition is None:
                condition = low.compare("ult", low.plus(self.firsts[axis], step), room)
                self._conditions[axis, step] = condition
            found = low.both(found, condition)
        return found


def _under_conditions(
    low: ScheduledKernel,
    groups: Sequence[Group],
    make: Callable[[int, Group], SSAValue | None],
    otherwise: Callable[[int, Group], SSAValue] | None,
    also: SSAValue | None = None,
) -> list[SSAValue]:
    """What ``make`` gives for each group, or ``otherwise`` where its conditions do not hold; groups
    with the same conditions go together."""
    found: list[SSAValue] = []

    def key(item: tuple[int, Group]) -> tuple[SSAValue | None, SSAValue | None]:
        return item[1].inside, item[1].mask

    for (inside, mask), members in groupby(enumerate(groups), key):
        batch = list(members)
        condition = low.both(low.both(inside, mask), also)

        def work(batch: Sequence[tuple[int, Group]] = batch) -> list[SSAValue]:
            made = [make(number, group) for number, group in batch]
            return [value for value in made if value is not None]

        def rest(batch: Sequence[tuple[int, Group]] = batch) -> list[SSAValue]:
            return [] if otherwise is None else [otherwise(n, group) for n, group in batch]

        found += low.either(condition, work, rest)
    return found


def _aligned(width: int, size: int) -> dict[str, Attribute]:
    return {"alignment": b.IntegerAttr(width * size, I64)}


@lowers("load", "tiled_load", "gather_load")
def load(low: ScheduledKernel, op: Load) -> None:
    """Loads what the result's layout gives a thread, in words as wide as its registers lie side by side in memory;
    others
    than tiles, and accesses by element, as without layouts.
    """
    result = op.moved
    if not isinstance(result.type, T.TileType) or goes_by_element(op):
        memory.load(low, op)
        return
    for token in op.results[1:]:
        low.bind(token, None)
    element = element_type(T.element_of(result.type))
    assert element is not None
    held, name = memory.in_memory(element), memory.element_name(result)
    size = memory.element_bytes(held)
    others = [low.operand(value, low.type_of(result.type)) for value in values_of(op, "other")]

    def work(width: int, groups: list[Group]) -> Sequence[SSAValue]:
        held_ty, ty = b.VectorType(held, [width]), b.VectorType(element, [width])
        cut = low.cut(others[0], width) if others else []
        padding = _padding(low, op, name, ty)

        def make(number: int, group: Group) -> SSAValue:
            pointer = low.one(L.IntToPtrOp, (group.address,), GLOBAL_POINTER)
            loaded = low.one(L.LoadOp, (pointer,), held_ty, _aligned(width, size))
            return memory.from_memory(low, loaded, name)

        def otherwise(number: int, group: Group) -> SSAValue:
            if not cut:
                return padding
            if group.inside is None or group.mask is None:
                return cut[number]
            return low.select(low.splat(group.mask, width), padding, cut[number])

        return [low.joined(_under_conditions(low, groups, make, otherwise))]

    (found,) = Moves(low, op).each(work)
    low.bind(result, found)


def _padding(low: ScheduledKernel, op: Load, name: str, ty: Attribute) -> SSAValue:
    """What stands outside of the memory of a view."""
    (base,) = values_of(op, "base")
    if isinstance(T.element_of(op.moved.type), T.PtrType | b.IndexType):
        return low.constant(0, ty)
    through_pointers = isinstance(T.element_of(base.type), T.PtrType)
    word = "zero" if through_pointers else padding_name(op, base, low)
    if name[0] == "i" and word == "zero":
        return low.constant(0, ty)
    return bits_constant(low, padding_bits(word, FORMATS[name]), name, ty)


@lowers("store", "tiled_store", "scatter_store")
def store(low: ScheduledKernel, op: Store) -> None:
    """Stores what the layout gives a thread; of copies of an element, one thread stores."""
    if not isinstance(op.moved.type, T.TileType) or goes_by_element(op):
        memory.store(low, op)
        return
    for token in op.results:
        low.bind(token, None)
    value = memory.to_memory(low, low.value(op.moved))
    size = memory.element_bytes(scalar_of(value.type))
    owner = low.owner_of(low.layout_of(op.moved.type))

    def work(width: int, groups: list[Group]) -> Sequence[SSAValue]:
        parts = low.cut(value, width)

        def make(number: int, group: Group) -> None:
            pointer = low.one(L.IntToPtrOp, (group.address,), GLOBAL_POINTER)
            low.emit(L.StoreOp, (parts[number], pointer), (), _aligned(width, size))

        _under_conditions(low, groups, make, None, owner)
        return ()

    Moves(low, op).each(work)
