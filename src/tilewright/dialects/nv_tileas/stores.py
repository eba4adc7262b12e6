"""Stores by tensor maps: they read storage and write global memory beside the threads, which wait for them."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import operand_def, opt_prop_def, prop_def, traits_def, var_operand_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from tilewright.diagnostics import define_code
from tilewright.dialects.declare import Report, attr, examples, int_property, type_of
from tilewright.dialects.nv_tileaa.base import TileAAOp
from tilewright.dialects.nv_tileaa.constraints import FLAG, INDEX, INT64
from tilewright.dialects.nv_tileas import types as S
from tilewright.dialects.nv_tileas.base import RESIDENCY, VIEW_SHAPE, schedule_op
from tilewright.dialects.nv_tileas.ops import STORAGE, ExtractSliceOp
from tilewright.dialects.nv_tileas.pipelines import DESC, check_boxes

GROUP = "stores"

NOT_WAITED = define_code(
    "as-store-not-waited",
    "A store by a tensor map may still read its storage when the kernel ends.",
    "After the store, in its block or an enclosing one, an `nv_tileas.async.store_wait` of the "
    "storage with `pending = 0` follows.",
)

_EFFECTS = traits_def(MemoryReadEffect(), MemoryWriteEffect())
_VIEW = "!nv_tileaa.tiled_view<8x16xf32, source = !nv_tileaa.memref<?x?xf32, 1>>"
_STORAGE = "!nv_tileas.tiled_view<8x16xf32, smem>"
_STORE = f"""
%s = nv_tileas.alloc_tensor : {_STORAGE}
%zeros = arith.constant dense<0.0> : tile<8x16xf32>
nv_tileas.copy %zeros, %s : tile<8x16xf32>, {_STORAGE}
%d = nv_tileas.make_tiled_tma_desc %view {{order = array<i64: 0, 1>, box = array<i64: 8, 16>}} : {_VIEW} -> !nv_tileas.tma_desc
nv_tileas.async.tiled_tma_store %d[%i, %j], %s : !nv_tileas.tma_desc, index, index, {_STORAGE}
nv_tileas.async.store_wait %s {{pending = 0 : i64, read}} : {_STORAGE}
"""


@schedule_op("async.tiled_tma_store", group=GROUP)
class AsyncTiledTmaStoreOp(TileAAOp):
    """Starts to write what a storage holds to a tile of an array; elements outside of the array are left out.

    ``indices`` are those of the tile in the view of the descriptor. What threads wrote to the storage
    before, the store reads. When the array is written is known behind a ``store_wait`` without ``read``,
    or when the kernel has ended.
    """

    desc = operand_def(DESC)
    indices = var_operand_def(INDEX)
    source = operand_def(STORAGE)
    traits = _EFFECTS
    BRACKETS: ClassVar = "indices"
    UNDEFINED: ClassVar = (
        "writing the source before the store has been waited for",
        "an access to the tile of the array before the store has been waited for without `read`",
    )
    EXAMPLES: ClassVar = examples(_STORE)

    def check(self, report: Report) -> None:
        source = self.source.type
        assert isinstance(source, S.TiledViewType)
        if source.residency.data != "smem":
            report.error(
                RESIDENCY,
                f"tensor maps store what lies in smem, got {source.residency.data}",
                type_of("source"),
            )
        check_boxes(report, self.desc, self.indices, source, "source")
        if not any(_covers(wait, self) for wait in _waits_for(self.source)):
            report.error(
                NOT_WAITED,
                "nothing waits until the store has read its storage",
                type_of("source"),
            )


@schedule_op("async.store_wait", group=GROUP)
class AsyncStoreWaitOp(TileAAOp):
    """Waits for the stores of a storage that were started before, save the youngest ``pending`` of the block.

    With ``read`` only until they have read the storage, which may be written again; without, until they
    have written the array. The thread that starts stores waits; others know when they have met it.
    """

    storage = operand_def(STORAGE)
    pending = prop_def(INT64)
    read = opt_prop_def(FLAG)
    traits = _EFFECTS
    EXAMPLES: ClassVar = examples(_STORE)

    def check(self, report: Report) -> None:
        if int_property(self, "pending") < 0:
            report.error(VIEW_SHAPE, "pending must be at least 0", attr("pending"))


READ = UnitAttr()


def _storage_behind(storage: SSAValue) -> SSAValue:
    """The storage that a stage is of."""
    while isinstance(storage.owner, ExtractSliceOp):
        storage = storage.owner.source
    return storage


def _waits_for(storage: SSAValue) -> list[AsyncStoreWaitOp]:
    """What waits for all stores of a storage, or of the one that it is a stage of."""
    held = {storage, _storage_behind(storage)}
    found = [use.operation for value in held for use in value.uses]
    return [
        op for op in found if isinstance(op, AsyncStoreWaitOp) and int_property(op, "pending") == 0
    ]


def _covers(wait: AsyncStoreWaitOp, store: Operation) -> bool:
    """Whether a wait comes behind a store whenever the store is executed."""
    inner: Operation | None = store
    while inner is not None and inner.parent is not wait.parent:
        inner = inner.parent_op()
    return inner is not None and inner is not wait and inner.is_before_in_block(wait)
