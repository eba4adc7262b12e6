"""Loaded tiles that threads process before a product uses the result: they are read from a storage, as if they had
been copied there, so that a tensor map can fill it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.memory import TiledLoadOp
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas.types import SharedAttr, TiledViewType, layout_of
from tilewright.layouts.conversions import waves_of
from tilewright.passes.base import inherit_location
from tilewright.passes.tileas import tile_ops
from tilewright.passes.tileas.access_layouts import element_bytes
from tilewright.passes.tileas.pipeline import reads_well
from tilewright.passes.tileas.prefetched_loads import LoopLoads, TileLoad, readers_of
from tilewright.passes.tileas.rematerialize import FEW_BYTES
from tilewright.passes.tileas.tma_boxes import Box, tile_box


@dataclass(frozen=True, slots=True)
class StagedLoad:
    """A load, the storage that its tile is copied to, and what reads it there."""

    load: TiledLoadOp
    storage: S.AllocTensorOp
    copy: S.CopyOp
    readers: tuple[S.LocalLoadOp, ...]

    def undo(self) -> None:
        """Let threads have the tile from the load again, and convert it where another layout is wanted."""
        for reader in self.readers:
            value = self.load.result
            if reader.result.type != value.type:
                new = S.ConvertLayoutOp.create(
                    operands=(value,), result_types=(reader.result.type,)
                )
                inherit_location(new, self.load)
                Rewriter.insert_op(new, InsertPoint.before(reader))
                value = new.result
            reader.result.replace_all_uses_with(value)
        for op in (*self.readers, self.copy, self.storage):
            op.detach()
            op.erase()


def stage_loads(loop: LoopLoads) -> list[StagedLoad]:
    """Stage the loads of a loop whose tiles threads compute with, where tensor maps bring boxes in an order in which threads
    read them without conflicts of banks, and bring all that the loop loads but some bytes of a thread, as scales of rows: where
    threads bring more themselves, they wait for that, and a ring of theirs holds the rest as well."""
    loads = [op for op in loop.body.walk() if op.name in tile_ops.LOADS]
    wanted: list[tuple[TiledLoadOp, TiledViewType]] = []
    for op in loads:
        if not isinstance(op, TiledLoadOp) or not loop.is_wanted(op):
            return []
        dims, element = T.dims_of(op.result.type), T.element_of(op.result.type)
        box = tile_box(loop.facts, op.base, dims, element)
        layout = layout_of(op.result.type)
        if not isinstance(box, Box):
            if layout is None or layout.registers * element_bytes(op.result.type) > FEW_BYTES:
                return []
            continue
        if readers_of(op):
            continue
        shared = box.shared(dims, element)
        if layout is None or layout.is_replicated:
            return []
        if waves_of(layout, shared, element_bytes(op.result.type)) > 1:
            return []
        wanted.append((op, TiledViewType(dims, element, "smem", SharedAttr.of(shared))))
    return [_stage(loop, op, ty) for op, ty in wanted]


def undo_others(staged: Collection[StagedLoad], kept: Collection[TileLoad]) -> None:
    """Undo what was staged in vain."""
    for each in staged:
        if each.load not in kept:
            each.undo()


def _stage(loop: LoopLoads, load: TiledLoadOp, ty: TiledViewType) -> StagedLoad:
    storage = S.AllocTensorOp.create(result_types=(ty,))
    inherit_location(storage, load)
    Rewriter.insert_op(storage, InsertPoint.at_start(loop.func.body.block))
    users = list(dict.fromkeys(use.operation for use in load.result.uses))
    readers: list[S.LocalLoadOp] = []
    wanted = [
        user for user in users if isinstance(user, S.ConvertLayoutOp) and reads_well(ty, user)
    ]
    for user in wanted:
        readers.append(_reader(storage, user, user))
        user.result.replace_all_uses_with(readers[-1].result)
        user.detach()
        user.erase()
    if len(wanted) < len(users):
        readers.append(_reader(storage, load, load))
        load.result.replace_all_uses_with(readers[-1].result)
    copy = S.CopyOp.create(operands=(load.result, storage.result))
    inherit_location(copy, load)
    Rewriter.insert_op(copy, InsertPoint.after(load))
    return StagedLoad(load, storage, copy, tuple(readers))


def _reader(storage: S.AllocTensorOp, like: Operation, behind: Operation) -> S.LocalLoadOp:
    new = S.LocalLoadOp.create(operands=(storage.result,), result_types=(like.results[0].type,))
    new.result.name_hint = like.results[0].name_hint
    inherit_location(new, like)
    Rewriter.insert_op(new, InsertPoint.after(behind))
    return new
