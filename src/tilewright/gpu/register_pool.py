"""Finds trades of registers (`setmaxnreg`) that a block can never make, before a launch hangs.

`setmaxnreg.inc` waits until the block's pool has the registers: those it was launched with, less those its warps hold.
Which warps make which trade is computed from thread indices, as far as conditions depend on them alone;
elsewhere the trades that request least are assumed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from xdsl.dialects import arith, cf, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue

from tilewright.diagnostics import TileIRError
from tilewright.dialects.nvgpu.registers import (
    WARP_SIZE,
    WARPGROUP_WARPS,
    Trade,
    registers_at_launch,
    trade_of,
    trades_of,
    warps_of,
)
from tilewright.dialects.source_map import location_of
from tilewright.dialects.upstream.gpu.kernels import FuncOp
from tilewright.gpu.codes import REGISTER_POOL
from tilewright.numerics.arrays import Array

_Lanes = Array | None
"""The values of a warp's lanes; None if they are unknown."""


def check_register_pool(kernel: FuncOp, block: tuple[int, ...] | None) -> None:
    """Raises ``TileIRError`` (``gpu-register-pool``) at a ``setmaxnreg`` that can never succeed in a block.

    ``block``: its extents in threads; unknown ones, and what is not certain, are let pass. The rules are those of
    ``setmaxnreg`` in the PTX instruction set: registers come from a pool per block, launched with ``maxnreg`` for
    each thread, and a warpgroup changes its count as a whole.
    """
    trades = trades_of(kernel)
    if block is None or not trades:
        return
    threads = int(np.prod(block))
    warps = warps_of(threads)
    launched = registers_at_launch(kernel, threads)
    made = [_trades_of_warp(kernel, block, number) for number in range(warps)]
    _check_directions(made, launched)
    held = [_held(each, launched) for each in made]
    if sum(held) > launched * warps:
        raise _does_not_fit(kernel, made, held, launched)
    for number, each in enumerate(made):
        first = number // WARPGROUP_WARPS * WARPGROUP_WARPS
        _check_whole(number, each, made[first : first + WARPGROUP_WARPS], threads)


@dataclass(frozen=True, slots=True)
class _Made:
    """A change of the register count that a warp executes; ``certain``, or possibly."""

    trade: Trade
    certain: bool


def _held(made: Sequence[_Made], launched: int) -> int:
    """The registers per thread of a warp after all changes, or the least it may have."""
    count = launched
    for each in made:
        count = each.trade.count if each.certain else min(count, each.trade.count)
    return count


def _check_directions(made: Sequence[Sequence[_Made]], launched: int) -> None:
    for warp, trades in enumerate(made):
        count = launched
        for each in trades:
            if not each.certain:
                break
            trade = each.trade
            if trade.count != count and trade.increases != (trade.count > count):
                word = "increases" if trade.increases else "decreases"
                raise TileIRError.single(
                    REGISTER_POOL,
                    f"this {word} the registers to {trade.count}, but warp {warp} has {count} per "
                    "thread",
                    location_of(trade.op),
                )
            count = trade.count


def _check_whole(
    warp: int, made: Sequence[_Made], group: Sequence[Sequence[_Made]], threads: int
) -> None:
    """Check that all four warps of a warpgroup execute what one certainly executes."""
    certain = [each.trade.op for each in made if each.certain]
    if not certain:
        return
    if len(group) < WARPGROUP_WARPS:
        raise TileIRError.single(
            REGISTER_POOL,
            f"setmaxnreg applies to whole warpgroups, but the {len(group)} last of the "
            f"{warps_of(threads)} warps of the block do not form one",
            location_of(certain[0]),
            help=f"launch blocks of {_rounded(warps_of(threads)) * WARP_SIZE} threads",
        )
    for other in group:
        reached = {each.trade.op for each in other}
        for op in certain:
            if op not in reached:
                raise TileIRError.single(
                    REGISTER_POOL,
                    f"warp {warp} changes its registers here, but not all warps of its warpgroup do",
                    location_of(op),
                    help="branch by the number of the warp divided by 4",
                )


def _rounded(warps: int) -> int:
    return warps + -warps % WARPGROUP_WARPS


def _sum(held: Sequence[int]) -> str:
    """The sum of registers by warps, such as `40 x 4 + 232 x 8`."""
    return " + ".join(f"{count} x {warps}" for count, warps in sorted(Counter(held).items()))


def _does_not_fit(
    kernel: FuncOp, made: Sequence[Sequence[_Made]], held: Sequence[int], launched: int
) -> TileIRError:
    most = max(held)
    culprit = next(
        each.trade.op
        for warp, count in zip(made, held, strict=True)
        for each in warp
        if count == most and each.trade.count == most
    )
    warps = len(held)
    return TileIRError.single(
        REGISTER_POOL,
        f"the block never has that many registers: its {warps} warps are launched with {launched} "
        f"x {warps} = {launched * warps:,}, but they would need {_sum(held)} = {sum(held):,} per "
        "lane; the kernel would deadlock",
        location_of(culprit),
        help="; or ".join(_what_fits(kernel, held, launched)),
    )


def _what_fits(kernel: FuncOp, held: Sequence[int], launched: int) -> Iterator[str]:
    warps = len(held)
    whole = [*held, *[held[-1]] * (-warps % WARPGROUP_WARPS)]
    count = registers_at_launch(kernel, len(whole) * WARP_SIZE)
    if len(whole) != warps and sum(whole) <= count * len(whole):
        yield (
            f"launch {len(whole)} warps, {len(whole) * WARP_SIZE} threads: {_sum(whole)} = "
            f"{sum(whole):,} of {count} x {len(whole)} = {count * len(whole):,}"
        )
    most = max(held)
    greedy = held.count(most)
    fitting = (launched * warps - sum(held) + most * greedy) // greedy // 8 * 8
    if fitting >= launched:
        yield f"increase to at most {fitting}"
    else:
        yield "decrease others further"


# The changes that a warp executes


def _trades_of_warp(kernel: FuncOp, block: Sequence[int], warp: int) -> list[_Made]:
    numbers = _Numbers(tuple([*block, 1, 1][:3]), warp)
    return list(_in_region(kernel.body, numbers, True))


def _in_region(region: Region, numbers: _Numbers, certain: bool) -> Iterator[_Made]:
    """The changes on the path through a region; after an unknown branch, on all paths."""
    seen: set[Block] = set()
    waiting = list(region.blocks)[:1]
    while waiting:
        block = waiting.pop()
        if block in seen:
            continue
        seen.add(block)
        for op in block.ops:
            yield from _in_operation(op, numbers, certain)
        following = _following(block.last_op, numbers)
        certain = certain and len(following) <= 1
        waiting += following


def _following(op: Operation | None, numbers: _Numbers) -> list[Block]:
    if isinstance(op, cf.ConditionalBranchOp):
        known = numbers.common(op.cond)
        if known is not None:
            return [op.then_block if known else op.else_block]
    return list(op.successors) if op is not None else []


def _in_operation(op: Operation, numbers: _Numbers, certain: bool) -> Iterator[_Made]:
    trade = trade_of(op)
    if trade is not None:
        yield _Made(trade, certain)
    elif isinstance(op, scf.IfOp) and (known := numbers.common(op.cond)) is not None:
        yield from _in_region(op.true_region if known else op.false_region, numbers, certain)
    else:
        for region in op.regions:
            yield from _in_region(region, numbers, False)


#: Thread numbers are small and nonnegative, so signed and unsigned operations agree.
_BINARY: Mapping[str, Callable[[Array, Array], Array]] = MappingProxyType(
    {
        "arith.addi": np.add,
        "arith.subi": np.subtract,
        "arith.muli": np.multiply,
        "arith.divui": np.floor_divide,
        "arith.divsi": np.floor_divide,
        "arith.remui": np.remainder,
        "arith.remsi": np.remainder,
        "arith.andi": np.bitwise_and,
        "arith.ori": np.bitwise_or,
        "arith.xori": np.bitwise_xor,
        "arith.shli": np.left_shift,
        "arith.shrui": np.right_shift,
        "arith.shrsi": np.right_shift,
    }
)
_COMPARISONS: tuple[Callable[[Array, Array], Array], ...] = (
    *(np.equal, np.not_equal),
    *(np.less, np.less_equal, np.greater, np.greater_equal) * 2,
)
_CASTS = ("arith.index_cast", "arith.index_castui", "arith.extui", "arith.extsi", "arith.trunci")


@dataclass(slots=True)
class _Numbers:
    """Evaluates values in the lanes of a warp that depend on thread numbers only."""

    block: tuple[int, ...]
    warp: int
    known: dict[SSAValue, _Lanes] = field(default_factory=dict)

    def common(self, value: SSAValue) -> bool | None:
        """A condition that is uniform across the lanes; None if it differs or is unknown."""
        found = self.of(value)
        if found is None or not (found == found[0]).all():
            return None
        return bool(found[0])

    def of(self, value: SSAValue) -> _Lanes:
        if value not in self.known:
            self.known[value] = self._compute(value)
        return self.known[value]

    def _compute(self, value: SSAValue) -> _Lanes:
        if not isinstance(value, OpResult):
            return None
        op = value.op
        if isinstance(op, arith.ConstantOp):
            number = op.value
            return self._all(number.value.data) if isinstance(number, IntegerAttr) else None
        if (place := self._place(op)) is not None:
            return place
        if op.name in _CASTS:
            return self.of(op.operands[0])
        if op.name not in _BINARY and op.name != "arith.cmpi":
            return None
        left, right = (self.of(operand) for operand in op.operands)
        if left is None or right is None or (left < 0).any() or (right < 0).any():
            return None
        if op.name == "arith.cmpi":
            predicate = op.properties["predicate"]
            assert isinstance(predicate, IntegerAttr)
            return _COMPARISONS[predicate.value.data](left, right)
        if not right.any() and op.name.startswith(("arith.div", "arith.rem")):
            return None
        return _BINARY[op.name](left.astype(np.int64), right.astype(np.int64))

    def _all(self, number: int) -> Array:
        return np.full(WARP_SIZE, number, np.int64)

    def _place(self, op: Operation) -> _Lanes:
        """The values of the `gpu` operations that query the position of a thread."""
        linear = np.arange(WARP_SIZE, dtype=np.int64) + WARP_SIZE * self.warp
        x, y, _ = self.block
        axes = (linear % x, linear // x % y, linear // (x * y))
        match op.name:
            case "gpu.thread_id":
                return axes[op.axis]  # pyright: ignore[reportAttributeAccessIssue]
            case "gpu.block_dim":
                return self._all(self.block[op.axis])  # pyright: ignore[reportAttributeAccessIssue]
            case "gpu.subgroup_id":
                return self._all(self.warp)
            case "gpu.lane_id":
                return linear % WARP_SIZE
            case "gpu.subgroup_size":
                return self._all(WARP_SIZE)
            case _:
                return None
