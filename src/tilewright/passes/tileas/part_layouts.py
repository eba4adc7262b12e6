"""The part of a tile that a slice or insert accesses, if it is known at compile time, and what elements are packed from."""

from __future__ import annotations

from math import prod

from xdsl.ir import Operation, SSAValue

from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import TileAAOp, int_list
from tilewright.dialects.nv_tileaa.ops.extensions import InsertSliceOp
from tilewright.dialects.nv_tileaa.ops.pointers import BitcastOp
from tilewright.dialects.nv_tileas.types import layout_or_dealt
from tilewright.dialects.syntax.engine import values_of
from tilewright.layouts.layout import axis_bits
from tilewright.layouts.parts import Part, joined_layout, part_layout, part_of, registers_of_part
from tilewright.layouts.repacking import wide_layout
from tilewright.numerics.element_types import FORMATS
from tilewright.passes.tileaa.matching import integer_of

#: The widths of elements of which threads pack several into one, in bits.
_PACKED_WIDTHS = (4, 8, 16, 32)


def static_part(op: Operation, whole: SSAValue, part: SSAValue) -> Part | None:
    """The part that an operation takes out of ``whole``, or puts there; None where only running it
    tells, or where no bits of an element's number say it."""
    if "offsets" in op.properties:
        starts: list[int | None] = [*int_list(op.properties["offsets"])]
    else:
        starts = [integer_of(value) for value in values_of(op, "indices")]
    dims, extents = T.dims_of(whole.type), T.dims_of(part.type)
    known = [start for start in starts if start is not None]
    if len(known) != len(starts):
        return None
    inside = all(
        0 <= start <= extent - size
        for start, extent, size in zip(known, dims, extents, strict=True)
    )
    return part_of(dims, extents, known) if inside else None


def part_keeps_positions(op: Operation, threads: int) -> bool:
    """Whether each element of the part that an operation takes or puts stays with its thread."""
    takes = not isinstance(op, InsertSliceOp)
    whole, other = op.operands[0], op.results[0] if takes else op.operands[1]
    part, layout = static_part(op, whole, other), layout_or_dealt(whole.type, threads)
    if part is None or layout_or_dealt(other.type, threads) != part_layout(layout, part):
        return False
    return not takes or registers_of_part(layout, part) is not None


def cat_keeps_positions(op: TileAAOp, threads: int) -> bool:
    """Whether the elements of tiles that become one stay with their threads."""
    given, result = op.operands[0].type, op.results[0].type
    bit = axis_bits(T.dims_of(result))[int_property(op, "axis")].stop - 1
    return layout_or_dealt(result, threads) == joined_layout(layout_or_dealt(given, threads), bit)


def repacked_bits(op: BitcastOp) -> int:
    """The binary logarithm of how many elements a bitcast of tiles makes one of; negative where it takes elements apart, 0 where
    each stays one."""
    source, result = (prod(T.dims_of(value.type)) for value in (op.source, op.result))
    return source.bit_length() - result.bit_length()


def can_repack(op: BitcastOp) -> bool:
    """Whether threads can pack, or take apart, elements of these widths by themselves."""
    bits = repacked_bits(op)
    narrow, wide = (op.source, op.result) if bits > 0 else (op.result, op.source)
    widths = [
        FORMATS[T.element_name(T.element_of(value.type))].storage_bits for value in (narrow, wide)
    ]
    return widths[0] in _PACKED_WIDTHS and widths[0] << abs(bits) == widths[1]


def repacking_keeps_positions(op: BitcastOp, threads: int) -> bool:
    """Whether each thread holds all that the elements are packed from, or taken apart into, which it holds."""
    bits = repacked_bits(op)
    narrow, wide = (op.source, op.result) if bits > 0 else (op.result, op.source)
    if not can_repack(op):
        return False
    given, made = (layout_or_dealt(value.type, threads) for value in (narrow, wide))
    return wide_layout(given, abs(bits)) == made
