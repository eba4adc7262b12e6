"""The layouts in which operations take their operands, and the shared-memory layouts of product operands."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import Operation

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import int_list
from tilewright.layouts import Layout, SharedLayout
from tilewright.layouts.conversions import WIDEST, shared_between, waves_of
from tilewright.layouts.layout import axis_bits
from tilewright.passes.tileas import tile_ops
from tilewright.passes.tileas.tile_ops import is_tile


def operand_storage(
    layout: Layout, dims: Sequence[int], inner: int, element_bytes: int
) -> SharedLayout:
    """Where an operand lies in shared memory, with neighbours along ``inner``, that threads write in a layout
    and ``ldmatrix`` reads: swizzled as hardware does it, unless writing has bank conflicts then and
    another swizzle has none."""
    found = SharedLayout.swizzled(dims, inner, element_bytes)
    if waves_of(layout, found, element_bytes) == 1:
        return found
    axes = axis_bits(dims)
    along = [1 << bit for bit in axes[inner]]
    other = len(dims) - 1 if inner != len(dims) - 1 else len(dims) - 2
    rows = [1 << bit for bit in axes[other]][:3]
    chunk = along[: (WIDEST // element_bytes).bit_length() - 1]
    if len(rows) < 3 or len(chunk) < (WIDEST // element_bytes).bit_length() - 1:
        return found
    rest = [1 << bit for bit in range(layout.bits) if 1 << bit not in (*chunk, *rows)]
    matrix = Layout(layout.size, tuple(chunk + rest), (*rows, 0, 0), (0,) * len(layout.warp))
    solved = shared_between(layout, matrix, element_bytes, chunk)
    better = waves_of(layout, solved, element_bytes) == 1
    return solved if better and solved.waves(matrix, 1 << len(chunk), element_bytes) == 1 else found


def fastest_axis(layout: Layout, dims: Sequence[int]) -> int:
    """The axis along which threads hold most neighbours, or else the next thread holds the next one; the
    last one of those."""
    ranges = axis_bits(dims)
    return max(
        range(len(dims)),
        key=lambda axis: (
            layout.run(dims, axis),
            len(ranges[axis]) > 0 and layout.lane[0] == 1 << ranges[axis].start,
            axis,
        ),
    )


def operand_layouts(op: Operation, layout: Layout) -> dict[int, Layout]:
    """The layouts of operands, by position, with which an operation gives its result in one: broadcasts, permutations,
    and what keeps elements at their places."""
    if op.name == tile_ops.BROADCAST:
        source = op.operands[0]
        if not is_tile(source):
            return {}
        return {0: spread_from(layout, T.dims_of(source.type), T.dims_of(op.results[0].type))}
    if op.name == tile_ops.PERMUTE:
        dims = T.dims_of(op.operands[0].type)
        order = int_list(op.properties["permutation"])
        inverse = [order.index(axis) for axis in range(len(order))]
        return {0: layout.permuted([dims[axis] for axis in order], inverse)}
    return {n: layout for n, operand in enumerate(op.operands) if is_tile(operand)}


def spread_from(layout: Layout, given: Sequence[int], wanted: Sequence[int]) -> Layout:
    """The layout of a tile of extents ``given`` whose broadcast to ``wanted`` is in ``layout``: each
    thread has what it repeats."""
    below = 0
    bit_to: dict[int, int | None] = {}
    for axis, bits in reversed(list(enumerate(axis_bits(wanted)))):
        for bit in bits:
            bit_to[bit] = None if given[axis] == 1 else below
            below += given[axis] != 1
    size = prod(given)
    return layout.mapped(size, [bit_to[bit] for bit in range(layout.bits)]).without_copies()
