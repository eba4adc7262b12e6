"""``print``: the first thread of a block prints for all of it, a tile from shared memory."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from xdsl.dialects import arith as A
from xdsl.dialects import builtin as b
from xdsl.dialects import memref, scf
from xdsl.ir import Attribute, Block, Region, SSAValue

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import AliasOp
from tilewright.dialects.nvgpu.support import arith_vectors as V
from tilewright.dialects.nvgpu.support import gpu_ops
from tilewright.dialects.print_formats import Conversion, parse_format
from tilewright.lowering.nvgpu.elementwise import float_cast
from tilewright.lowering.nvgpu.exchange import Buffer, Exchange
from tilewright.lowering.nvgpu.memory import element_name
from tilewright.lowering.nvgpu.state import Threads
from tilewright.lowering.nvgpu.table import lowers
from tilewright.lowering.nvgpu.types import I64

_FLOAT, _UNSIGNED = frozenset("eEfFgGaA"), frozenset("uoxXp")


@lowers("print")
def lower_print(low: Threads, op: AliasOp) -> None:
    """The text is that of ``launching.printing``; pieces of several blocks may mix on a GPU."""
    given = [value for value in op.operands if not isinstance(value.type, T.MemTokenType)]
    text = op.properties["format"]
    assert isinstance(text, b.StringAttr)
    exchange = Exchange(low)
    buffers: dict[SSAValue, Buffer] = {}
    for value in given:
        dims = T.dims_of(value.type)
        if dims and value not in buffers:
            held = low.value(value)
            assert isinstance(held.type, b.VectorType)
            buffers[value] = exchange.buffer(held.type.element_type, prod(dims))
            exchange.put(buffers[value], held)
    exchange.meet()
    low.sync.shared = True
    pieces, operands = parse_format(text.data), iter(given)

    def work() -> list[SSAValue]:
        for piece in pieces:
            if isinstance(piece, str):
                _say(low, piece.replace("%", "%%"))
                continue
            value = next(operands)
            if value in buffers:
                _print_tile(low, piece, value, buffers[value])
            else:
                _print_number(low, piece, low.value(value), element_name(value))
        return []

    low.either(low.compare("eq", low.thread(), 0), work)
    for result in op.results:
        low.bind(result, None)


def _say(low: Threads, text: str, *values: SSAValue) -> None:
    low.emit(gpu_ops.PrintfOp, values, (), {"format": b.StringAttr(text)})


def _print_tile(low: Threads, piece: Conversion, value: SSAValue, buffer: Buffer) -> None:
    """Each dimension between brackets, by a loop."""
    dims = T.dims_of(value.type)

    def row(axis: int, start: SSAValue) -> None:
        if axis == len(dims):
            held = buffer.memory.type
            assert isinstance(held, b.MemRefType)
            number = low.one(memref.LoadOp, (buffer.memory, low.as_index(start)), held.element_type)
            if T.element_name(T.element_of(value.type)) == "i1":
                number = low.one(V.TruncIOp, (number,), b.IntegerType(1))
            _print_number(low, piece, number, element_name(value))
            return
        _say(low, "[")
        inner = prod(dims[axis + 1 :])

        def turn(place: SSAValue) -> None:
            low.either(low.compare("ne", place, 0), lambda: _said(low, ", "))
            row(axis + 1, low.plus(start, low.times(place, inner)))

        _loop(low, dims[axis], turn)
        _say(low, "]")

    row(0, low.constant(0, I64))


def _said(low: Threads, text: str) -> list[SSAValue]:
    _say(low, text)
    return []


def _loop(low: Threads, count: int, turn: Callable[[SSAValue], None]) -> None:
    body = Block(arg_types=[I64])
    with low.filling(body):
        turn(body.args[0])
        low.emit(scf.YieldOp)
    bounds = [low.constant(number, I64) for number in (0, count, 1)]
    low.emit(scf.ForOp, bounds, (), regions=[Region(body)])


def _print_number(low: Threads, piece: Conversion, value: SSAValue, name: str) -> None:
    """A number as its conversion wants it: a float for an integer is truncated, and the reverse."""
    if piece.letter in "n%":
        return
    is_float = not (name[0] == "i" or name == "ptr")
    wide: Attribute = I64
    if piece.letter in _FLOAT:
        wide = b.Float64Type()
        if is_float:
            value = value if value.type == wide else _to_f64(low, value, name)
        else:
            value = low.one(V.SIToFPOp, (value,), wide)
        _say(low, f"%{piece.options}{piece.letter}", value)
        return
    if is_float:
        value = low.one(V.FPToSIOp, (_to_f64(low, value, name),), wide)
    elif isinstance(value.type, b.IntegerType) and value.type.width.data < 64:
        unsigned = piece.letter in _UNSIGNED and value.type.width.data > 1
        value = low.one(V.ExtUIOp if unsigned else V.ExtSIOp, (value,), wide)
    _say(low, f"%{piece.options}ll{piece.letter}", value)


def _to_f64(low: Threads, value: SSAValue, name: str) -> SSAValue:
    if name == "f64":
        return value
    f32 = float_cast(low, value, b.Float32Type(), name, "f32")
    return low.one(A.ExtFOp, (f32,), b.Float64Type())
