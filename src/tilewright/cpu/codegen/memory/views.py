"""Memrefs, views that cut tiles out of them, and the addresses of a tile's elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import add

from llvmlite import ir

from tilewright.analysis.tileaa.geometry import HeldMemref, HeldView
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I32, I64, Element, bits_constant
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import Coords, Lane, fixed, lanes_in
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import Loose
from tilewright.numerics.floats import padding_bits

Extent = Value | int


class Memref(HeldMemref[Element, Value, Extent]):
    """Memory behind a pointer: extents and strides in elements, known ones as numbers."""

    __slots__ = ()


class View(HeldView[Memref, Extent, str | Value]):
    """Tiles cut out of a memref. ``padding`` names what lies outside, or is it, in register form."""

    __slots__ = ()


def as_value(extent: Extent) -> Value:
    """An extent or stride as a number of 64 bits."""
    return ir.Constant(I64, extent) if isinstance(extent, int) else extent


def scaled(b: Builder, value: Value, by: Extent) -> Value:
    """``value * by``."""
    return value if isinstance(by, int) and by == 1 else b.mul(value, as_value(by))


def padding_value(padding: str | Value, element: Element) -> Value:
    """The number that a padding stands for; zero where nothing is said."""
    if not isinstance(padding, str):
        return padding
    return bits_constant(element, padding_bits(padding or "zero", element.format))


@dataclass(frozen=True, slots=True)
class TilePosition:
    """The elements of one tile in memory.

    ``limits`` are how many of its elements lie in the memref along each axis, None where all do.
    ``pointer`` is the address of the first element, ``strides`` are in elements.
    """

    element: Element
    dims: tuple[int, ...]
    pointer: Value
    strides: tuple[Extent, ...]
    limits: tuple[Value | None, ...]
    inside: Value | None
    """Whether the whole tile lies in the memref, and its vectors lie densely."""
    contiguous: int | None
    """The axis along which neighbours lie side by side, if ``inside`` holds."""
    base: Value
    first: Value
    """The memref's pointer, and the number of the first element in it, for elements that share
    bytes and so have no address."""
    loose: Loose | None = None
    """What is to be asked where the stride along ``contiguous`` only shows when the code runs."""
    ahead: Extent | None = None
    """How many elements behind it the next tile block has its tile, where that is known."""
    jumps: bool = False
    """Whether that is in the next iteration of a loop, and not right behind this tile: no processor sees what comes then."""

    @property
    def ends(self) -> tuple[Value | None, ...] | None:
        """The limits, if elements inside them can be accessed without any other check."""
        return None if self.loose is not None or self.element.is_packed else self.limits


def rows_as_one(
    b: Builder, place: TilePosition, lanes: int
) -> tuple[TilePosition, Value | None] | None:
    """A tile with rows shorter than a vector of so many lanes as one with longer rows, and under which condition it is that:
    rows follow one another in memory without a gap, and none ends within the tile (None: always).

    None where the rows are long enough, or do not follow one another.
    """
    dims, last = place.dims, len(place.dims) - 1
    if last < 1 or place.contiguous != last or place.loose is not None or place.element.is_packed:
        return None
    (height, width), apart = dims[-2:], place.strides[-2]
    if height == 1 or width >= lanes or height * width < lanes or place.strides[-1] != 1:
        return None
    conditions: list[Value] = []
    whole = ir.Constant(I64, width)
    if not isinstance(apart, int):
        conditions.append(b.icmp_signed("==", apart, whole))
    elif apart != width:
        return None
    *limits, rows, end = place.limits
    if end is not None:
        conditions.append(b.icmp_signed(">=", end, whole))
    joined = replace(
        place,
        dims=(*dims[:-2], height * width),
        strides=(*place.strides[:-2], 1),
        limits=(*limits, None if rows is None else b.mul(rows, whole)),
        contiguous=last - 1,
    )
    return joined, llvm.all_of(b, conditions)


def locate(
    b: Builder, view: View, indices: Sequence[Value], in_bounds: Sequence[bool]
) -> TilePosition:
    """The tile of a view with these numbers, one for each axis, in tiles.

    ``in_bounds``: the axes along which the program promises that all of it lies in the memref.
    """
    memref = view.memref
    limits: list[Value | None] = []
    strides = tuple(memref.strides[axis] for axis in view.axes)
    offset: Value | None = None
    conditions: list[Value] = []
    for position, (axis, step, extent) in enumerate(
        zip(view.axes, view.steps, view.dims, strict=True)
    ):
        index = indices[position]
        origin = index
        if not isinstance(step, int) or step != 1:
            origin = b.mul(index, as_value(step), flags=["nuw"])
        part = scaled(b, origin, strides[position])
        offset = part if offset is None else b.add(offset, part)
        if position < len(in_bounds) and in_bounds[position]:
            limits.append(None)
            continue
        left = b.sub(_counted(b, memref.sizes[axis]), origin)
        whole = ir.Constant(I64, extent)
        fits = b.icmp_signed(">=", left, whole)
        some = b.icmp_signed(">", left, ir.Constant(I64, 0))
        limits.append(b.select(fits, whole, b.select(some, left, ir.Constant(I64, 0))))
        conditions.append(fits)
    assert offset is not None
    pointer = b.gep(memref.pointer, [offset], source_etype=memref.element.buffer)
    contiguous = dense_axis(view.dims, strides)
    inside, loose = llvm.all_of(b, conditions), None
    if contiguous is None and (guess := _unknown_axis(view.dims, strides)) is not None:
        contiguous, stride, fits = guess, as_value(strides[guess]), inside
        inside = b.icmp_signed("==", stride, ir.Constant(I64, 1))
        if fits is not None:
            inside = b.and_(fits, inside)
        loose = Loose(inside, fits, stride)
    return TilePosition(
        memref.element,
        view.dims,
        pointer,
        strides,
        tuple(limits),
        inside,
        contiguous,
        memref.pointer,
        offset,
        loose,
    )


def _counted(b: Builder, size: Extent) -> Value:
    """An extent as a signed number: no element has a larger coordinate."""
    if isinstance(size, int):
        return as_value(size)
    return llvm.intrinsic(b, "umin", [size, ir.Constant(I64, (1 << 63) - 1)])


def dense_axis(dims: Sequence[int], strides: Sequence[Extent]) -> int | None:
    """The last axis of stride 1 along which the tile has more than one element; None without one."""
    found = [axis for axis, stride in enumerate(strides) if stride == 1 and dims[axis] > 1]
    return found[-1] if found else None


def _unknown_axis(dims: Sequence[int], strides: Sequence[Extent]) -> int | None:
    """The innermost axis whose stride may turn out to be 1."""
    found = [a for a, s in enumerate(strides) if isinstance(s, ir.Value) and dims[a] > 1]
    return found[-1] if found else None


def stride_of(nest: LoopNest, place: TilePosition, axis: int) -> Extent:
    """The stride along an axis; along the contiguous one the number that was asked for, if one was for this tile."""
    if axis != place.contiguous:
        return place.strides[axis]
    number = None if place.loose is None else nest.strides.get(id(place.loose))
    if number is not None:
        return number
    return place.strides[axis] if nest.masked else 1


def element_offset(
    nest: LoopNest, place: TilePosition, coords: Coords
) -> tuple[Lane | None, int | None]:
    """How many elements behind the first one lies the base of a position, None for 0; and the axis of lanes, None
    without.
    """
    total: Lane | None = None
    along: int | None = None
    for axis, index in enumerate(coords):
        if index.offsets is not None:
            along = axis
        stride = stride_of(nest, place, axis)
        if isinstance(index.base, int) and not index.base:
            continue
        position = nest.position(index)
        if stride == 1:
            part = position
        else:
            by = as_value(stride)
            part = nest.emit([position], lambda b, p, by=by: b.mul(p, by))
        total = part if total is None else nest.emit([total, part], lambda b, x, y: b.add(x, y))
    return total, along


def address_of(nest: LoopNest, place: TilePosition, offset: Lane | None) -> Lane:
    """The address of an element."""
    unit, pointer = place.element.buffer, place.pointer
    if offset is None:
        return Lane(pointer)
    return nest.emit([offset], lambda b, o: b.gep(pointer, [o], source_etype=unit))


def lane_strides(nest: LoopNest, place: TilePosition, coords: Coords) -> tuple[bool, Lane | None]:
    """Whether the lanes lie side by side in order, and each lane's distance in elements; None without lanes."""
    total: Lane | None = None
    dense = True
    for axis, index in enumerate(coords):
        offsets = index.offsets
        if offsets is None:
            continue
        stride = stride_of(nest, place, axis)
        if stride != 1 or offsets != tuple(range(len(offsets))) or total is not None:
            dense = False
        steps = llvm.int_lanes(offsets)
        if stride == 1:
            part = Lane(steps)
        else:
            by = as_value(stride)
            part = nest.emit(
                [],
                lambda b, by=by, steps=steps: b.mul(
                    steps, llvm.splat(b, by, llvm.lanes_of(steps.type))
                ),
            )
        total = part if total is None else nest.emit([total, part], lambda b, x, y: b.add(x, y))
    return dense, total


def known_distances(nest: LoopNest, place: TilePosition, coords: Coords) -> tuple[int, ...] | None:
    """How many elements behind the address of a position each lane lies; None where a stride is not known."""
    total: tuple[int, ...] | None = None
    for axis, index in enumerate(coords):
        if index.offsets is None:
            continue
        stride = stride_of(nest, place, axis)
        if not isinstance(stride, int):
            return None
        part = [offset * stride for offset in index.offsets]
        total = tuple(part if total is None else map(add, total, part))
    return total


def row_inside(nest: LoopNest, place: TilePosition, coords: Coords) -> Lane | None:
    """Whether the positions that all lanes share lie in the memref; None where that is sure."""
    row: Lane | None = None
    for index, limit in zip(coords, place.limits, strict=True):
        if limit is None or index.offsets is not None:
            continue
        found = nest.emit([nest.position(index), Lane(limit)], partial(_below, None))
        row = found if row is None else nest.emit([row, found], lambda b, x, y: b.and_(x, y))
    return row


def inside_mask(nest: LoopNest, place: TilePosition, coords: Coords) -> Lane | None:
    """Which elements lie in the memref: an i1 vector, an i1 that holds for all, or None."""
    row = row_inside(nest, place, coords)
    total: Lane | None = row
    for index, limit in zip(coords, place.limits, strict=True):
        if limit is None or index.offsets is None:
            continue
        # Outside of the memref's rows there are no columns either.
        bound = Lane(limit) if row is None else nest.emit([row, Lane(limit)], _limit_if)
        found = nest.emit([nest.position(index), bound], partial(_below, index.offsets))
        if total is None or total is row:
            total = found
        else:
            total = nest.emit([total, found], lambda b, x, y: b.and_(x, y))
    return total


def has_short_rows(place: TilePosition, lanes: int) -> bool:
    """Whether rows are vectors of so many lanes that can end in the tile."""
    last = len(place.dims) - 1
    return (
        last > 0
        and place.limits[last] is not None
        and place.strides[last] == 1
        and place.dims[last] == lanes
        and not place.element.is_packed
    )


def reaches_only_rows(nest: LoopNest, place: TilePosition, coords: Coords) -> Lane | None:
    """Whether a vector, with what it has behind the end of its row, lies in that row and later ones of the tile, which follow one
    another in memory without a gap: where these are written afterwards, it can be stored without a mask.

    None for what is not a row of a place with short rows (:func:`has_short_rows`).
    """
    last, lanes = len(place.dims) - 1, lanes_in(coords)
    if not has_short_rows(place, lanes) or any(index.offsets for index in coords[:last]):
        return None
    height, (limit, width) = ir.Constant(I64, place.dims[last - 1]), place.limits[last - 1 :]
    assert width is not None
    end, apart = Lane(width), as_value(place.strides[last - 1])

    def most(b: Builder, width: Value) -> Value:
        rows = height if limit is None else llvm.intrinsic(b, "smin", [limit, height])
        return b.sub(b.mul(rows, width), ir.Constant(I64, lanes))

    def reaches(b: Builder, row: Value, width: Value, most: Value) -> Value:
        dense = b.icmp_signed("==", width, apart)
        return b.and_(dense, b.icmp_signed("<=", b.mul(row, width), most))

    row = nest.position(coords[last - 1])
    found, inside = (
        nest.emit([row, end, nest.emit([end], most)], reaches),
        row_inside(nest, place, coords),
    )
    if inside is None:
        return found
    return nest.emit([found, inside], lambda b, x, y: b.and_(x, y))


def safe_address(nest: LoopNest, place: TilePosition, coords: Coords, where: Lane) -> Lane:
    """An address in the memref for rows outside of it, whose elements are all masked off.

    Masked accesses of unmapped memory do no harm, but take hundreds of cycles each.
    """
    row = row_inside(nest, place, coords) if nest.masked else None
    if row is None:
        return where
    base = Lane(place.base)
    return nest.emit([row, where, base], lambda b, inside, p, q: b.select(inside, p, q))


def _limit_if(b: Builder, inside: Value, limit: Value) -> Value:
    return b.select(inside, limit, ir.Constant(I64, 0))


def _below(offsets: tuple[int, ...] | None, b: Builder, base: Value, limit: Value) -> Value:
    """Which positions are below a limit; both are small enough for 32 bits."""
    left = b.trunc(b.sub(limit, base), I32)
    if offsets is None:
        return b.icmp_signed(">", left, ir.Constant(I32, 0))
    steps = llvm.int_lanes(offsets, I32)
    return b.icmp_signed("<", steps, llvm.splat(b, left, len(offsets)))


def whole(dims: Sequence[int]) -> Coords:
    """The position of the first element."""
    return tuple(fixed(0) for _ in dims)
