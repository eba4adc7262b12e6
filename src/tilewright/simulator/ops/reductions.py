"""``gpu.all_reduce``: reduces the values of a block, within warps first."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tilewright.numerics.arrays import Array
from tilewright.simulator.compile import Suspending, Translator, implements
from tilewright.simulator.ops.barriers import BarrierWait, come_to, together
from tilewright.simulator.ops.control import run_code
from tilewright.simulator.ops.elementwise import collapse, is_integer_scalar
from tilewright.simulator.ops.vectors import combine
from tilewright.simulator.state import (
    WARP_SIZE,
    Coroutine,
    FallApart,
    GiveWay,
    Polls,
    Wait,
    Warp,
)
from tilewright.simulator.values import element_of, lanes

_STEPS = (16, 8, 4, 2, 1)
_Combined = Generator["Wait | FallApart | Polls | GiveWay | None", None, "Array"]
#: Combines two arrays of lanes.
_Combine = Callable[[Warp, "Array", "Array"], _Combined]


@dataclass(frozen=True, slots=True)
class _Key:
    """Identifies one execution of a reduction in ``Block.brought``."""

    op: Operation
    generation: int


@implements("gpu.all_reduce")
def _all_reduce(op: Any, t: Translator) -> Suspending:
    """Reduces within each warp (lane i with lane i + 16, then 8, 4, 2, 1), then over the warps in ascending order.

    All warps wait at the barrier of the block before they read the others' results, and again after.
    """
    value, result = t.slot(op.value), t.slot(op.results[0])
    ty, element = op.results[0].type, element_of(op.results[0].type)
    both = (
        _by_body(op, t) if op.body.blocks else _by_kind(op.properties["op"].keyword, element.name)
    )

    def start(warp: Warp) -> Coroutine:
        together(warp, op)
        block = warp.block
        key = _Key(op, block.barrier(0).generation)
        own = yield from _of_warp(warp, lanes(warp.regs[value], element.dtype), both)
        block.brought.setdefault(key, {})[warp.index] = own
        yield _at_barrier(warp, op)
        brought = block.brought[key]
        total, *rest = (np.repeat(brought[w][:1], WARP_SIZE, axis=0) for w in sorted(brought))
        for other in rest:
            total = yield from both(warp, total, other)
        yield _at_barrier(warp, op)
        block.brought.pop(key, None)
        warp.regs[result] = collapse(total, element) if is_integer_scalar(ty) else total

    return Suspending(start)


def _at_barrier(warp: Warp, op: Operation) -> BarrierWait:
    barrier = warp.block.barrier(0)
    wait = BarrierWait(op, warp.block, barrier, barrier.generation)
    come_to(warp, barrier, None, op)
    return wait


def _of_warp(warp: Warp, array: Array, both: _Combine) -> _Combined:
    """Reduce the values of existing lanes into the first lane."""
    present = int(warp.exists.sum())
    lane = np.arange(WARP_SIZE)
    for step in _STEPS:
        found = yield from both(warp, array, np.roll(array, -step, axis=0))
        takes = (lane + step < present).reshape(WARP_SIZE, *(1,) * (array.ndim - 1))
        array = np.where(takes, found, array)
    return array


def _by_kind(kind: str, name: str) -> _Combine:
    def both(warp: Warp, left: Array, right: Array) -> _Combined:
        return combine(kind, left, right, name)
        yield

    return both


def _by_body(op: Any, t: Translator) -> _Combine:
    block = op.body.blocks[0]
    left_slot, right_slot = t.slots(block.args)
    code = t.block(block)
    assert code.end is not None
    (outcome,) = t.slots(code.end.operands)
    dtype = element_of(op.results[0].type).dtype

    def both(warp: Warp, left: Array, right: Array) -> _Combined:
        warp.regs[left_slot], warp.regs[right_slot] = left, right
        yield from run_code(code, warp)
        return lanes(warp.regs[outcome], dtype)

    return both
