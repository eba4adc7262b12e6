"""Accesses that must go element by element, or element by element in the order of memory."""

from __future__ import annotations

from tilewright.analysis.tileaa.bounds import TILED_ACCESSES
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.syntax.engine import values_of
from tilewright.layouts import Layout
from tilewright.passes.tileas.tile_ops import is_tile


def goes_by_element(op: Access) -> bool:
    """Whether an access is ordered or volatile, or a tile of indices picks the rows of a view, which
    need not have the tile's shape."""
    return not op.is_weak or _picks_rows(op)


def _picks_rows(op: Access) -> bool:
    if any(
        is_tile(value) and T.dims_of(value.type) != T.dims_of(op.moved.type)
        for value in op.operands
    ):
        return True
    # A view of one axis: the indices have the tile's shape, and are rows all the same.
    (base,) = values_of(op, "base")
    of_view = isinstance(op, TILED_ACCESSES) or isinstance(base.type, T.TiledViewType)
    return of_view and any(is_tile(value) for value in values_of(op, "indices"))


def updates_in_place(op: Access, layout: Layout) -> bool:
    """Whether threads update the elements that they hold in a layout: no thread asks for what another
    one gets."""
    return not _picks_rows(op) and (op.results[0].first_use is None or not layout.is_replicated)
