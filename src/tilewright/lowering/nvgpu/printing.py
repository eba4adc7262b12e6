"""``print``: the first thread prints for the whole block, one tile at a time, from shared memory, in pieces if they do
not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from xdsl.dialects import arith as A
from xdsl.dialects import builtin as b
from xdsl.dialects import memref, scf
from xdsl.dialects.arith import BitcastOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import TileAAOp
from tilewright.dialects.print_formats import Conversion, number_letter, parse_format
from tilewright.dialects.upstream.arith import vectors as V
from tilewright.dialects.upstream.gpu import ops as gpu_ops
from tilewright.lowering.nvgpu.elementwise import float_cast
from tilewright.lowering.nvgpu.memory import element_name
from tilewright.lowering.nvgpu.pieces import cut, dealt, fits
from tilewright.lowering.nvgpu.shared_conversion import Buffer, SharedConversion, held_bytes
from tilewright.lowering.nvgpu.state import ThreadLowering
from tilewright.lowering.nvgpu.table import lowers
from tilewright.lowering.nvgpu.types import I64, scalar_of, width_of

_FLOAT, _UNSIGNED = frozenset("eEfFgGaA"), frozenset("uoxXp")


@lowers("print")
def lower_print(low: ThreadLowering, op: TileAAOp) -> None:
    """Prints the text of ``launching.printing``. On a GPU the output of several blocks may interleave."""
    given = [value for value in op.operands if not isinstance(value.type, T.MemTokenType)]
    text = op.properties["format"]
    assert isinstance(text, b.StringAttr)
    tiles = dict.fromkeys(value for value in given if T.dims_of(value.type))
    pieces = parse_format(text.data)
    sizes = [held_bytes(scalar_of(low.value(v).type), prod(T.dims_of(v.type))) for v in tiles]
    if sum(sizes) > low.options.shared_bytes - low.conversion_start:
        _in_turn(low, pieces, given)
    else:
        _at_once(low, pieces, given, list(tiles))
    for result in op.results:
        low.bind(result, None)


def _at_once(
    low: ThreadLowering,
    pieces: Sequence[str | Conversion],
    given: Sequence[SSAValue],
    tiles: Sequence[SSAValue],
) -> None:
    """Print with all tiles in shared memory at once."""
    shared_conversion = SharedConversion(low)
    buffers: dict[SSAValue, Buffer] = {}
    for value in tiles:
        held = low.value(value)
        buffers[value] = shared_conversion.buffer(scalar_of(held.type), prod(T.dims_of(value.type)))
        shared_conversion.put(buffers[value], held)
    shared_conversion.meet()
    low.sync.shared = True
    operands = iter(given)

    def work() -> list[SSAValue]:
        for piece in pieces:
            if isinstance(piece, str):
                _say(low, piece.replace("%", "%%"))
                continue
            value = next(operands)
            if value in buffers:
                _print_part(low, piece, value, buffers[value], (0, 1))
            else:
                _print_number(low, piece, low.value(value), element_name(value))
        return []

    _by_first(low, work)


def _in_turn(
    low: ThreadLowering, pieces: Sequence[str | Conversion], given: Sequence[SSAValue]
) -> None:
    """Print one piece of the text after the other, with one part of a tile in shared memory at a time."""
    operands = iter(given)
    for piece in pieces:
        if isinstance(piece, str):
            _by_first(low, lambda piece=piece: _said(low, piece.replace("%", "%%")))
            continue
        value = next(operands)
        dims, held = T.dims_of(value.type), low.value(value)
        if not dims:
            _by_first(
                low,
                lambda piece=piece, held=held, value=value: _print_number(
                    low, piece, held, element_name(value)
                ),
            )
            continue
        size, count = prod(dims), 1
        while not fits(low, [held], size // count) and size // count >= 2 * dealt(low):
            count *= 2
        for number, part in enumerate(cut(low, held, count) if count > 1 else [held]):
            shared_conversion = SharedConversion(low)
            buffer = shared_conversion.buffer(scalar_of(held.type), size // count)
            shared_conversion.put(buffer, part)
            shared_conversion.meet()
            low.sync.shared = True
            place = number, count
            _by_first(
                low,
                lambda piece=piece, value=value, buffer=buffer, place=place: _print_part(
                    low, piece, value, buffer, place
                ),
            )


def _by_first(low: ThreadLowering, work: Callable[[], object]) -> None:
    """Build code that only the first thread of the block executes."""

    def nothing_made() -> list[SSAValue]:
        work()
        return []

    low.either(low.compare("eq", low.thread(), 0), nothing_made)


def _say(low: ThreadLowering, text: str, *values: SSAValue) -> None:
    low.emit(gpu_ops.PrintfOp, values, (), {"format": b.StringAttr(text)})


def _print_part(
    low: ThreadLowering, piece: Conversion, value: SSAValue, buffer: Buffer, place: tuple[int, int]
) -> None:
    """Print one of ``place[1]`` equal parts of a tile, a power of two, in brackets by dimension. A dimension that the
    part covers in full is a loop.
    """

    def element(start: SSAValue) -> None:
        held = buffer.memory.type
        assert isinstance(held, b.MemRefType)
        number = low.one(memref.LoadOp, (buffer.memory, low.as_index(start)), held.element_type)
        number = _narrowed(low, number, buffer.element)
        _print_number(low, piece, number, element_name(value))

    def rows(dims: Sequence[int], start: SSAValue, place: tuple[int, int]) -> None:
        if not dims:
            element(start)
            return
        part, count = place
        if part == 0:
            _say(low, "[")
        if count > dims[0]:
            # The part is less than a row.
            each = count // dims[0]
            if part and part % each == 0:
                _say(low, ", ")
            rows(dims[1:], start, (part % each, each))
        else:
            inner = prod(dims[1:])

            def turn(row: SSAValue) -> None:
                if part:
                    _say(low, ", ")
                else:
                    low.either(low.compare("ne", row, 0), lambda: _said(low, ", "))
                rows(dims[1:], low.plus(start, low.times(row, inner)), (0, 1))

            _loop(low, dims[0] // count, turn)
        if part == count - 1:
            _say(low, "]")

    rows(T.dims_of(value.type), low.constant(0, I64), place)


def _said(low: ThreadLowering, text: str) -> list[SSAValue]:
    _say(low, text)
    return []


def _loop(low: ThreadLowering, count: int, turn: Callable[[SSAValue], None]) -> None:
    body = Block(arg_types=[I64])
    with low.building(body):
        turn(body.args[0])
        low.emit(scf.YieldOp)
    bounds = [low.constant(number, I64) for number in (0, count, 1)]
    low.emit(scf.ForOp, bounds, (), regions=[Region(body)])


def _print_number(low: ThreadLowering, piece: Conversion, value: SSAValue, name: str) -> None:
    """Print a number, converted to the type of its conversion: floats are truncated for an integer conversion."""
    is_float = not (name[0] == "i" or name == "ptr")
    letter = number_letter(piece.letter, is_float=is_float)
    if letter in "n%":
        return
    wide: Attribute = I64
    if letter in _FLOAT:
        wide = b.Float64Type()
        if is_float:
            value = value if value.type == wide else _to_f64(low, value, name)
        else:
            value = low.one(V.UIToFPOp if name == "i1" else V.SIToFPOp, (value,), wide)
        _say(low, f"%{piece.options}{letter}", value)
        return
    if is_float:
        value = low.one(V.FPToSIOp, (_to_f64(low, value, name),), wide)
    elif isinstance(value.type, b.IntegerType) and value.type.width.data < 64:
        is_unsigned = letter in _UNSIGNED or name == "i1"
        value = low.one(V.ExtUIOp if is_unsigned else V.ExtSIOp, (value,), wide)
    if letter == "c":
        _say(low, f"%{piece.options}c", low.one(V.TruncIOp, (value,), b.i32))
    elif letter == "p":
        _say(low, "0x%llx", value)
    else:
        _say(low, f"%{piece.options}ll{letter}", value)


def _narrowed(low: ThreadLowering, number: SSAValue, element: Attribute) -> SSAValue:
    """An element of less than 8 bits, of which each takes a byte in shared memory."""
    if number.type == element:
        return number
    bits = low.one(V.TruncIOp, (number,), b.IntegerType(width_of(element)))
    return bits if bits.type == element else low.one(BitcastOp, (bits,), element)


def _to_f64(low: ThreadLowering, value: SSAValue, name: str) -> SSAValue:
    if name == "f64":
        return value
    f32 = float_cast(low, value, b.Float32Type(), name, "f32")
    return low.one(A.ExtFOp, (f32,), b.Float64Type())
