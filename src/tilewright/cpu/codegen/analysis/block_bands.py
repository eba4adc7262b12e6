"""Chooses bands of tile blocks, so that both operands of a product stay in the second cache.

Consecutive blocks share the right operand of a product (``block_order``). Along the axis that they run, each one
reads another left operand, all of which come again for the next right one: by then they have left the cache. So a thread
runs bands of as many blocks along that axis as have their left operands there, and all right operands for one band.

That is for registers with two axes (AMX), which wait for operands. Kernels of vectors do not: they ask for the left operand
before its turn, and gain from a right one that stays where it is.

How many blocks that are depends on how often loops go round, and is computed by the code once for each call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from tilewright.cpu.codegen.analysis import block_order
from tilewright.cpu.codegen.analysis.block_order import Order
from tilewright.cpu.codegen.products.accumulation import accumulation_kernel_of
from tilewright.cpu.target import CpuTarget
from tilewright.dialects.arith import ArithOp
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.dialects.nv_tileaa.ops.hints import AssumeOp
from tilewright.dialects.nv_tileaa.ops.pointers import MakeMemrefOp
from tilewright.dialects.nv_tileaa.ops.shapes import BlockTileOp, GetDimSizeOp

#: Operations that give the same in all blocks of a launch, if their operands are the same.
_ADDRESSING = (MakeMemrefOp, BlockTileOp, GetDimSizeOp, AssumeOp)


@dataclass(frozen=True, slots=True)
class Strip:
    """What a block reads of the operands of one product: the bytes of its tiles, and the ranges (first, bound, step)
    of the loops that it goes through for them."""

    left: int
    right: int
    ranges: tuple[tuple[SSAValue, SSAValue, SSAValue], ...]


def find_bands(ops: Sequence[Operation], order: Order, target: CpuTarget) -> tuple[Strip, ...]:
    """What decides on the height of bands of blocks in that order; nothing where there are to be none.

    There are none where a program can observe the order of its blocks.
    """
    products = [op for op in ops if isinstance(op, DotOp)]
    if not products or not all(_in_tiles(op, target) for op in products):
        return ()
    if block_order.is_observed(ops):
        return ()
    fastest, second, _ = order
    strips: list[Strip] = []
    for op, (left, right) in zip(products, block_order.moves_of_products(ops), strict=True):
        if (fastest in left, fastest in right) != (True, False):
            return ()
        if (second in left, second in right) != (False, True):
            return ()
        ranges = _ranges(op)
        if ranges is None:
            return ()
        strips.append(Strip(*_bytes(op, target), ranges))
    return tuple(strips)


def _in_tiles(op: DotOp, target: CpuTarget) -> bool:
    """Whether a product is made in registers with two axes."""
    (m, k), n = T.dims_of(op.a.type)[-2:], T.dims_of(op.b.type)[-1]
    return accumulation_kernel_of(target, op).in_tiles(target, m, n, k)


def _ranges(op: Operation) -> tuple[tuple[SSAValue, SSAValue, SSAValue], ...] | None:
    """Those of the loops around an operation; None where one is not the same in all blocks."""
    found: list[tuple[SSAValue, SSAValue, SSAValue]] = []
    parent = op.parent_op()
    while parent is not None and parent.parent_op() is not None:
        if isinstance(parent, scf.ForOp):
            bounds = (parent.lb, parent.ub, parent.step)
            if not all(_is_same(value, set()) for value in bounds):
                return None
            found.append(bounds)
        elif isinstance(parent, scf.WhileOp):
            return None
        parent = parent.parent_op()
    return tuple(found)


def _is_same(value: SSAValue, seen: set[SSAValue]) -> bool:
    """Whether a scalar can be computed before the first block, for all of them."""
    if value in seen:
        return True
    seen.add(value)
    owner = value.owner
    if isinstance(owner, Block):
        around = owner.parent_op()
        return around is not None and not isinstance(around, scf.ForOp | scf.WhileOp)
    pure = isinstance(owner, (ArithOp, *_ADDRESSING))
    tiles = any(isinstance(result.type, T.TileType) for result in owner.results)
    return pure and not tiles and all(_is_same(operand, seen) for operand in owner.operands)


def _bytes(op: DotOp, target: CpuTarget) -> tuple[int, int]:
    """The bytes of the tiles of both operands of a product, in the form that they are read in."""
    (m, k), n = T.dims_of(op.a.type)[-2:], T.dims_of(op.b.type)[-1]
    accumulation = accumulation_kernel_of(target, op)
    return m * accumulation.left_bytes(k), k * n * accumulation.panel.buffer_bytes
