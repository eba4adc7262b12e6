"""What passes share that put smaller tiles in the place of a tile: views with such tiles, and what may not be split."""

from __future__ import annotations

from typing import TypeAlias

from xdsl.dialects import builtin as b
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.analysis.tileaa.geometry import cut_by
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import int_list
from tilewright.dialects.nv_tileaa.ops.memory import (
    AtomicUpdate,
    Load,
    Store,
    TiledAtomicRMWOp,
    TiledLoadOp,
    TiledStoreOp,
)
from tilewright.dialects.nv_tileaa.ops.shapes import BlockTileOp
from tilewright.passes.base import inherit_location

#: Accesses to tiles of views.
InView: TypeAlias = TiledLoadOp | TiledStoreOp | TiledAtomicRMWOp


class CannotSplitError(Exception):
    """A kernel cannot work part by part; the message says why."""


def check_weak(op: Load | Store | AtomicUpdate) -> None:
    """Raises ``CannotSplitError`` for an access that orders others, or is volatile, and for an update whose former values are
    used."""
    if isinstance(op, AtomicUpdate):
        if op.semantic != "relaxed":
            raise CannotSplitError(f"'{op.name}' is not relaxed")
        if op.results[0].first_use is not None:
            raise CannotSplitError(f"what '{op.name}' finds in memory is used")
    elif not op.is_weak:
        raise CannotSplitError(f"'{op.name}' is not weak")


def check_view(op: InView, ty: Attribute, axis: int) -> None:
    """Raises ``CannotSplitError`` unless an access goes through a view of whole tiles that do not overlap along an axis."""
    check_weak(op)
    cutter = cut_by(op.base)
    cut = None if cutter is None else cutter.cut
    if (
        cut is None
        or cutter is not op.base.owner
        or cut.sparse_dim is not None
        or op.mask is not None
        or "multimem" in op.properties
    ):
        raise CannotSplitError(
            f"'{op.name}' is masked, or goes through another view than of whole tiles"
        )
    if cut.steps[axis] != cut.tile_dims[axis] or T.dims_of(ty) != tuple(cut.tile_dims):
        raise CannotSplitError("the tiles of a view overlap, or leave gaps")


def part_type(ty: Attribute, axis: int, parts: int) -> T.TileType:
    """The type of one of ``parts`` parts of a tile along an axis, whose extent they must divide."""
    assert isinstance(ty, T.TileType)
    dims = list(ty.dims)
    dims[axis] //= parts
    return T.TileType(dims, ty.element_type)


def smaller_view(op: InView, axis: int, parts: int) -> SSAValue:
    """A view like that of an access, beside it, whose tiles are split into so many along an axis: tile ``i`` of before is
    made of tiles ``i * parts`` and following."""
    cutter = op.base.owner
    assert isinstance(cutter, BlockTileOp) and isinstance(op.base.type, T.TiledViewType)
    new = cutter.clone()
    dims = list(op.base.type.dims)
    dims[axis] //= parts
    groups = [1] * len(dims)
    if "groupSizes" in cutter.properties:
        groups = list(int_list(cutter.properties["groupSizes"]))
    groups[axis] *= parts
    steps = dict.fromkeys(("tileSizes", "traversalStrides"), dims)
    for name, numbers in (*steps.items(), ("groupSizes", groups)):
        if name in cutter.properties or name == "groupSizes":
            new.properties[name] = b.DenseArrayBase.from_list(b.i64, numbers)
    new.result._type = T.TiledViewType(dims, op.base.type.source)
    inherit_location(new, cutter)
    Rewriter.insert_op(new, InsertPoint.after(cutter))
    return new.result
