"""Reports of kernels to the host: prints and assertions."""

from __future__ import annotations

from math import prod

from llvmlite import ir
from xdsl.dialects.builtin import StringAttr

from tilewright.cpu.abi import AssertSite, PrintSite
from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.emitter.table import lowers
from tilewright.cpu.codegen.host.callbacks import call_host
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I8, I32, I64
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import Coords, lanes_in
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import Elementwise, Tile, buffer_tile
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.hints import AssertOp, PrintOp
from tilewright.launching.assertions import OperationSource
from tilewright.numerics.strides import row_major


@lowers("print")
def print_(f: FunctionEmitter, op: PrintOp) -> None:
    """Hands the values to the host, which prints them by the format, block after block."""
    values = [v for v in op.operands if not isinstance(v.type, T.MemTokenType)]
    tiles = [_for_host(f.tile(value)) for value in values]
    offsets: list[int] = []
    size = 0
    for tile in tiles:
        offsets.append(size)
        size += -(-prod(tile.dims) * tile.element.buffer_bytes // 8) * 8
    payload = f.pointer_to(f.scratch(size))
    for tile, offset in zip(tiles, offsets, strict=True):
        pointer = f.builder.gep(payload, [ir.Constant(I64, offset)], source_etype=I8)
        f.fill([(buffer_tile(tile.element, tile.dims, pointer, -1), tile)])
    format_ = op.properties["format"]
    assert isinstance(format_, StringAttr)
    operands = tuple((tile.element.name, tile.dims) for tile in tiles)
    site = len(f.unit.sites)
    f.unit.sites.append(PrintSite(format_.data, operands, OperationSource.of(op)))
    call_host(f, site, payload, ir.Constant(I64, size))
    f.give_token(op)


def _for_host(tile: Tile) -> Tile:
    """A tile as the host reads it: i4 with its sign."""
    if tile.element.name != "i4":
        return tile
    return Elementwise(tile.element, tile.dims, (tile,), _with_sign)


def _with_sign(b: Builder, nibble: Value) -> Value:
    high = llvm.number(nibble.type, 4)
    return b.ashr(b.shl(nibble, high), high)


@lowers("assert")
def assert_(f: FunctionEmitter, op: AssertOp) -> None:
    """Collects the positions of false elements, and calls the host if there are any."""
    condition = f.tile(op.condition)
    dims = condition.dims
    message = op.properties["message"]
    assert isinstance(message, StringAttr)
    site = len(f.unit.sites)
    f.unit.sites.append(AssertSite(message.data, dims, OperationSource.of(op)))
    payload = f.pointer_to(f.scratch((prod(dims) + 1) * 8))
    b = f.builder
    with b.goto_entry_block():
        counter = llvm.stack(b, I64)
    b.store(ir.Constant(I64, 0), counter)
    strides = row_major(dims)

    def body(nest: LoopNest, coords: Coords) -> None:
        truth = nest.vector(condition, coords)
        linear = nest.sum([nest.times(i, s) for i, s in zip(coords, strides, strict=True)])
        number = nest.position(linear).value
        b = nest.inner
        with b.if_then(llvm.any_lane(b, b.not_(truth)), likely=False):
            for lane in range(max(lanes_in(coords), 1)):
                _note(b, truth, lane, number, payload, counter)

    f.nest(dims, [condition], body)
    count = f.builder.load(counter, typ=I64)
    with f.builder.if_then(f.builder.icmp_signed("!=", count, ir.Constant(I64, 0)), likely=False):
        call_host(f, site, payload, count)
    f.give_token(op)


def _note(
    b: Builder,
    truth: Value,
    lane: int,
    number: Value,
    payload: Value,
    counter: Value,
) -> None:
    """Write down the position of a lane if it is false."""
    element = truth
    if llvm.lanes_of(truth.type):
        element = b.extract_element(truth, ir.Constant(I32, lane))
    count = b.load(counter, typ=I64)
    where = b.gep(payload, [count], source_etype=I64)
    b.store(b.add(number, ir.Constant(I64, lane)), where, align=8)
    b.store(b.add(count, b.zext(b.not_(element), I64)), counter)
