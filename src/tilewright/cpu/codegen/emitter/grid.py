"""The grid: where the tile block with a number lies."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tilewright.cpu.codegen.analysis import block_order
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I32, I64
from tilewright.cpu.codegen.ir.types import Builder, Value

BLOCK_TYPE = ir.ArrayType(I32, 3)
"""A block's coordinates in memory."""


def block_coordinates(
    b: Builder,
    grid: tuple[Value, Value, Value],
    linear: Value,
    order: block_order.Order = block_order.ROW_BY_ROW,
    height: Value | None = None,
) -> tuple[Value, Value, Value]:
    """The place in the grid of the block with a number, if blocks are numbered in that order; ``height``: in bands of so
    many blocks along the first axis."""
    first, second = (b.zext(grid[axis], I64) for axis in order[:2])
    if height is None:
        parts = _divided(b, linear, first, second)
    else:
        plane = b.mul(first, second)
        inside, size = b.urem(linear, plane), b.mul(height, second)
        begin = b.mul(b.udiv(inside, size), height)
        here = llvm.intrinsic(b, "umin", [height, b.sub(first, begin)])
        inside = b.urem(inside, size)
        parts = (
            b.add(begin, b.urem(inside, here)),
            b.udiv(inside, here),
            b.udiv(linear, plane),
        )
    x, y, z = (b.trunc(parts[order.index(axis)], I32) for axis in range(3))
    return x, y, z


def _divided(b: Builder, linear: Value, first: Value, second: Value) -> Sequence[Value]:
    """A number along the first axis, the second and the third. Most grids have one axis, where it need not be divided."""
    start, done = b.block, b.append_basic_block("coordinates")
    more = b.append_basic_block("divide")
    b.cbranch(b.icmp_unsigned("<", linear, first), done, more)
    b.position_at_end(more)
    rest = b.udiv(linear, first)
    parts = b.urem(linear, first), b.urem(rest, second), b.udiv(rest, second)
    more = b.block
    b.branch(done)
    b.position_at_end(done)
    zero = ir.Constant(I64, 0)
    return llvm.merge(b, [((linear, zero, zero), start), (parts, more)])
