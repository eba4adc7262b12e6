"""Source positions of the operations of a compiled kernel: in Python, or in the text of the module."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from tilewright.diagnostics import NamedLocation, Span
from tilewright.dialects.cuda_tile.debug_info import source_position
from tilewright.dialects.source_map import location_of
from tilewright.model.profile import Origin


def origins_of(operations: Sequence[Operation]) -> dict[int, Origin]:
    """The origin of each operation, by its number from 1."""
    return {number: _origin(op) for number, op in enumerate(operations, 1)}


def _origin(op: Operation) -> Origin:
    around: Operation | None = op
    while around is not None:
        location = getattr(around, "location", None)
        if location is not None and (position := source_position(location)) is not None:
            return Origin(op.name, position[0], position[1])
        if around is op:
            place = location_of(op)
            if isinstance(place, Span):
                return Origin(op.name, place.file_name, place.line)
            if isinstance(place, NamedLocation):
                return Origin(op.name, place.file_name, place.line)
        around = around.parent_op()
    return Origin(op.name)
