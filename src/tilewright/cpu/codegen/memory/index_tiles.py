"""Elements of memrefs and views selected by index tiles."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I1, I64
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import Coords, Lane, lanes_in
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import Tile
from tilewright.cpu.codegen.memory.access import both, check_sparse, indices_of
from tilewright.cpu.codegen.memory.checks import (
    check_addresses,
    check_indices,
    check_reach,
    require,
)
from tilewright.cpu.codegen.memory.views import Memref, View, as_value, scaled
from tilewright.dialects.declare import bool_values
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops import memory as M
from tilewright.dialects.syntax.engine import values_of


@dataclass(frozen=True, slots=True)
class Gathered:
    """Elements of a view whose coordinates along some axes are given by tiles.

    ``indices`` are for each axis a tile of coordinates, or the first coordinate. Without a view the
    index tiles have the shape of the value, with one they have its extent along their axis.
    """

    memref: Memref
    indices: tuple[Tile | Value, ...]
    promised: tuple[bool, ...]
    view: View | None

    def locate(self, nest: LoopNest, coords: Coords) -> tuple[Lane, Lane, Lane | None]:
        """The address of the first lane, the distances of all in elements, and which are in the memref; None if all
        are.
        """
        base, spread, mask = self.numbers(nest, coords)
        unit, pointer = self.memref.element.buffer, self.memref.pointer
        where = nest.emit([base], lambda b, o: b.gep(pointer, [o], source_etype=unit))
        return where, spread, mask

    def numbers(self, nest: LoopNest, coords: Coords) -> tuple[Lane, Lane, Lane | None]:
        """The number of the first lane in the memref, the distances of all, and which are in the memref.

        Numbers and distances are in elements; the last is None if all are.
        """
        lanes = lanes_in(coords)
        base = Lane(ir.Constant(I64, 0))
        spread: Lane | None = None
        mask: Lane | None = None
        for axis, index in enumerate(self.indices):
            memref_axis = axis if self.view is None else self.view.axes[axis]
            stride = as_value(self.memref.strides[memref_axis])
            position = self._position(nest, coords, axis, index)
            if not (self.promised and self.promised[axis]):
                size = as_value(self.memref.sizes[memref_axis])
                inside = nest.emit(
                    [position],
                    lambda b, p, size=size: b.icmp_unsigned(
                        "<", p, llvm.splat(b, size, llvm.lanes_of(p.type))
                    ),
                )
                mask = both(nest, mask, inside, lanes)
            part = nest.emit(
                [position],
                lambda b, p, stride=stride: b.mul(p, llvm.splat(b, stride, llvm.lanes_of(p.type))),
            )
            if llvm.lanes_of(part.value.type):
                spread = part if spread is None else _add(nest, spread, part)
            else:
                base = _add(nest, base, part)
        if spread is None:
            spread = Lane(llvm.int_lanes([0] * max(lanes, 1)))
        return base, spread, mask

    def _position(self, nest: LoopNest, coords: Coords, axis: int, index: Tile | Value) -> Lane:
        if isinstance(index, Tile):
            at = coords if self.view is None else (coords[axis],)
            return nest.eval(index, at)
        start = Lane(index)
        if self.view is None:
            return start
        numbers = nest.numbers(coords[axis])
        return nest.emit(
            [numbers, start], lambda b, n, s: b.add(n, llvm.splat(b, s, llvm.lanes_of(n.type)))
        )

    def runs_along(self, coords: Coords) -> bool:
        """Whether the lanes lie side by side."""
        if self.view is None:
            return False
        for axis, index in enumerate(coords):
            if index.offsets is None:
                continue
            if isinstance(self.indices[axis], Tile):
                return False
            if self.memref.strides[self.view.axes[axis]] != 1:
                return False
            return index.offsets == tuple(range(len(index.offsets)))
        return False


def _add(nest: LoopNest, lhs: Lane, rhs: Lane) -> Lane:
    return nest.emit([lhs, rhs], lambda b, x, y: b.add(x, y))


def gathered(f: FunctionEmitter, op: M.Scattered) -> Gathered:
    """What a scattered access needs of its view or memref: bounds of its axes, and the indices
    along each, as tiles or numbers."""
    found = f.values[op.operands[0]]
    memref = found.memref if isinstance(found, View) else found
    assert isinstance(memref, Memref)
    indices: list[Tile | Value] = []
    view = found if isinstance(found, View) else None
    if view is not None:
        check_sparse(op, view)
    for axis, value in enumerate(indices_of(op)):
        if isinstance(value.type, T.TileType):
            indices.append(f.tile(value))
            continue
        step = 1 if view is None else view.steps[axis]
        indices.append(scaled(f.builder, f.as_index(value), step))
    # What is promised for axes of the value says nothing of the axes of a memref.
    promised = () if view is None else bool_values(op.properties.get("in_bounds"))
    found = Gathered(memref, tuple(indices), promised, view)
    if f.checked:
        masks = values_of(op, "mask")
        mask = f.tile(masks[0]) if masks else None
        if view is None:
            _check_inside(f, op, found, mask)
        else:
            given = [f.tile(v) if T.dims_of(v.type) else f.as_index(v) for v in indices_of(op)]
            furthest = check_indices(f, op, view, given, promised)
            check_reach(f, op, memref, view.axes, furthest)
        _check_gathered(f, op, found, mask)
    return found


def _check_inside(f: FunctionEmitter, op: M.Scattered, at: Gathered, mask: Tile | None) -> None:
    """The indices that the mask leaves select elements of the memref."""
    fine = f.variable(ir.Constant(I1, 1))

    def body(nest: LoopNest, coords: Coords) -> None:
        lanes, inner = lanes_in(coords), nest.inner
        _, _, inside = at.numbers(nest, coords)
        assert inside is not None
        good = nest.widened(inside, lanes).value
        if mask is not None:
            off = inner.not_(nest.widened(nest.eval(mask, coords), lanes).value)
            good = inner.or_(good, off)
        if lanes:
            good = llvm.intrinsic(inner, "vector.reduce.and", [good], I1)
        inner.store(inner.and_(inner.load(fine, typ=I1), good), fine)

    tiles = [tile for tile in (mask, *at.indices) if isinstance(tile, Tile)]
    f.nest(T.dims_of(op.moved.type), tiles, body)
    message = f"'{op.name}' has an index outside of its memref"
    require(f, op, f.builder.load(fine, typ=I1), message)


def _check_gathered(f: FunctionEmitter, op: M.Scattered, at: Gathered, mask: Tile | None) -> None:
    """Every element that is selected lies in memory of the launch."""
    size, packed = at.memref.element.memory_bytes, at.memref.element.is_packed
    tiles = [tile for tile in (mask, *at.indices) if isinstance(tile, Tile)]

    def addresses(nest: LoopNest, coords: Coords) -> tuple[Lane, Lane | None]:
        lanes = lanes_in(coords)
        number, spread, on = at.numbers(nest, coords)
        if mask is not None:
            on = both(nest, on, nest.eval(mask, coords), lanes)
        numbers = [number]
        if lanes:
            numbers = [nest.widened(number, lanes), spread]

        def address(b: Builder, *parts: Value) -> Value:
            total = parts[0] if len(parts) == 1 else b.add(*parts)
            one = llvm.number(total.type, 1)
            offset = b.lshr(total, one) if packed else b.mul(total, llvm.number(total.type, size))
            return b.add(llvm.splat(b, b.ptrtoint(at.memref.pointer, I64), lanes), offset)

        return nest.emit(numbers, address), on

    check_addresses(f, op, T.dims_of(op.moved.type), tiles, size, addresses)
