"""Which tiles tensor maps can copy, and as which boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import builtin as b
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from tilewright.analysis.tileaa import Facts
from tilewright.analysis.tileaa.geometry import Extent, cut_by, made_by, view_axes
from tilewright.dialects import arith
from tilewright.dialects.arith.constants import ConstantOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.hints import AssumeOp
from tilewright.dialects.nv_tileas import pipelines as P
from tilewright.layouts.shared import ROW_BYTES, SWIZZLED_ROWS, SharedLayout
from tilewright.passes.tileas.access_layouts import element_bytes

STRIDE_BYTES = 16
#: The shortest row that has a swizzle.
LEAST_ROW_BYTES = 32
#: The smallest tile of short rows for which asking for a box costs less than copying: two chunks of 16 bytes for each of 128 threads.
LEAST_BYTES_OF_SHORT_ROWS = 4096


@dataclass(frozen=True, slots=True)
class Box:
    """How a tile of a view is copied: the axes of its array, the slowest first, and a box along them."""

    order: tuple[int, ...]
    box: tuple[int, ...]

    def shared(self, dims: Sequence[int], element: Attribute) -> SharedLayout:
        """Where the elements of a tile lie that comes by such boxes."""
        return SharedLayout.swizzled(dims, self.order[-1], element_bytes(element))

    def descriptor(self, view: SSAValue) -> P.MakeTiledTmaDescOp:
        """How these boxes of the array of a view are copied."""
        return P.MakeTiledTmaDescOp.create(
            operands=(view,),
            result_types=(P.TMA_DESC,),
            properties={
                "order": b.DenseArrayBase.from_list(b.i64, list(self.order)),
                "box": b.DenseArrayBase.from_list(b.i64, list(self.box)),
            },
        )


def tile_box(facts: Facts, view: SSAValue, dims: Sequence[int], element: Attribute) -> Box | str:
    """The box by which a tile of a view is copied, or why no tensor map can describe it.

    ``dims`` are the tile's extents. Rules are those of ``cuTensorMapEncodeTiled``: 16-byte alignment of addresses and
    strides, 256 elements along an axis of a box, rows up to the swizzle.
    """
    axes = view_axes(view, tuple(dims))
    if axes is None or any(axis.sparse for axis in axes):
        return "its view does not cover whole axes"
    if not P.MOST_AXES >= len(axes) >= 2:
        return f"a tensor map has 2 to {P.MOST_AXES} axes"
    inner = [number for number, axis in enumerate(axes) if axis.stride == 1]
    if not inner:
        return "no axis of its array is known to have stride 1"
    size = element_bytes(element)
    fast = inner[-1]
    others = tuple(axis for axis in range(len(dims)) if axis != fast)
    row = min(dims[fast] * size, ROW_BYTES)
    if row < LEAST_ROW_BYTES:
        return f"its rows of {row} bytes are shorter than {LEAST_ROW_BYTES}"
    if row < ROW_BYTES and prod(dims) * size < LEAST_BYTES_OF_SHORT_ROWS:
        return f"its rows of {row} bytes are short and it has fewer than {LEAST_BYTES_OF_SHORT_ROWS} bytes in all"
    if any(dims[axis] > P.MOST_EXTENT for axis in others):
        return f"a box has at most {P.MOST_EXTENT} elements along an axis"
    if prod(dims[axis] for axis in others) % SWIZZLED_ROWS:
        return f"panels of fewer than {SWIZZLED_ROWS} rows do not start at a multiple of the swizzle pattern"
    if not _is_known_early(pointer_of(view), 0, facts):
        return "the address of its array is computed in the kernel, or not known to be aligned"
    for axis in others:
        if not _is_known_early(axes[axis].stride, size, facts):
            return "a stride is computed in the kernel, or not known to be a multiple of 16 bytes"
    if not all(_is_known_early(axis.extent, None, facts) for axis in axes):
        return "an extent is computed in the kernel"
    box = (*(dims[axis] for axis in others), row // size)
    return Box((*others, fast), box)


def pointer_of(view: SSAValue) -> SSAValue | None:
    """The pointer to the first element of a view's array; None where it is not seen, or the memref has an offset."""
    cutter = cut_by(view)
    maker = None if cutter is None else made_by(cutter.source)
    return None if maker is None or maker.offset is not None else maker.base


def argument_behind(value: SSAValue | None) -> BlockArgument | int | None:
    """The argument of the kernel, or the number, that a value is; None for what is computed."""
    while value is not None and isinstance(owner := value.owner, Operation):
        if isinstance(owner, ConstantOp):
            held = owner.properties["value"]
            return held.value.data if isinstance(held, b.IntegerAttr) else None
        if not isinstance(owner, AssumeOp | arith.IndexConversion):
            return None
        value = owner.operands[0]
    if isinstance(value, BlockArgument) and isinstance(value.owner.parent_op(), FuncOp):
        return value
    return None


def _is_known_early(value: Extent, size: int | None, facts: Facts) -> bool:
    """Whether a number is known before the kernel starts and, with a ``size`` of elements (0: bytes),
    to be a multiple of 16 bytes."""
    if value is None:
        return False
    found = value if isinstance(value, int) else argument_behind(value)
    if found is None or size is None:
        return found is not None
    if isinstance(found, int):
        return found * max(size, 1) % STRIDE_BYTES == 0
    assert isinstance(value, SSAValue)
    return facts.patterns.of(value).divisor * max(size, 1) % STRIDE_BYTES == 0
