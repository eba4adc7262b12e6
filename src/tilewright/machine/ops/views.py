"""Views: construction, extents, loads and stores of their tiles.

A tile of a partition or strided view is a box of elements at fixed strides. It moves as one NumPy array over the
bytes of its allocation, clipped to the tensor. Gather/scatter views, 4-bit elements and atomics go element by element
through arrays of addresses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.ops import multimem, views
from tilewright.dialects.declare import bool_values
from tilewright.launching import accesses
from tilewright.launching.storage import Storage, storage_of
from tilewright.machine.compile import Step, SwitchPoint, Translator, implements, tile_type
from tilewright.machine.faults import EXTENT_TOO_LARGE, Fault
from tilewright.machine.fused_blocks import inline
from tilewright.machine.load_memo import LoadHistory
from tilewright.machine.memory import Allocation
from tilewright.machine.ops.control_flow import copy_slots
from tilewright.machine.ops.memory import is_weak, scheduled
from tilewright.machine.values import TOKEN, Registers, TensorView
from tilewright.machine.view_access import ViewAccess
from tilewright.numerics.arrays import Array, dtype_of, from_bits
from tilewright.numerics.element_types import FORMATS
from tilewright.numerics.floats import padding_bits

_ADDRESSES = 1 << 64


@implements(views.MakeTensorViewOp)
def _make_tensor_view(op: views.MakeTensorViewOp, t: Translator) -> Step:
    ty = op.view_type
    shape = dims_text(ty.dims, t, op.dynamicShape)
    strides = dims_text(ty.stride_dims, t, op.dynamicStrides)
    return tensor_step(t.slot(op.base), t.slot(op.result), shape, strides)


def tensor_step(
    base: int, result: int, shape: str, strides: str, offset: int | None = None
) -> Step:
    """Creates the view of a tensor, ``offset`` (a slot) bytes after its base."""
    moved = "" if offset is None else f"base = (base + regs[{offset}].item()) % {_ADDRESSES}\n"
    # Comparing is cheaper than creating, and tile blocks mostly create the same view.
    return inline(
        "base = regs[{base}].item()\n"
        f"{moved}shape, strides = {shape}, {strides}\n"
        "view = {latest}[0]\n"
        "if view.base != base or view.shape != shape or view.strides != strides:\n"
        "    view = {latest}[0] = {TensorView}(base, shape, strides)\n"
        "regs[{result}] = view",
        base=base,
        result=result,
        latest=[TensorView(0, (), ())],
        TensorView=TensorView,
    )


def dims_text(static: tuple[int, ...], t: Translator, dynamic: Any) -> str:
    """Return source text of a tuple of extents or strides: the static ones, and the dynamic ones read
    unsigned."""
    operands = iter(dynamic)
    dims: list[str] = []
    for dim in static:
        if dim != T.DYNAMIC:
            dims.append(f"{dim}, ")
        else:
            value = next(operands)
            mask = FORMATS[tile_type(value).element].mask
            dims.append(f"regs[{t.slot(value)}].item() & {mask}, ")
    return f"({''.join(dims)})"


@implements(views.MakePartitionViewOp, views.MakeStridedViewOp, views.MakeGatherScatterViewOp)
def _make_view(op: views.MakeView, t: Translator) -> Step:
    return copy_slots((t.slot(op.operands[0]),), (t.slot(op.results[0]),))


def _store_extents(op: TileOp, t: Translator, extents: Callable[[TensorView], list[int]]) -> Step:
    source, results = t.slot(op.operands[0]), t.slots(op.results)
    if not results:
        return lambda regs: None
    ty = tile_type(op.results[0])
    dtype, mask = dtype_of(ty.element), FORMATS[ty.element].mask

    def step(regs: Registers) -> None:
        for slot, extent in zip(results, extents(regs[source]), strict=True):
            if extent > mask:
                raise Fault(
                    EXTENT_TOO_LARGE,
                    f"the extent {extent} does not fit {ty.element}, whose maximum is {mask}",
                )
            regs[slot] = np.array(extent, np.uint64).astype(dtype)

    return step


@implements(views.GetTensorShapeOp)
def _get_tensor_shape(op: views.GetTensorShapeOp, t: Translator) -> Step:
    return _store_extents(op, t, lambda view: list(view.shape))


@implements(views.GetIndexSpaceShapeOp)
def _get_index_space_shape(op: views.GetIndexSpaceShapeOp, t: Translator) -> Step:
    ty = op.src.type
    assert isinstance(ty, T.TileViewType)
    walks = tuple(zip(ty.cut.dim_map, ty.cut.steps, strict=True))

    def extents(view: TensorView) -> list[int]:
        return [-(-view.shape[dim] // stride) for dim, stride in walks]

    return _store_extents(op, t, extents)


def padding_tile(ty: T.TileViewType) -> Array:
    """Return what out-of-bounds elements read as: the view's padding, or zero if it has none. In the shape of its
    tile.
    """
    tile = ty.tile_type
    return padding_of(str(ty.padding) if ty.padding else "zero", tile.dims, tile.element)


def padding_of(name: str, dims: tuple[int, ...], element: str) -> Array:
    """Return a tile filled with a named padding, such as ``neg_inf``; see ``numerics.padding_bits``."""
    bits = padding_bits(name, FORMATS[element])
    one = from_bits(np.array([bits], np.uint64), element)
    return np.full(dims, one[0], dtype_of(element))


def access_of(op: accesses.ViewAccess, t: Translator) -> tuple[ViewAccess, Storage]:
    """Return how a view access locates its tile, and how its elements are stored."""
    ty = op.view.type
    assert isinstance(ty, T.TileViewType)
    storage = storage_of(ty.tile_type.element)
    access = ViewAccess(
        t.machine.memory,
        ty.cut,
        storage,
        t.slot(op.view),
        t.slots(op.index),
        tuple(FORMATS[tile_type(value).element].mask for value in op.index),
        bool_values(op.properties.get("inbounds")),
    )
    return access, storage


@implements(views.LoadViewTkoOp, multimem.MultimemLoadReduceViewTkoOp)
def _load_view(
    op: views.LoadViewTkoOp | multimem.MultimemLoadReduceViewTkoOp, t: Translator
) -> Step | SwitchPoint:
    """A multimem load reads and reduces a single replica: the memory itself."""
    access, _ = access_of(op, t)
    t.preset(op.results[1], TOKEN)
    ty = op.view.type
    assert isinstance(ty, T.TileViewType)
    weak = is_weak(op)
    step = load_step(t, access, t.slot(op.results[0]), padding_tile(ty), is_weak=weak)
    return step if weak else SwitchPoint(step)


def load_step(
    t: Translator, access: ViewAccess, result: int, padding: Array, *, is_weak: bool
) -> Step:
    """Loads the tile of an access. Out-of-bounds elements are those of ``padding``."""
    storage = access.storage
    padding, to_tile = storage.from_tile(padding), storage.to_tile

    def read(regs: Registers) -> tuple[Array, Allocation]:
        box = access.box(regs)
        elements = box.elements(storage.raw)
        if box.inside is None:
            raw = elements.copy()
        else:
            raw = padding.copy()
            raw[box.inside] = elements
        return to_tile(raw), box.allocation

    def box(regs: Registers) -> None:
        regs[result], _ = read(regs)

    def lanes(regs: Registers) -> None:
        regs[result] = to_tile(access.load_lanes(regs, padding))

    if not access.is_box:
        return lanes
    # A load that is not weak waits for others to write, so its tile is not memoized.
    if t.machine.memo.is_off or not is_weak:
        return box
    return _keeping(access, result, read, t.machine.memo.history())


def _keeping(
    access: ViewAccess,
    result: int,
    read: Callable[[Registers], tuple[Array, Allocation]],
    history: LoadHistory,
) -> Step:
    """Return a load that returns a tile from its history if possible."""

    def load(regs: Registers, index: tuple[int, ...]) -> None:
        if not history.is_open:
            regs[result], _ = read(regs)
            return
        if (view := regs[access.view_slot]) is not history.view:
            history.turn_to(view)
            if (kept := history.current(index)) is not None:
                regs[result] = kept.tile
                return
        regs[result], allocation = read(regs)
        history.note(index, regs[result], allocation)

    index = "".join([f"regs[{slot}].item(), " for slot in access.index_slots])
    return inline(
        f"index = ({index})\n"
        "kept = {history}.tiles.get(index) if regs[{view}] is {history}.view else None\n"
        "if kept is not None and kept.writes == kept.allocation.writes:\n"
        "    regs[{result}] = kept.tile\n"
        "else:\n"
        "    {load}(regs, index)",
        history=history,
        view=access.view_slot,
        result=result,
        load=load,
    )


@implements(views.StoreViewTkoOp, multimem.MultimemStoreViewTkoOp)
def _store_view(
    op: views.StoreViewTkoOp | multimem.MultimemStoreViewTkoOp, t: Translator
) -> Step | SwitchPoint:
    """A multimem store writes the single replica."""
    access, _ = access_of(op, t)
    tile = t.slot(op.tile)
    t.preset(op.results[0], TOKEN)
    return scheduled(op, store_step(t, access, tile))


def store_step(t: Translator, access: ViewAccess, tile: int) -> Step:
    """Stores the in-bounds elements of a tile."""
    storage = access.storage
    memory, from_tile = t.machine.memory, storage.from_tile

    def box(regs: Registers) -> None:
        box = access.box(regs, write=True)
        raw = from_tile(regs[tile])
        memory.version += 1
        box.elements(storage.raw)[...] = raw if box.inside is None else raw[box.inside]

    def lanes(regs: Registers) -> None:
        access.store_lanes(regs, from_tile(regs[tile]))

    return box if access.is_box else lanes
