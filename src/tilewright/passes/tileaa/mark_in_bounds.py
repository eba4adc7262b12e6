"""``mark-in-bounds``: states which axes of accesses are proven in bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Operation

from tilewright.analysis.tileaa.bounds import TILED_ACCESSES
from tilewright.analysis.tileaa.facts import Facts
from tilewright.analysis.tileaa.geometry import source_of_assumes, view_axes
from tilewright.dialects.declare import bool_array, bool_values
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.passes.tileaa.base import TileAAPass


@dataclass(frozen=True)
class MarkInBounds(TileAAPass):
    """Sets ``in_bounds`` along the axes where an access is proven to stay in its memref.

    Looks at accesses of tiles of memrefs with an extent known when compiling. A code generator makes no
    version with checks for an axis that is in bounds, nor code for what lies behind the end.

    Proof. ``analysis.tileaa.bounds``: the largest index times the step, plus the extent of the tile, is at most the
    extent of the memref, and the smallest index is not negative; or the index counts the tiles, and the tile
    divides the extent. Cost: one walk, and the ranges of the indices.
    """

    name: ClassVar[str] = "mark-in-bounds"

    def rewrite_function(self, function: FuncOp) -> None:
        mark_in_bounds(function)


def unmarked(function: FuncOp) -> list[Operation]:
    """Return the accesses of a function through memrefs with known extents that are not stated to be in bounds
    along all axes."""
    return [op for op in function.walk() if isinstance(op, TILED_ACCESSES) and _may_be_marked(op)]


def mark_in_bounds(function: FuncOp) -> None:
    """Set the property on the accesses of a function, in place."""
    bounds = Facts(function).bounds
    for op in unmarked(function):
        assert isinstance(op, Access)
        inside = [fact.verdict == "inside" for fact in bounds.of(op)]
        if any(inside):
            op.properties["in_bounds"] = bool_array(inside)


def _may_be_marked(op: Access) -> bool:
    stated = bool_values(op.properties.get("in_bounds"))
    dims = T.dims_of(op.moved.type)
    if not dims or (stated and all(stated)):
        return False
    axes = view_axes(source_of_assumes(op.operands[0]), dims)
    return axes is not None and any(isinstance(axis.extent, int) for axis in axes)
