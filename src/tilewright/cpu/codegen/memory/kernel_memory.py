"""Memory that a kernel owns: globals and scratch; fences; inserting slices into tiles."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir
from xdsl.ir import Operation

from tilewright.cpu.abi import symbol_of
from tilewright.cpu.codegen.elementwise.operations import slice_positions, symbol_name
from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.emitter.table import lowers
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I8, I64, element_of, pointee_of
from tilewright.cpu.codegen.loops.indices import Coords, Index, Lane, lanes_in
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import Shifted, Tile
from tilewright.cpu.codegen.memory.noalias_ranges import aligned, global_bytes
from tilewright.cpu.codegen.memory.views import Memref
from tilewright.dialects.cuda_tile.types import DYNAMIC
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops import memory as M
from tilewright.dialects.nv_tileaa.ops.extensions import AllocaOp, InsertSliceOp
from tilewright.dialects.nv_tileaa.types import strides_of

#: The alignment that vectors like best.
_ALIGNMENT = 64


@lowers("get_global")
def get_global(f: FunctionEmitter, op: M.GetGlobalOp) -> None:
    """The address of a global; a memref of another shape than the global's has strides of its own."""
    name = symbol_name(op.properties["symbol"])
    declaration = f.unit.globals_[name]
    ty = declaration.properties["type"]
    assert isinstance(ty, T.MemrefType)
    pointer = f.unit.global_pointers.get(name)
    if pointer is None:
        symbol = symbol_of("global", name)
        variable = ir.GlobalVariable(f.unit.module, ir.ArrayType(I8, global_bytes(ty)), symbol)
        variable.linkage = "external"
        pointer = f.unit.global_pointers[name] = llvm.opaque(variable)
    result = op.results[0]
    if not isinstance(result.type, T.MemrefType):
        f.values[result] = f.builder.ptrtoint(pointer, I64)
        return
    # Of another shape than the global's the memref has strides of its own.
    shape = ty if DYNAMIC in result.type.dims or result.type.dims == ty.dims else result.type
    element = element_of(ty.element_type)
    f.values[result] = Memref(element, pointer, shape.dims, strides_of(shape))


@lowers("ext.alloca")
def alloca(f: FunctionEmitter, op: AllocaOp) -> None:
    """Scratch memory of the block, in the arena until the block is done."""
    element = pointee_of(op.results[0].type)
    alignment = int_property(op, "alignment")
    size = element.format.bytes_for(int_property(op, "num_elem"))
    room = size + max(alignment - _ALIGNMENT, 0)
    slot = f.scratch(room, f.plan.end)
    if f.unit.memory is not None:
        f.unit.memory.add_scratch(op, f.in_thread(slot), size, max(alignment, 1))
    address = f.builder.ptrtoint(f.pointer_to(slot), I64)
    if alignment > _ALIGNMENT:
        address = aligned(f.builder, address, alignment)
    f.values[op.results[0]] = address


@lowers("ext.fence")
def fence(f: FunctionEmitter, op: Operation) -> None:
    """A fence of the whole machine for all kinds: stronger than what some of them ask for."""
    f.builder.fence("acq_rel")
    f.give_token(op)


@lowers("ext.grid_dependency")
def grid_dependency(f: FunctionEmitter, op: Operation) -> None:
    """Launches run one after the other, so that there is nothing to wait for."""
    f.give_token(op)


@dataclass(frozen=True, slots=True, eq=False)
class Inserted(Tile):
    """A tile with a part replaced by another tile."""

    destination: Tile
    source: Tile
    start: Shifted

    @property
    def sources(self) -> tuple[Tile, ...]:
        return (self.destination, self.source)

    def at(self, nest: LoopNest, coords: Coords) -> Lane:
        lanes = lanes_in(coords)
        if lanes:
            return nest.lane_by_lane(self, coords)
        inside: Lane | None = None
        moved = []
        for index, offset, extent in zip(coords, self.start.offsets, self.source.dims, strict=True):
            start = ir.Constant(I64, offset) if isinstance(offset, int) else offset
            place = nest.emit([nest.position(index)], lambda b, p, start=start: b.sub(p, start))
            within = nest.emit(
                [place],
                lambda b, p, extent=extent: b.icmp_unsigned("<", p, ir.Constant(I64, extent)),
            )
            inside = (
                within
                if inside is None
                else nest.emit([inside, within], lambda b, x, y: b.and_(x, y))
            )
            moved.append(
                nest.emit(
                    [within, place],
                    lambda b, w, p: b.select(w, p, ir.Constant(I64, 0)),
                )
            )
        assert inside is not None
        there = nest.eval(self.source, tuple(Index(lane, None, 1) for lane in moved))
        here = nest.eval(self.destination, coords)
        return nest.emit([inside, there, here], lambda b, c, x, y: b.select(c, x, y))


@lowers("ext.insert_slice")
def insert_slice(f: FunctionEmitter, op: InsertSliceOp) -> None:
    """Both tiles, told apart where they are read; the offsets count elements."""
    destination, source = f.tile(op.destination), f.tile(op.source)
    start = slice_positions(f, op, destination.dims, source.dims)
    element, dims = destination.element, destination.dims
    f.define(op.result, Inserted(element, dims, destination, source, start))
