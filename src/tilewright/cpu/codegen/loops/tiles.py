"""Tiles as functions of a position: elements are computed where they are used.

A tile that is not held in a buffer costs nothing until a loop nest requests its elements. Chains of element-wise
operations, broadcasts, reshapes and loads are thereby fused into one pass over the data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from math import prod

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I1, I8, I64, PTR, Element
from tilewright.cpu.codegen.ir.masked import mask_where, store_whole
from tilewright.cpu.codegen.ir.types import Builder, Type, Value
from tilewright.cpu.codegen.loops.indices import (
    Coords,
    Index,
    Lane,
    fixed,
    lanes_in,
)
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.windows import of_pairs, put_together, windows_of_any_length
from tilewright.numerics.strides import row_major


@dataclass(frozen=True, slots=True)
class NextRow:
    """A dense row in memory that the next tile block reads where this one reads another: that one's
    address, how many elements further it lies, and their type."""

    pointer: Value
    ahead: Value
    unit: Type
    readers: list[int]
    """The work of the nests that have read this block's row, or buffers that were filled from it."""
    turn: int = 2
    """Which of them fetches the next one: the second, as the first waits for memory anyway, or the only one."""
    jumps: bool = False
    """Whether no processor sees by itself what comes next."""

    def is_due(self, nest: LoopNest) -> bool:
        """Whether to fetch it now."""
        if nest.fetches is None or (self.turn < nest.fetches and not self.jumps):
            return False
        if nest.work is not None and nest.work not in self.readers:
            self.readers.append(nest.work)
        return len(self.readers) >= self.turn and nest.work == self.readers[self.turn - 1]

    def fetch(self, nest: LoopNest, index: Index) -> None:
        """Ask for the line of the element at the first of these positions in the row."""
        first = index.offsets[0] if index.offsets else 0
        where = address(nest, self.pointer, self.unit, index, first)
        if where.level != nest.depth:
            return

        def ask(b: Builder, pointer: Value) -> Value:
            llvm.prefetch(b, b.gep(pointer, [self.ahead], source_etype=self.unit), near=False)
            return pointer

        nest.emit([where], ask)


@dataclass(frozen=True, slots=True, eq=False)
class Loose:
    """A tile in memory whose stride along the vectors only shows when the code runs: ``inside`` holds
    where it is 1 and no element needs a check, ``fits`` where none does, whatever the stride is."""

    inside: Value
    fits: Value | None
    stride: Value
    gathers: bool = False
    """Whether there is code without checks for any other stride, too."""


@dataclass(frozen=True, slots=True)
class PointerAccess:
    """An access through a tile of pointers, which needs no checks where ``guard`` holds (None: nowhere, or everywhere);
    ``mask``: what is on there then, None where each element asks it, or there is none. ``asks``: whether elements ask
    of their mask or their address even there, as no formula tells of all; ``whole_mask``: the mask."""

    pointers: Tile
    mask: Tile | None
    guard: Value | None
    asks: bool = False
    whole_mask: Tile | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Tile(ABC):
    """A tile value: its element type and extents. ``sources`` are the tiles it is computed from."""

    element: Element
    dims: tuple[int, ...]

    @property
    def sources(self) -> tuple[Tile, ...]:
        """The tiles that its elements are computed from."""
        return ()

    @property
    def computed(self) -> tuple[Tile, ...]:
        """The sources whose elements are numbers in vectors, which decides on the length of vectors."""
        return self.sources

    @property
    def most_lanes(self) -> int | None:
        """How long vectors should be at most, for elements to follow one another in memory; None if it does not matter."""
        return None

    @property
    def guard(self) -> Value | None:
        """Holds if the tile can be read without a check of each element; None if it always can."""
        return None

    @property
    def fits(self) -> Value | None:
        """Holds if no number of an address's formula wraps, so that lanes follow it even where elements need checks; None
        if none ever does."""
        return None

    @property
    def limits(self) -> Sequence[Value | None] | None:
        """How many elements lie inside an array along each axis (None: all do), if that is all that the guard asks."""
        return None

    @property
    def through_pointers(self) -> PointerAccess | None:
        """The access by which the elements are read, if the guard is that of its formulas."""
        return None

    @property
    def loose(self) -> Loose | None:
        """What to ask instead of the guard, if elements may lie at equal distances."""
        return None

    @property
    def lies_along(self) -> int | None:
        """The axis along which the elements lie side by side in memory; None where none is known."""
        return None

    @property
    def gathers(self) -> bool:
        """Whether elements lie wherever numbers say that are read from memory."""
        return False

    @property
    def gets_elements(self) -> bool:
        """Whether each element is read from memory where the sources have its address at the same position."""
        return False

    @property
    def goes_by_lanes(self) -> bool:
        """Whether elements are computed lane by lane, so that their order costs nothing."""
        return False

    def positions(self, nest: LoopNest, coords: Coords) -> tuple[Index, int] | None:
        """The elements as positions below a power of two, and that; None where they are something else."""
        return None

    def rows_as_one(self, b: Builder, lanes: int) -> tuple[Tile, Value | None] | None:
        """The tile with its last two axes as one, if rows shorter than so many lanes follow one another in memory, and under which
        condition they do (None: always)."""
        return None

    @property
    def next_row(self) -> NextRow | None:
        """Where the next tile block has what this is for it, if that is worth fetching ahead."""
        return None

    @abstractmethod
    def at(self, nest: LoopNest, coords: Coords) -> Lane:
        """The elements at these positions; a scalar where one holds for all."""


def walk(*tiles: Tile) -> Iterator[Tile]:
    """The tiles and all that they are computed from, each once."""
    seen: set[int] = set()
    pending = list(tiles)
    while pending:
        tile = pending.pop()
        if id(tile) not in seen:
            seen.add(id(tile))
            yield tile
            pending += tile.sources


def guards(*tiles: Tile) -> list[Value]:
    """Conditions under which none of the tiles needs checks."""
    found: dict[int, Value] = {}
    for tile in walk(*tiles):
        if tile.guard is not None:
            found[id(tile.guard)] = tile.guard
    return list(found.values())


@dataclass(frozen=True, slots=True, eq=False)
class Uniform(Tile):
    """The same scalar everywhere."""

    value: Value

    @property
    def goes_by_lanes(self) -> bool:
        return True

    def at(self, nest: LoopNest, coords: Coords) -> Lane:
        return Lane(self.value)


@dataclass(frozen=True, slots=True, eq=False)
class UniformWithin(Uniform):
    """The same scalar everywhere, which is known within so many loops of a nest."""

    level: int

    def at(self, nest: LoopNest, coords: Coords) -> Lane:
        return Lane(self.value, self.level)


@dataclass(frozen=True, slots=True, eq=False)
class Range(Tile):
    """The integers from ``start`` up, along one axis."""

    start: Value

    @property
    def goes_by_lanes(self) -> bool:
        return True

    def positions(self, nest: LoopNest, coords: Coords) -> tuple[Index, int] | None:
        known = isinstance(self.start, ir.Constant) and self.start.constant == 0
        return (coords[0], self.dims[0]) if known else None

    def at(self, nest: LoopNest, coords: Coords) -> Lane:
        register, start = self.element.register, self.start
        numbers = nest.numbers(coords[0])

        def make(b: Builder, value: Value) -> Value:
            ty = llvm.shaped(register, value.type)
            found = value if register == I64 else b.trunc(value, ty)
            if isinstance(start, ir.Constant) and start.constant == 0:
                return found
            return b.add(found, llvm.splat(b, start, llvm.lanes_of(ty)))

        return nest.emit([numbers], make)


Emit = Callable[..., Value]
"""``emit(builder, *values)``: one result of an operation, on scalars or on vectors."""


#: Operations that give the same whichever operand comes first, bit by bit.
_EITHER_WAY = frozenset({"maxf", "minf", "maxi", "mini", "addi", "muli", "andi", "ori", "xori"})


@dataclass(frozen=True, slots=True, eq=False)
class Elementwise(Tile):
    """What an element-wise operation gives for the elements of its operands.

    ``name`` is that of the operation in ``numerics.semantics``, where it matters to somebody;
    ``unit`` are the bytes that an offset counts.
    """

    operands: tuple[Tile, ...]
    emit: Emit
    name: str = ""
    unit: int = 1
    _along: int | None = field(init=False)

    def __post_init__(self) -> None:
        # Once for all: operands are shared, so that asking again and again may never end.
        found = {tile.lies_along for tile in self.operands} - {None}
        object.__setattr__(self, "_along", found.pop() if len(found) == 1 else None)

    @property
    def goes_by_lanes(self) -> bool:
        return True

    @property
    def sources(self) -> tuple[Tile, ...]:
        return self.operands

    @property
    def lies_along(self) -> int | None:
        return self._along

    def at(self, nest: LoopNest, coords: Coords) -> Lane:
        if self.name == "andi" and (bits := self._bits_of_place(nest, coords)) is not None:
            return bits
        lanes = [nest.eval(operand, coords) for operand in self.operands]
        count = max(llvm.lanes_of(lane.value.type) for lane in lanes)
        if self.name == "andi" and self.element.register == I1 and count:
            lanes.sort(key=lambda lane: llvm.lanes_of(lane.value.type))
            if not llvm.lanes_of(lanes[0].value.type):
                return nest.emit(lanes, lambda b, holds, mask: mask_where(b, mask, holds))
        emit = self.emit if self.name not in _EITHER_WAY else self._emit_pairs
        return nest.emit([nest.widened(lane, count) for lane in lanes], emit)

    def _bits_of_place(self, nest: LoopNest, coords: Coords) -> Lane | None:
        """Known bits of the places of elements: a constant where they lie in what is known of the places, one
        number where they lie in what all lanes share; else None."""
        first, second = self.operands
        value = second.value if isinstance(second, Uniform) else None
        ty = self.element.register
        if not isinstance(value, ir.Constant) or not isinstance(ty, ir.IntType):
            return None
        places = first.positions(nest, coords)
        if places is None or not isinstance(value.constant, int):
            return None
        index, extent = places
        offsets, mask = index.offsets or (0,), value.constant & ((1 << ty.width) - 1) & (extent - 1)
        if isinstance(index.base, int) or (index.splits_bits and mask < index.align):
            base = index.base if isinstance(index.base, int) else 0
            found = [ir.Constant(ty, (base + offset) & mask) for offset in offsets]
            vector = ir.VectorType(ty, len(found))
            return Lane(ir.Constant(vector, found) if index.offsets else found[0])
        if not index.splits_bits or any(offset & mask for offset in offsets):
            return None
        bits = ir.Constant(I64, mask)

        def shared(b: Builder, base: Value) -> Value:
            found = b.and_(base, bits)
            return found if ty == I64 else b.trunc(found, ty)

        return nest.emit([index.base], shared)

    def _emit_pairs(self, b: Builder, x: Value, y: Value) -> Value:
        return self.emit(b, *of_pairs(b, x, y))


Mapping = Callable[[LoopNest, Coords], Coords | None]
"""Positions in the source for positions in a result; None where they follow no pattern."""


@dataclass(frozen=True, slots=True, eq=False)
class Mapped(Tile):
    """The elements of another tile at other positions; ``along`` is the axis along which they lie
    side by side in memory."""

    source: Tile
    mapping: Mapping
    along: int | None = None

    @property
    def goes_by_lanes(self) -> bool:
        return True

    @property
    def sources(self) -> tuple[Tile, ...]:
        return (self.source,)

    @property
    def lies_along(self) -> int | None:
        return self.along

    def positions(self, nest: LoopNest, coords: Coords) -> tuple[Index, int] | None:
        inner = self.mapping(nest, coords)
        return None if inner is None else self.source.positions(nest, inner)

    def at(self, nest: LoopNest, coords: Coords) -> Lane:
        inner = self.mapping(nest, coords)
        if inner is None:
            return nest.lane_by_lane(self, coords)
        return nest.eval(self.source, inner)


@dataclass(frozen=True, slots=True, eq=False)
class Remembered(Mapped):
    """What a formula gives, which is known, and read from where it was kept: a mask that loops ask again and again."""

    held: Tile = field(kw_only=True)

    @staticmethod
    def of(formula: Tile, held: Tile) -> Remembered:
        """A formula whose elements are held, too."""
        along = formula.lies_along
        return Remembered(
            formula.element, formula.dims, formula, lambda _, at: at, along, held=held
        )

    @property
    def sources(self) -> tuple[Tile, ...]:
        return (self.source, self.held)

    def at(self, nest: LoopNest, coords: Coords) -> Lane:
        return nest.eval(self.held, coords)


@dataclass(frozen=True, slots=True, eq=False)
class Joined(Tile):
    """Two tiles of one shape, the second behind the first along an axis."""

    lhs: Tile
    rhs: Tile
    axis: int

    @property
    def sources(self) -> tuple[Tile, ...]:
        return (self.lhs, self.rhs)

    def at(self, nest: LoopNest, coords: Coords) -> Lane:
        extent = self.lhs.dims[self.axis]
        index = coords[self.axis]
        if not index.splits_bits:
            return nest.lane_by_lane(self, coords)
        inner = list(coords)
        inner[self.axis] = nest.low_bits(index, extent)
        side = nest.high_bits(index, extent)
        if side.offsets is None and isinstance(side.base, int):
            return nest.eval(self.rhs if side.base else self.lhs, tuple(inner))
        count = lanes_in(coords)
        pair = [nest.widened(nest.eval(tile, tuple(inner)), count) for tile in (self.lhs, self.rhs)]

        def select(b: Builder, which: Value, lhs: Value, rhs: Value) -> Value:
            return b.select(b.icmp_signed("!=", which, llvm.number(which.type, 0)), rhs, lhs)

        return nest.emit([nest.widened(nest.numbers(side), count), *pair], select)


@dataclass(frozen=True, slots=True, eq=False)
class Strided(Tile):
    """A tile that lies in memory of ours: in a buffer of the arena, or a constant.

    ``strides`` count elements. Elements have their buffer form.
    """

    pointer: Value
    strides: tuple[int, ...]
    slot: int | None = None
    next_rows: tuple[NextRow, ...] = field(default=(), kw_only=True)
    """What the next tile block fills this buffer from."""
    same_from: Value | None = field(default=None, kw_only=True)
    """From which place of a row on all of its elements are the same, as padding is; a row lies along the last axis."""

    @property
    def is_on_stack(self) -> bool:
        """Whether it lies on the stack, from where it may go to registers, not in the arena."""
        return self.slot is not None and self.slot < 0

    @property
    def lies_along(self) -> int | None:
        dense = [a for a, s in enumerate(self.strides) if s == 1 and self.dims[a] > 1]
        return dense[-1] if len(dense) == 1 else None

    def offset(self, nest: LoopNest, coords: Coords) -> Index:
        """How many elements behind the pointer a position lies."""
        return nest.sum([nest.times(i, s) for i, s in zip(coords, self.strides, strict=True)])

    def at(self, nest: LoopNest, coords: Coords) -> Lane:
        index, lanes = self.offset(nest, coords), lanes_in(coords)
        if type(self) is Strided:
            index = nest.linear(coords, self.strides)
        for row in self.next_rows:
            if index.offsets is not None and is_run(index.offsets) and row.is_due(nest):
                row.fetch(nest, index)
        extent = 1 + sum((d - 1) * s for d, s in zip(self.dims, self.strides, strict=True))
        run = index.offsets is None or is_run(index.offsets)
        held = None if run else windows_of_any_length(index, extent)
        if held is None or len(set(index.offsets or ())) == 1:
            return load_at(nest, self.pointer, self.element, index, lanes)
        offsets = index.offsets or ()
        parts = [self._window(nest, window) for window in held]
        return nest.emit(parts, lambda b, *found: put_together(b, found, held, offsets))

    def _window(self, nest: LoopNest, window: Index) -> Lane:
        """What lies in a window, loaded once in a nest."""

        def make() -> Lane:
            return load_at(nest, self.pointer, self.element, window, lanes_in((window,)))

        return nest.once(("window", id(self.pointer), window.key), make)


@dataclass(frozen=True, slots=True, eq=False)
class Written(Tile):
    """A tile that is written to a buffer where it is computed. Each element is asked for once."""

    source: Tile
    target: Strided

    @property
    def sources(self) -> tuple[Tile, ...]:
        return (self.source,)

    def at(self, nest: LoopNest, coords: Coords) -> Lane:
        value = nest.vector(self.source, coords)
        target = self.target
        store_at(nest, target.pointer, target.element, target.offset(nest, coords), value)
        return Lane(value, nest.depth)


def address(nest: LoopNest, pointer: Value, unit: Type, index: Index, by: int = 0) -> Lane:
    """The address of the element at the base of an index, and ``by`` elements further."""
    base = index.base
    if isinstance(base, int):
        offset = base + by
        if not offset:
            return Lane(pointer)
        constant = ir.Constant(I64, offset)
        return nest.emit([], lambda b: b.gep(pointer, [constant], source_etype=unit))

    def make(b: Builder, value: Value) -> Value:
        found = b.gep(pointer, [value], source_etype=unit)
        return b.gep(found, [ir.Constant(I64, by)], source_etype=unit) if by else found

    return nest.emit([base], make)


def is_run(offsets: Sequence[int]) -> bool:
    """Whether lanes follow one another."""
    return all(offset == offsets[0] + lane for lane, offset in enumerate(offsets))


def load_at(nest: LoopNest, pointer: Value, element: Element, index: Index, lanes: int) -> Lane:
    """Elements in their buffer form at these offsets, in elements, from a pointer, as register values."""
    offsets = index.offsets
    if offsets is None or all(offset == offsets[0] for offset in offsets):
        where = address(nest, pointer, element.buffer, index, offsets[0] if offsets else 0)
        return nest.emit([where], lambda b, p: _from_buffer(b, _load(b, p, element, 0), element))
    if is_run(offsets):
        where = address(nest, pointer, element.buffer, index, offsets[0])
        return nest.emit(
            [where], lambda b, p: _from_buffer(b, _load(b, p, element, lanes), element)
        )
    where = address(nest, pointer, element.buffer, index)
    spread = llvm.int_lanes(offsets)

    def make(b: Builder, base: Value) -> Value:
        return _from_buffer(b, gather(b, base, spread, element.buffer), element)

    return nest.emit([where], make)


def gather(b: Builder, base: Value, offsets: Value, unit: Type) -> Value:
    """The elements of LLVM type ``unit`` at a vector of offsets, in elements, from a pointer."""
    lanes = llvm.lanes_of(offsets.type)
    pointers = b.gep(base, [offsets], source_etype=unit)
    pointers.type = ir.VectorType(PTR, lanes)
    ty = ir.VectorType(unit, lanes)
    mask = llvm.splat_constant(ir.Constant(I1, 1), lanes)
    align = max(1, llvm.scalar_bytes(unit))
    args = [pointers, ir.Constant(ir.IntType(32), align), mask, llvm.undefined(ty)]
    return llvm.intrinsic(b, "masked.gather", args, ty, [ty, pointers.type])


def _load(b: Builder, pointer: Value, element: Element, lanes: int) -> Value:
    return b.load(pointer, typ=llvm.vector(element.buffer, lanes), align=element.buffer_bytes)


def _from_buffer(b: Builder, value: Value, element: Element) -> Value:
    if element.register == I1:
        return b.icmp_unsigned("!=", value, llvm.number(value.type, 0))
    return value


def to_buffer(b: Builder, value: Value, element: Element) -> Value:
    """A register value in the form that buffers hold, and memory of whole bytes."""
    if element.register == I1:
        return b.zext(value, llvm.shaped(I8, value.type))
    return value


def store_at(nest: LoopNest, pointer: Value, element: Element, index: Index, value: Value) -> None:
    """Put register values at these offsets, in elements, from a pointer, in buffer form."""
    where = address(nest, pointer, element.buffer, index)
    b = nest.inner
    offsets = index.offsets
    data = to_buffer(b, value, element)
    if offsets is None or (is_run(offsets) and not offsets[0]):
        store_whole(b, data, where.value, element.buffer_bytes)
        return
    for lane, offset in enumerate(offsets):
        place = b.gep(where.value, [ir.Constant(I64, offset)], source_etype=element.buffer)
        item = b.extract_element(data, ir.Constant(ir.IntType(32), lane))
        b.store(item, place, align=element.buffer_bytes)


def buffer_tile(element: Element, dims: Sequence[int], pointer: Value, slot: int) -> Strided:
    """A dense row-major buffer."""
    return Strided(element, tuple(dims), pointer, row_major(dims), slot)


def is_dense(target: Strided) -> bool:
    """Whether elements lie in row-major order, one after the other."""
    return type(target) is Strided and target.strides == row_major(target.dims)


# -- buffers that tiles are read from and written to ----------------------------------------------


def shares_memory(target: Strided, tile: Tile) -> bool:
    """Whether a tile is read from the buffer, in whatever order."""
    return isinstance(tile, Strided) and tile.slot is not None and tile.slot == target.slot


def is_same_buffer(target: Strided, tile: Tile) -> bool:
    """Whether a tile is what the buffer holds, element by element."""
    return (
        shares_memory(target, tile)
        and isinstance(tile, Strided)
        and (tile.dims, tile.strides, tile.element) == (target.dims, target.strides, target.element)
    )


Targets = dict[int, Sequence[Strided]]
"""Buffers, by the slots in which they lie."""


def by_slot(targets: Iterable[Strided]) -> Targets:
    """The targets that lie in the thread's arena, by the buffer that they are in."""
    found: Targets = {}
    for target in targets:
        if target.slot is not None:
            found[target.slot] = (*found.get(target.slot, ()), target)
    return found


def _sharing(targets: Targets, tile: Tile) -> Sequence[Strided]:
    """Those of the buffers from which a tile is read."""
    return () if not isinstance(tile, Strided) or tile.slot is None else targets.get(tile.slot, ())


def reads_any(tile: Tile, targets: Targets) -> bool:
    """Whether a tile is computed from what lies in one of the buffers."""
    return any(_sharing(targets, source) for source in walk(tile))


def only_in_step(tile: Tile, targets: Targets) -> bool:
    """Whether each element depends on elements of the targets at the same position only."""
    seen: set[int] = set()
    pending = [tile]
    while pending:
        tile = pending.pop()
        if id(tile) in seen:
            continue
        seen.add(id(tile))
        if isinstance(tile, Elementwise) or tile.gets_elements:
            pending += tile.sources
        elif isinstance(tile, Strided):
            if not all(is_same_buffer(target, tile) for target in _sharing(targets, tile)):
                return False
        elif reads_any(tile, targets):
            return False
    return True


# -- positions of reshaped tiles ---------------------------------------------------------------


def reshaped(source: Sequence[int], result: Sequence[int]) -> Mapping:
    """Positions in a tile of shape ``source`` for those in its row-major view ``result``; the same for the same shapes."""
    return _reshaped(tuple(source), tuple(result))


@cache
def _reshaped(source: tuple[int, ...], result: tuple[int, ...]) -> Mapping:
    from_unit = [axis for axis, extent in enumerate(result) if extent != 1]
    to_unit = [axis for axis, extent in enumerate(source) if extent != 1]
    if [result[a] for a in from_unit] == [source[a] for a in to_unit]:
        place = dict(zip(to_unit, from_unit, strict=True))

        def same(nest: LoopNest, coords: Coords) -> Coords:
            return tuple(
                coords[place[axis]] if axis in place else fixed(0) for axis in range(len(source))
            )

        return same
    strides = row_major(result)

    def general(nest: LoopNest, coords: Coords) -> Coords | None:
        linear = nest.linear(coords, strides)
        if not linear.splits_bits:
            return None
        found: list[Index] = []
        left = prod(source)
        for extent in reversed(source):
            # Above the bits of the first axis there are none.
            found.append(nest.low_bits(linear, extent) if left > extent else linear)
            linear, left = nest.high_bits(linear, extent), left // extent
        return tuple(reversed(found))

    return general


def permuted(order: Sequence[int]) -> Mapping:
    """Positions in a source whose axis ``order[i]`` is axis i of the result."""
    place = {axis: position for position, axis in enumerate(order)}
    return lambda nest, coords: tuple(coords[place[axis]] for axis in range(len(place)))


def repeated(source: Sequence[int]) -> Mapping:
    """Positions in a source that is repeated along its axes of extent 1; the same for the same shapes."""
    return _repeated(tuple(source))


@cache
def _repeated(source: tuple[int, ...]) -> Mapping:

    def mapping(nest: LoopNest, coords: Coords) -> Coords:
        return tuple(
            fixed(0) if extent == 1 else index for extent, index in zip(source, coords, strict=True)
        )

    return mapping


@dataclass(frozen=True, slots=True)
class Shifted:
    """Positions in a source that starts at these offsets; ``leading`` axes are not in the result."""

    offsets: tuple[Value | int, ...]
    aligns: tuple[int, ...]
    leading: int = 0

    def __call__(self, nest: LoopNest, coords: Coords) -> Coords:
        found: list[Index] = []
        for axis, (offset, align) in enumerate(zip(self.offsets, self.aligns, strict=True)):
            index = fixed(0) if axis < self.leading else coords[axis - self.leading]
            if isinstance(offset, int):
                found.append(nest.shift(index, offset))
            else:
                found.append(nest.plus(index, Lane(offset), align))
        return (*found, *coords[len(self.offsets) - self.leading :])


#: Tiles that numbers in memory have no part in.
FORMULAS = (Elementwise, Mapped, Range, Uniform)


def is_formula(tile: Tile, most: int | None = None) -> bool:
    """Whether numbers in memory have no part in a tile; ``most``: nor does it consist of more tiles."""
    tiles = list(islice(walk(tile), None if most is None else most + 1))
    return all(isinstance(each, FORMULAS) for each in tiles) and (
        most is None or len(tiles) <= most
    )
