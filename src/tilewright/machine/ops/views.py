"""Views: making them, asking their extents, loading and storing tiles through them.

A tile of a partition or strided view is a box of elements at fixed strides, so it moves as one
NumPy array over the bytes of its allocation, cut where it sticks out of the tensor. Gather/scatter
views, 4-bit elements and atomics go element by element, through arrays of addresses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.base import TileOp, bool_values
from tilewright.dialects.cuda_tile.enums import PaddingValue
from tilewright.dialects.cuda_tile.ops import multimem, views
from tilewright.machine.compile import Step, SwitchPoint, Translator, implements, tile_type
from tilewright.machine.faults import EXTENT_TOO_LARGE, Fault
from tilewright.machine.ops.memory import scheduled
from tilewright.machine.storage import Storage, storage_of
from tilewright.machine.values import TOKEN, Registers, TensorView
from tilewright.machine.view_access import ViewAccess
from tilewright.numerics.arrays import Array, dtype_of, from_bits
from tilewright.numerics.element_types import FORMATS


@implements(views.MakeTensorViewOp)
def make_tensor_view(op: views.MakeTensorViewOp, t: Translator) -> Step:
    ty = op.view_type
    base, result = t.slot(op.base), t.slot(op.result)
    shape = _dims(ty.dims, t, op.dynamicShape)
    strides = _dims(ty.stride_dims, t, op.dynamicStrides)

    def step(regs: Registers) -> None:
        regs[result] = TensorView(regs[base].item(), shape(regs), strides(regs))

    return step


def _dims(
    static: tuple[int, ...], t: Translator, dynamic: Any
) -> Callable[[Registers], tuple[int, ...]]:
    """Extents or strides: the static ones, with the dynamic ones read unsigned between them."""
    operands = iter(dynamic)
    sources: list[tuple[int, int]] = []
    for dim in static:
        if dim != T.DYNAMIC:
            sources.append((0, dim))
        else:
            value = next(operands)
            sources.append((t.slot(value), FORMATS[tile_type(value).element].mask))
    if not any(slot for slot, _ in sources):
        return lambda regs: static

    def read(regs: Registers) -> tuple[int, ...]:
        return tuple([regs[slot].item() & number if slot else number for slot, number in sources])

    return read


@implements(views.MakePartitionViewOp, views.MakeStridedViewOp, views.MakeGatherScatterViewOp)
def make_view(op: views.MakeView, t: Translator) -> Step:
    source, result = t.slot(op.operands[0]), t.slot(op.results[0])

    def step(regs: Registers) -> None:
        regs[result] = regs[source]

    return step


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
                    f"the extent {extent} does not fit {ty.element}, whose largest unsigned number "
                    f"is {mask}",
                )
            regs[slot] = np.array(extent, np.uint64).astype(dtype)

    return step


@implements(views.GetTensorShapeOp)
def get_tensor_shape(op: views.GetTensorShapeOp, t: Translator) -> Step:
    return _store_extents(op, t, lambda view: list(view.shape))


@implements(views.GetIndexSpaceShapeOp)
def get_index_space_shape(op: views.GetIndexSpaceShapeOp, t: Translator) -> Step:
    ty = op.src.type
    if not isinstance(ty, T.PartitionViewType | T.StridedViewType):
        return _store_extents(op, t, lambda view: list(view.shape))
    walks = tuple(zip(ty.dim_map_dims, ty.traversal, strict=True))

    def extents(view: TensorView) -> list[int]:
        return [-(-view.shape[dim] // stride) for dim, stride in walks]

    return _store_extents(op, t, extents)


def padding_tile(ty: T.TileViewType) -> Array:
    """What elements outside the tensor read as: the view's padding, and zero where it has none."""
    tile = ty.tile_type
    element = tile.element
    fmt = FORMATS[element]
    bits = {
        None: lambda: 0,
        PaddingValue.ZERO: lambda: 0,
        PaddingValue.NEG_ZERO: lambda: fmt.sign_bit,
        PaddingValue.NAN: lambda: fmt.max_finite_bits if fmt.nan == "none" else fmt.nan_bits,
        PaddingValue.POS_INF: lambda: fmt.inf_bits if fmt.has_inf else fmt.max_finite_bits,
        PaddingValue.NEG_INF: lambda: (
            fmt.sign_bit | (fmt.inf_bits if fmt.has_inf else fmt.max_finite_bits)
        ),
    }[ty.padding]()
    one = from_bits(np.array([bits], np.uint64), element)
    return np.full(tile.dims, one[0], dtype_of(element))


def access_of(op: TileOp, t: Translator) -> tuple[ViewAccess, Storage]:
    """Where the tile of a view access lies."""
    view = op.view  # pyright: ignore[reportAttributeAccessIssue]
    ty = view.type
    assert isinstance(ty, T.TileViewType)
    storage = storage_of(ty.tile_type.element)
    indices: Any = op.index  # pyright: ignore[reportAttributeAccessIssue]
    access = ViewAccess(
        t.machine.memory,
        ty,
        storage,
        t.slot(view),
        t.slots(indices),
        tuple(FORMATS[tile_type(value).element].mask for value in indices),
        bool_values(op.properties.get("inbounds")),
    )
    return access, storage


@implements(views.LoadViewTkoOp, multimem.MultimemLoadReduceViewTkoOp)
def load_view(op: TileOp, t: Translator) -> Step | SwitchPoint:
    """A multimem load reads and reduces one replica: the memory there is."""
    access, storage = access_of(op, t)
    result = t.slot(op.results[0])
    t.preset(op.results[1], TOKEN)
    ty = op.view.type  # pyright: ignore[reportAttributeAccessIssue]
    padding, to_tile = storage.from_tile(padding_tile(ty)), storage.to_tile

    def box(regs: Registers) -> None:
        elements, inside = access.elements(regs)
        if inside is None:
            raw = elements.copy()
        else:
            raw = padding.copy()
            raw[inside] = elements
        regs[result] = to_tile(raw)

    def lanes(regs: Registers) -> None:
        regs[result] = to_tile(access.load_lanes(regs, padding))

    return scheduled(op, box if access.is_box else lanes)


@implements(views.StoreViewTkoOp, multimem.MultimemStoreViewTkoOp)
def store_view(op: TileOp, t: Translator) -> Step | SwitchPoint:
    """A multimem store writes the one replica."""
    access, storage = access_of(op, t)
    tile = t.slot(op.tile)  # pyright: ignore[reportAttributeAccessIssue]
    t.preset(op.results[0], TOKEN)
    from_tile = storage.from_tile

    def box(regs: Registers) -> None:
        elements, inside = access.elements(regs, write=True)
        raw = from_tile(regs[tile])
        elements[...] = raw if inside is None else raw[inside]

    def lanes(regs: Registers) -> None:
        access.store_lanes(regs, from_tile(regs[tile]))

    return scheduled(op, box if access.is_box else lanes)
