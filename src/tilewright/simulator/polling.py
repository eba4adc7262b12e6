"""Polling loops: iterations in which a warp reads global memory and nothing changes there.

A warp in such a loop yields, so that others, and other blocks, reach what it waits for. Loops that compute without
changing memory look alike for a while; they yield now and then, which does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tilewright.simulator.state import Asked, Polls, Warp

#: The iterations without a change of memory after which a loop yields, if its iterations differ.
_PATIENCE = 256


@dataclass(slots=True)
class Turns:
    """The iterations of a warp since memory last changed."""

    version: int
    spins: int
    count: int = 0
    asked: Asked | None = None
    values: list[Any] = field(default_factory=list)


def begin_loop(warp: Warp, op: Operation) -> None:
    """Note that the warp enters the loop."""
    warp.block.loops.pop((op, warp.index), None)


def next_iteration(warp: Warp, op: Operation, carried: Sequence[int]) -> Polls | None:
    """What the warp yields before an iteration of the loop; None to continue.

    ``carried`` are the slots of the loop-carried values.
    """
    launch = warp.launch
    if launch.recorder is not None:
        return None
    seen = warp.block.loops.get((op, warp.index))
    if seen is None:
        warp.block.loops[op, warp.index] = Turns(launch.version, warp.spins)
        return None
    if seen.version != launch.version or seen.spins != warp.spins:
        # Memory has changed, or the loop polls an mbarrier, which the cluster's schedule handles.
        seen.version, seen.spins, seen.count = launch.version, warp.spins, 0
        return None
    seen.count += 1
    asked, last = _asked(warp), seen.asked
    values = [warp.regs[slot] for slot in carried]
    is_same = seen.count > 1 and _is_same_read(last, asked) and _are_same(values, seen.values)
    seen.asked, seen.values = asked, values
    if is_same or seen.count % _PATIENCE == 0:
        return Polls(op, asked, is_same)
    return None


def _asked(warp: Warp) -> Asked | None:
    if warp.asked is not None:
        return warp.asked
    return next((m.asked for m in warp.members if m.asked is not None), None)


def _is_same_read(last: Asked | None, now: Asked | None) -> bool:
    """Whether an iteration has repeated the read of the previous one, with the same result."""
    if last is None or now is None or last is now:
        return False
    return last[0] is now[0] and _are_same(now[1:], last[1:])


def _are_same(values: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(values) == len(others) and all(map(_is_same, values, others))


def _is_same(value: Any, other: Any) -> bool:
    if value is other:
        return True
    if isinstance(value, np.ndarray | np.generic) and isinstance(other, np.ndarray | np.generic):
        if value.dtype != other.dtype or value.shape != other.shape:
            return False
        return value.tobytes() == other.tobytes()
    return isinstance(value, int) and type(value) is type(other) and value == other
