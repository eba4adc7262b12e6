"""Operands that a product reads in place."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.ir.elements import I1, I32, I64, Element
from tilewright.cpu.codegen.ir.types import Value
from tilewright.cpu.codegen.loops.indices import Coords, Index
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import Mapped, Strided, Tile
from tilewright.cpu.codegen.memory.access import ViewLoad
from tilewright.cpu.codegen.memory.views import Extent, as_value
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp

_ANY = 1 << 62


@dataclass(frozen=True, slots=True)
class There:
    """A matrix whose rows are dense if ``inside`` holds (None: always): the address of the first
    element, and the bytes from row to row."""

    element: Element
    pointer: Value
    step: Value
    inside: Value | None


def matrix_there(f: FunctionEmitter, tile: Tile) -> There | None:
    """Where a matrix lies that is a tile of memory or of a buffer, with axes dropped or fixed; None
    for any other."""
    row, column = Index(0, None, _ANY), Index(0, None, _ANY)
    coords: Coords | None = (row, column)
    while isinstance(tile, Mapped) and coords is not None:
        coords = tile.mapping(LoopNest(f.builder), coords)
        tile = tile.source
    if coords is None or isinstance(tile, Mapped) or tile.element.is_packed:
        return None
    if type(tile) is Strided:
        return _lies(f, tile.element, tile.pointer, tile.strides, coords, (row, column), None)
    if isinstance(tile, ViewLoad) and tile.mask is None:
        place = tile.place
        if place.contiguous is None or coords[place.contiguous] is not column:
            return None
        strides = tuple(1 if a == place.contiguous else s for a, s in enumerate(place.strides))
        where = (row, column)
        return _lies(f, tile.element, place.pointer, strides, coords, where, place.inside)
    return None


def is_alone(f: FunctionEmitter, op: DotOp) -> Value:
    """Whether no two blocks multiply by the same right operand; others are better packed, and stay so for all that read them."""
    b, moving = f.builder, f.unit.right_axes.get(op, ())
    alone: Value = ir.Constant(I1, 1)
    for axis, extent in enumerate(f.frame.grid):
        if axis not in moving:
            alone = b.and_(alone, b.icmp_unsigned("==", extent, ir.Constant(I32, 1)))
    return alone


def _lies(
    f: FunctionEmitter,
    element: Element,
    pointer: Value,
    strides: tuple[Extent, ...],
    coords: Coords,
    matrix: tuple[Index, Index],
    inside: Value | None,
) -> There | None:
    row, column = matrix
    step: Extent | None = None
    dense, b = False, f.builder
    for index, stride in zip(coords, strides, strict=True):
        if index is row:
            step = stride
        elif index is column:
            dense = isinstance(stride, int) and stride == 1
        elif index.offsets is not None:
            return None
        elif index.base != 0:
            base = index.base
            number = ir.Constant(I64, base) if isinstance(base, int) else base.value
            behind = b.mul(as_value(stride), number)
            pointer = b.gep(pointer, [behind], source_etype=element.buffer)
    if step is None or not dense:
        return None
    size = element.buffer_bytes
    if isinstance(step, int):
        return There(element, pointer, ir.Constant(I64, step * size), inside)
    return There(element, pointer, b.mul(step, ir.Constant(I64, size)), inside)
