"""Kernel parameters that carry tensor maps."""

from __future__ import annotations

from xdsl.dialects import builtin as b
from xdsl.ir import SSAValue

from tilewright.analysis.tileaa.geometry import view_axes
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import int_list
from tilewright.dialects.nv_tileas import pipelines as P
from tilewright.dialects.nvgpu.tensor_maps import SWIZZLE_OF_ROWS
from tilewright.dialects.nvgpu.types import TensorMapDescriptorType
from tilewright.lowering.nvgpu.shared_conversion import in_bytes
from tilewright.lowering.nvgpu.tensor_maps import Argument, Number, TensorMapPlan
from tilewright.lowering.nvgpu.types import SHARED_SPACE, element_bytes, element_type
from tilewright.passes.tileas.tma_boxes import argument_behind, pointer_of


def map_plan(op: P.MakeTiledTmaDescOp) -> TensorMapPlan:
    """The parameter that stands for a descriptor; ``tileas-tma`` has seen to it that all is known before the launch."""
    view = op.base.type
    assert isinstance(view, T.TiledViewType)
    order, box = int_list(op.properties["order"]), int_list(op.properties["box"])
    axes = view_axes(op.base, tuple(view.dims))
    assert axes is not None
    element = element_type(view.element_type)
    assert element is not None
    held = in_bytes(element)
    rows = box[-1] * element_bytes(held)
    ty = TensorMapDescriptorType(
        b.MemRefType(held, list(box), memory_space=SHARED_SPACE),
        SWIZZLE_OF_ROWS.get(rows, "none"),
    )
    pointer = argument_behind(pointer_of(op.base))
    assert pointer is not None and not isinstance(pointer, int)
    extents = tuple(_number(axes[axis].extent) for axis in order)
    strides = tuple(_number(axes[axis].stride) for axis in order)
    return TensorMapPlan(ty, pointer.index, extents, strides)


def _number(given: int | SSAValue | None) -> Number:
    found = given if isinstance(given, int) else argument_behind(given)
    assert found is not None
    return found if isinstance(found, int) else Argument(found.index)
