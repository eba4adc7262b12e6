"""``tileas-limit-residency``: limit the blocks per multiprocessor so that data which a kernel reads twice stays in L2.

A kernel that passes over a row twice, such as softmax or a norm of long rows, reads from DRAM whatever L2 has evicted
before the second pass. Each resident block occupies one row's worth of L2. A few blocks saturate memory; more only evict
one another's rows. The pass makes a block reserve enough shared memory that no more blocks fit than memory needs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar, TypeVar

from xdsl.dialects import builtin as b
from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from tilewright.analysis.tileaa.equality import same_value
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.attributes import KernelSpecAttr
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.memory import Load, Store
from tilewright.dialects.nv_tileaa.ops.shapes import BlockTileOp
from tilewright.dialects.nv_tileas.storage import SHARED_BYTES
from tilewright.dialects.syntax.engine import values_of
from tilewright.model.choices import blocks_for_rereads, bytes_that_leave, gpu_of
from tilewright.model.tables import Gpu
from tilewright.passes.tileas import tile_ops
from tilewright.passes.tileas.access_layouts import element_bytes
from tilewright.passes.tileas.element_work import element_work
from tilewright.passes.tileas.function_pass import FunctionPass
from tilewright.passes.tileas.remarks import Remarks
from tilewright.passes.tileas.target import Target
from tilewright.passes.tileas.warp_counts import DEFAULT_WARPS, block_warps

_KIND = "residency"
_Kind = TypeVar("_Kind", Load, Store)
_OTHER_WORK = frozenset((tile_ops.DOT, tile_ops.SCAN)) | tile_ops.ATOMICS


@dataclass(frozen=True)
class LimitResidency(FunctionPass):
    """Limits the blocks per multiprocessor if a kernel rereads data that L2 would otherwise evict.

    ``num_warps``: the warps of a block of kernels without a hint. ``target``: the architecture whose table decides.
    """

    name: ClassVar[str] = "tileas-limit-residency"

    num_warps: int = DEFAULT_WARPS
    target: str = "sm_80"

    def rewrite_function(self, func: FuncOp) -> None:
        limit_residency(func, block_warps(func, self.num_warps), Target(self.target))


def limit_residency(
    func: FuncOp,
    warps: int,
    target: Target,
    remarks: Remarks | None = None,
    decided: int | None = None,
) -> None:
    """Let a block of a kernel take more shared memory than it needs, where few blocks on a multiprocessor suffice.

    The rule is ``model.choices.blocks_for_rereads``. ``decided``: so many blocks, 0 for as many as fit.
    """
    remarks = Remarks() if remarks is None else remarks
    gpu = gpu_of(target.compute)
    if gpu is None or decided == 0:
        return
    blocks, why = decided, "as requested"
    if blocks is None:
        blocks = _enough(func, gpu)
        why = "its loops reread data, which then stays in L2"
    if blocks is None:
        return
    blocks = max(blocks, blocks_wanted(func))
    size = bytes_that_leave(gpu, blocks)
    if blocks * warps >= gpu["warps"] or blocks >= gpu["blocks"] or size > target.shared_bytes:
        return
    func.attributes[SHARED_BYTES] = b.IntegerAttr(size, b.i64)
    remarks.add(_KIND, f"at most {blocks} blocks per multiprocessor: {why}", func, blocks=blocks)


def blocks_wanted(func: FuncOp) -> int:
    """The blocks that the author wants on a multiprocessor at least (the hint ``occupancy``), 1 or more."""
    spec = func.properties.get("kernel_spec")
    return max(spec.integer("occupancy"), 1) if isinstance(spec, KernelSpecAttr) else 1


def _enough(func: FuncOp, gpu: Gpu) -> int | None:
    """The blocks that are enough for loops that read again what others have read; None where there are no such loops, or
    others need more."""
    loops = [op for op in func.walk() if isinstance(op, scf.ForOp)]
    again = {
        loop
        for one, other in combinations(loops, 2)
        if one.parent is other.parent and _reads_again(one, other)
        for loop in (one, other)
    }
    if not again:
        return None
    inner = [loop for loop in loops if not any(_is_inside(other, loop) for other in loops)]
    found = [_asked(loop, gpu) if loop in again else None for loop in inner]
    known = [blocks for blocks in found if blocks is not None]
    return max(known) if len(known) == len(found) else None


def _asked(loop: scf.ForOp, gpu: Gpu) -> int | None:
    """The blocks that are enough for a loop; None where that is not known, or it has much to compute."""
    if any(isinstance(op, scf.WhileOp) for op in loop.walk()):
        return None
    loaded = sum(map(_tile_bytes, _accesses(loop, Load)))
    stored = sum(map(_tile_bytes, _accesses(loop, Store)))
    return blocks_for_rereads(gpu, loaded, stored, _operations(loop))


def _is_inside(op: Operation, outer: Operation) -> bool:
    while (parent := op.parent_op()) is not None:
        if parent is outer:
            return True
        op = parent
    return False


def _accesses(loop: scf.ForOp, kind: type[_Kind]) -> Iterator[_Kind]:
    """The loads, or stores, of tiles in a loop."""
    for op in loop.body.block.ops:
        if isinstance(op, kind) and tile_ops.is_tile(op.moved):
            yield op


def _tile_bytes(op: Access) -> int:
    return math.prod(T.dims_of(op.moved.type)) * element_bytes(op.moved.type)


def _operations(loop: scf.ForOp) -> float:
    """What a turn does for the elements of its tiles; infinite where that is no element-wise work."""
    ops = list(loop.body.block.ops)
    for op in ops:
        tiles = tile_ops.tiles_of((*op.operands, *op.results))
        is_double = any(T.element_name(T.element_of(tile.type)) == "f64" for tile in tiles)
        if tiles and not isinstance(op, Load | Store) and (is_double or op.name in _OTHER_WORK):
            return math.inf
    return element_work(ops)


def _reads_again(one: scf.ForOp, other: scf.ForOp) -> bool:
    """Whether a loop loads what another one has loaded, in the same or another turn."""
    if not same_value(one.step, other.step):
        return False
    pairs: dict[SSAValue, SSAValue] = {one.body.block.args[0]: other.body.block.args[0]}
    return any(
        _same_memory(first, second, pairs)
        for first in _accesses(one, Load)
        for second in _accesses(other, Load)
    )


def _same_memory(one: Load, other: Load, pairs: dict[SSAValue, SSAValue]) -> bool:
    if one.name != other.name or one.moved.type != other.moved.type:
        return False
    first, second = (_address(op) for op in (one, other))
    return len(first) == len(second) and all(
        same_value(x, y, pairs=pairs) for x, y in zip(first, second, strict=True)
    )


def _address(load: Load) -> list[SSAValue]:
    """What says where a tile lies: through a view, without what is read behind its end."""
    (base,) = values_of(load, "base")
    places = [value for value in load.operands if isinstance(value.type, b.IndexType)]
    owner = base.owner
    return [owner.source if isinstance(owner, BlockTileOp) else base, *places]
