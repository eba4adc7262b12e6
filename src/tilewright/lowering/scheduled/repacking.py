"""``bitcast`` to elements of another width: each thread joins, or takes apart, what it holds."""

from __future__ import annotations

from xdsl.dialects import vector
from xdsl.dialects.arith import AndIOp, OrIOp, ShLIOp, ShRUIOp
from xdsl.dialects.builtin import IntegerType, VectorType
from xdsl.ir import SSAValue

from tilewright.dialects.nv_tileaa.ops.pointers import BitcastOp
from tilewright.layouts.repacking import narrow_registers
from tilewright.lowering.nvgpu import shapes
from tilewright.lowering.nvgpu.elementwise import cast_bits
from tilewright.lowering.nvgpu.shared_conversion import narrowed, widened
from tilewright.lowering.nvgpu.types import I8, scalar_of, width_of
from tilewright.lowering.nvgpu.vectors import length
from tilewright.lowering.scheduled.state import ScheduledKernel
from tilewright.lowering.scheduled.table import lowers
from tilewright.passes.tileas.part_layouts import repacked_bits, repacking_keeps_positions

_NIBBLE = 4


@lowers("bitcast")
def bitcast(low: ScheduledKernel, op: BitcastOp) -> None:
    """Reinterprets elements; what is packed from elements of several threads goes through shared memory."""
    source, result = op.operands[0], op.results[0]
    if not (bits := repacked_bits(op)) or not repacking_keeps_positions(op, low.threads):
        shapes.bitcast(low, op)
        return
    ty = low.type_of(result.type)
    if bits > 0:
        order = narrow_registers(low.layout_of(source.type), bits)
        made = _recut(low, low.picked(low.value(source), order), ty)
    else:
        order = narrow_registers(low.layout_of(result.type), -bits)
        places = sorted(range(len(order)), key=lambda place: order[place])
        made = low.picked(_recut(low, low.value(source), ty), places)
    low.bind(result, made)


def _recut(low: ScheduledKernel, value: SSAValue, ty: object) -> SSAValue:
    """The bits of a vector as one of elements of another width, the lowest first. Those of 4 bits go by bytes."""
    assert isinstance(ty, VectorType)
    wanted = scalar_of(ty)
    if width_of(value.type) < 8:
        value = _bytes(low, value)
    if width_of(wanted) < 8:
        return _nibbles(low, _as_words(low, value, 8), ty)
    return cast_bits(low, _as_words(low, value, width_of(wanted)), ty)


def _as_words(low: ScheduledKernel, value: SSAValue, width: int) -> SSAValue:
    """The bits of a vector as integers of a width."""
    given, count = width_of(value.type), length(value)
    words = cast_bits(low, value, VectorType(IntegerType(given), [count]))
    if given == width:
        return words
    return low.one(
        vector.BitcastOp, (words,), VectorType(IntegerType(width), [count * given // width])
    )


def _bytes(low: ScheduledKernel, value: SSAValue) -> SSAValue:
    """Two elements of 4 bits in each byte, the first in the lower half."""
    octets, count = widened(low, value), length(value)
    first, second = (low.picked(octets, range(start, count, 2)) for start in (0, 1))
    return low.binary(OrIOp, first, low.binary(ShLIOp, second, _NIBBLE))


def _nibbles(low: ScheduledKernel, octets: SSAValue, ty: VectorType) -> SSAValue:
    count = length(octets)
    first = low.binary(AndIOp, octets, (1 << _NIBBLE) - 1)
    second = low.binary(ShRUIOp, octets, _NIBBLE)
    order = [place // 2 + count * (place % 2) for place in range(2 * count)]
    both = low.picked(low.joined([first, second]), order)
    assert both.type == VectorType(I8, [2 * count])
    return narrowed(low, both, scalar_of(ty))
