"""The registers that a block of threads is launched with, which `nvvm.setmaxregister` trades.

A multiprocessor has 65,536 registers. The assembler gives each thread as many as the blocks that must
fit beside each other leave it, warps counted in fours, in steps of 8, and no more than the most that a
trade asks for. What a block has at its launch is all that its warps can ever have together.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from tilewright.dialects.declare import enum_property, int_property
from tilewright.dialects.upstream.nvvm.ops import SetMaxRegisterOp

WARP_SIZE, WARPGROUP_WARPS = 32, 4
_REGISTERS, _MOST, _STEP = 1 << 16, 255, 8
_NO_LIMIT = 1 << 16


@dataclass(frozen=True, slots=True)
class Trade:
    """What an `nvvm.setmaxregister` asks for: so many registers for each thread of its warps."""

    op: Operation
    increases: bool
    count: int


def trade_of(op: Operation) -> Trade | None:
    """The trade that an operation is, if it is one."""
    if not isinstance(op, SetMaxRegisterOp):
        return None
    action = enum_property(op, "action")
    return Trade(op, action == "increase", int_property(op, "regCount"))


def trades_of(kernel: Operation) -> list[Trade]:
    """All trades of a kernel, in the order of its text."""
    return [trade for op in kernel.walk() if (trade := trade_of(op)) is not None]


def warps_of(threads: int) -> int:
    """How many warps hold so many threads, the last one maybe in part."""
    return -(-threads // WARP_SIZE)


def registers_at_launch(kernel: Operation, threads: int) -> int:
    """How many registers each thread of a kernel that trades them has when a block begins.

    `nvvm.maxnreg` says it; else `nvvm.minctasm` blocks, 1 without it, must fit side by side.
    """
    limit = _number(kernel, "nvvm.maxnreg")
    if limit is not None:
        return -(-limit // _STEP) * _STEP
    warps = warps_of(threads) * (_number(kernel, "nvvm.minctasm") or 1)
    warps += -warps % WARPGROUP_WARPS
    share = _REGISTERS // (warps * WARP_SIZE) // _STEP * _STEP
    most = max((trade.count for trade in trades_of(kernel)), default=_NO_LIMIT)
    return min(share, most, _MOST)


def _number(kernel: Operation, name: str) -> int | None:
    found = kernel.attributes.get(name)
    return found.value.data if isinstance(found, IntegerAttr) else None
