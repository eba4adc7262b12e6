"""Stores by tensor maps. They write what the storage holds when the store is waited for, so a schedule that overwrites
storage too early computes wrong results here, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as A
from tilewright.dialects.nv_tileas import pipelines as P
from tilewright.dialects.nv_tileas import stores as S
from tilewright.dialects.nv_tileas.types import TiledViewType
from tilewright.launching.value_types import tile_like
from tilewright.machine.compile import Step, Translator, implements
from tilewright.machine.ops import views as view_steps
from tilewright.machine.tileaa.accesses import Parts, with_view
from tilewright.machine.values import Registers
from tilewright.machine.view_access import ViewAccess
from tilewright.numerics.arrays import Array

_STORES = "stores"


@implements(S.AsyncTiledTmaStoreOp)
def _async_tiled_tma_store(op: S.AsyncTiledTmaStoreOp, t: Translator) -> Step:
    source_type, made = op.source.type, op.desc.owner
    assert isinstance(source_type, TiledViewType)
    if not isinstance(made, P.MakeTiledTmaDescOp):
        raise Translator.refusal(op, f"'{op.name}' with a descriptor from outside the function")
    moved = tile_like(A.TileType(source_type.dims, source_type.element_type))
    assert moved is not None
    parts = Parts(op, made.base, tuple(op.indices), None, None, moved)  # pyright: ignore[reportArgumentType]
    source, scratch, stores = t.slot(op.source), t.new_slot(), t.state_slot(_STORES)

    def whole_tile(access: ViewAccess, padding: Array) -> Step:
        return view_steps.store_step(t, access, scratch)

    store = with_view(parts, t, whole_tile)
    given = t.slots((made.base, *op.indices))

    def step(regs: Registers) -> None:
        storage, values = regs[source], [regs[slot] for slot in given]

        def run() -> None:
            # The destination was fixed when the store started.
            later = [regs[slot] for slot in given]
            for slot, value in zip(given, values, strict=True):
                regs[slot] = value
            regs[scratch] = np.array(storage)
            store(regs)
            for slot, value in zip(given, later, strict=True):
                regs[slot] = value

        started: Any = regs[stores]
        if started is None:
            started = regs[stores] = []
        started.append(run)

    return step


@implements(S.AsyncStoreWaitOp)
def _async_store_wait(op: S.AsyncStoreWaitOp, t: Translator) -> Step:
    stores, pending = t.state_slot(_STORES), int_property(op, "pending")

    def step(regs: Registers) -> None:
        started: list[Callable[[], None]] = regs[stores] or []
        ended = started[: max(len(started) - pending, 0)]
        del started[: len(ended)]
        for run in ended:
            run()

    return step
