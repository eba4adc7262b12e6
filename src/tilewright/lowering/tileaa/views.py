"""Views: memrefs over memory, their partition into tiles, and accesses to tiles."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, UnitAttr, i64
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.dialects import arith
from tilewright.dialects.cuda_tile import types as C
from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.ops import multimem as M
from tilewright.dialects.cuda_tile.ops import views as V
from tilewright.dialects.cuda_tile.ops.atomics import AtomicRedViewTkoOp
from tilewright.dialects.declare import bool_array, bool_values, enum_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.enums import MultimemAttr, PaddingValueAttr, RMWModeAttr
from tilewright.dialects.nv_tileaa.ops import memory, shapes
from tilewright.dialects.nv_tileaa.ops.pointers import MakeMemrefOp
from tilewright.lowering.tileaa.hints import flag_hint
from tilewright.lowering.tileaa.memory import latency, ordering
from tilewright.lowering.tileaa.state import FALSE, TRUE, Lowering, i32_number, i64_list
from tilewright.lowering.tileaa.table import lowers


@lowers(V.MakeTensorViewOp)
def make_tensor_view(low: Lowering, op: V.MakeTensorViewOp) -> Sequence[SSAValue]:
    """``make_memref`` at the base without offset; operands are the dynamic extents and strides, in elements."""
    groups = (
        low.values((op.base,)),
        (),
        low.indices(op.dynamicShape),
        low.indices(op.dynamicStrides),
    )
    return low.grouped(MakeMemrefOp, groups, low.types_of(op.results))


@lowers(V.MakePartitionViewOp, V.MakeStridedViewOp, V.MakeGatherScatterViewOp)
def make_tile_view(low: Lowering, op: V.MakeView) -> Sequence[SSAValue]:
    """``block_tile``. Gather/scatter views are indexed by element, so their tiles start one element apart."""
    view, source = op.results[0].type, low.value(op.operands[0])
    assert isinstance(view, C.TileViewType)
    cut, sparse = view.cut, view.cut.sparse_dim
    steps = None if isinstance(view, C.PartitionViewType) else cut.steps
    padding = view.padding
    properties: dict[str, Attribute | None] = {
        "tileSizes": i64_list(cut.tile_dims),
        "dimGroups": ArrayAttr([ArrayAttr([IntegerAttr(dim, i64)]) for dim in cut.dim_map]),
        "padding_value": None if padding is None else PaddingValueAttr.of(str(padding)),
        "traversalStrides": None if steps is None else i64_list(steps),
        "sparseDim": None if sparse is None else i32_number(sparse),
    }
    return low.emit(shapes.BlockTileOp, (source,), low.types_of(op.results), properties)


@lowers(V.GetTensorShapeOp, V.GetIndexSpaceShapeOp)
def extents(low: Lowering, op: V.GetTensorShapeOp | V.GetIndexSpaceShapeOp) -> Sequence[SSAValue]:
    """Each extent as ``index``, cast to the integer type of the source."""
    source = low.value(op.src)
    found: list[SSAValue] = []
    for axis, ty in enumerate(low.types_of(op.results)):
        number = {"axis": i32_number(axis)}
        (extent,) = low.emit(shapes.GetDimSizeOp, (source,), (T.INDEX,), number)
        found += low.emit(arith.IndexCastUIOp, (extent,), (ty,))
    return found


def _bounds(op: TileOp) -> dict[str, Attribute | None]:
    """The axes along which the tile is assumed in bounds."""
    facts = bool_values(op.properties.get("inbounds"))
    return {"in_bounds": bool_array(facts) if any(facts) else None}


def _advice(low: Lowering, op: TileOp) -> dict[str, Attribute | None]:
    """The hints of the access for the target."""
    allowed = flag_hint(low.options, op, "allow_tma")
    use_tma = None if allowed is None else TRUE if allowed else FALSE
    return {"allow_tma": use_tma, **latency(low, op)}


def _is_sparse(view: SSAValue) -> bool:
    return isinstance(view.type, C.GatherScatterViewType)


@lowers(V.LoadViewTkoOp)
def load_view_tko(low: Lowering, op: V.LoadViewTkoOp) -> Sequence[SSAValue]:
    """``tiled_load``, or ``gather_load`` of a gather/scatter view; extents and padding are the view's."""
    groups = (low.values((op.view,)), low.indices(op.index), (), ())
    properties = {**ordering(op), **_bounds(op)}
    kind: type[Operation] = memory.GatherLoadOp
    if not _is_sparse(op.view):
        kind = memory.TiledLoadOp
        properties |= _advice(low, op)
    types = low.types_of(op.results)
    return low.grouped(kind, groups, types, properties, token=low.token(op.token))


@lowers(V.StoreViewTkoOp)
def store_view_tko(low: Lowering, op: V.StoreViewTkoOp) -> Sequence[SSAValue]:
    """``tiled_store``, or ``scatter_store`` to a gather/scatter view."""
    groups = (low.values((op.view,)), low.values((op.tile,)), low.indices(op.index), ())
    properties = {**ordering(op), **_bounds(op)}
    kind: type[Operation] = memory.ScatterStoreOp
    if not _is_sparse(op.view):
        kind = memory.TiledStoreOp
        properties |= _advice(low, op)
    return low.grouped(kind, groups, (T.MEM_TOKEN,), properties, token=low.token(op.token))


@lowers(AtomicRedViewTkoOp)
def atomic_red_view_tko(low: Lowering, op: AtomicRedViewTkoOp) -> Sequence[SSAValue]:
    """The atomic update of a view, of which only the token is used."""
    mode = RMWModeAttr.of(enum_property(op, "mode"))
    return _atomic(low, op, op.value, mode)[1:]


def _atomic(
    low: Lowering,
    op: AtomicRedViewTkoOp | M.MultimemReduceViewTkoOp,
    value: SSAValue,
    mode: RMWModeAttr,
    **more: Attribute,
) -> Sequence[SSAValue]:
    """The atomic update: the old tile, which the source does not have, and the token."""
    groups = (low.values((op.view,)), low.values((value,)), low.indices(op.index), ())
    properties: dict[str, Attribute | None] = {"rmw_mode": mode, **ordering(op), **_bounds(op)}
    types = (low.type_of(value), T.MEM_TOKEN)
    token = low.token(op.token)
    return low.grouped(memory.TiledAtomicRMWOp, groups, types, {**properties, **more}, token=token)


@lowers(M.MultimemLoadReduceViewTkoOp)
def multimem_load(low: Lowering, op: M.MultimemLoadReduceViewTkoOp) -> Sequence[SSAValue]:
    """A ``tiled_load`` that combines all replicas of the memory."""
    groups = (low.values((op.view,)), low.indices(op.index), (), ())
    reduction = MultimemAttr.of(enum_property(op, "reduction"))
    properties = {**ordering(op), **_bounds(op), "multimem": reduction}
    types = low.types_of(op.results)
    return low.grouped(memory.TiledLoadOp, groups, types, properties, token=low.token(op.token))


@lowers(M.MultimemStoreViewTkoOp)
def multimem_store(low: Lowering, op: M.MultimemStoreViewTkoOp) -> Sequence[SSAValue]:
    """A ``tiled_store`` to all replicas of the memory."""
    groups = (low.values((op.view,)), low.values((op.tile,)), low.indices(op.index), ())
    properties = {**ordering(op), **_bounds(op), "multimem": UnitAttr()}
    token = low.token(op.token)
    return low.grouped(memory.TiledStoreOp, groups, (T.MEM_TOKEN,), properties, token=token)


@lowers(M.MultimemReduceViewTkoOp)
def multimem_reduce(low: Lowering, op: M.MultimemReduceViewTkoOp) -> Sequence[SSAValue]:
    """The atomic update of a multimem view; the mode of a float sum is ``addf``."""
    mode = enum_property(op, "reduction")
    element = T.element_name(T.element_of(low.type_of(op.tile)))
    if mode == "add" and element in C.FLOAT_NAMES:
        mode = "addf"
    return _atomic(low, op, op.tile, RMWModeAttr.of(mode), multimem=UnitAttr())[1:]
