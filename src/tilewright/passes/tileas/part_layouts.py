"""Which part of a tile an operation takes or puts, where that is known when it is compiled."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import int_list
from tilewright.dialects.syntax.engine import values_of
from tilewright.layouts.parts import Part, part_of
from tilewright.passes.tileaa.matching import integer_of


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
