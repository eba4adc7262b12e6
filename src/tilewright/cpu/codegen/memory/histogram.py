"""Histograms: how often each number occurs in a tile."""

from __future__ import annotations

from llvmlite import ir

from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.emitter.table import lowers
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import ELEMENTS, I1, I32, I64
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import Coords, lanes_in
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import Strided, Tile, Uniform, buffer_tile
from tilewright.cpu.codegen.memory.addresses import optional
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import HistogramOp

_COUNT = ELEMENTS["i32"]


@lowers("histogram")
def histogram(f: FunctionEmitter, op: HistogramOp) -> None:
    """Numbers that are not counted go to one more place, behind the counts."""
    source, mask = f.tile(op.source), optional(f, op.mask)
    (size,) = T.dims_of(op.result.type)
    counts = _cleared(f, size, f.plan.last_use(op.result))

    def body(nest: LoopNest, coords: Coords) -> None:
        number, lanes = nest.vector(source, coords), lanes_in(coords)
        on = None if mask is None else nest.vector(mask, coords)
        b = nest.inner
        places = _places(b, number, on, size)
        for lane in range(max(lanes, 1)):
            place = b.extract_element(places, ir.Constant(I32, lane)) if lanes else places
            where = b.gep(counts.pointer, [place], source_etype=I32)
            b.store(b.add(b.load(where, typ=I32), ir.Constant(I32, 1)), where)

    tiles: list[Tile] = [tile for tile in (source, mask) if tile is not None]
    f.nest(source.dims, tiles, body)
    f.values[op.result] = counts


def _cleared(f: FunctionEmitter, size: int, last: int) -> Strided:
    """Counts of zero in a buffer that has room for one more."""
    f.flush()
    slot = f.scratch((size + 1) * _COUNT.buffer_bytes, last)
    counts = buffer_tile(_COUNT, (size,), f.pointer_to(slot), slot.offset)
    f.fill([(counts, Uniform(_COUNT, (size,), ir.Constant(I32, 0)))])
    return counts


def _places(b: Builder, number: Value, on: Value | None, size: int) -> Value:
    """Where each number is counted. i1 counts as 0 and 1; wider integers are read signed."""
    ty = llvm.shaped(I64, number.type)
    is_bool = llvm.scalar_of(number.type) == I1
    wide = number
    if number.type != ty:
        wide = b.zext(number, ty) if is_bool else b.sext(number, ty)
    counted = b.icmp_unsigned("<", wide, llvm.number(ty, size))
    if on is not None:
        counted = b.and_(counted, on)
    return b.select(counted, wide, llvm.number(ty, size))
