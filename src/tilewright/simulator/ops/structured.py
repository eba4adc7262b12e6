"""``scf.parallel``, ``scf.index_switch`` and ``memref.alloca_scope``, under lane masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import Operation, Region

from tilewright.numerics.arrays import Array
from tilewright.simulator import codes
from tilewright.simulator.compile import Code, Suspending, Translator, implements
from tilewright.simulator.faults import Fault
from tilewright.simulator.ops.control import assign, run_code
from tilewright.simulator.state import Coroutine, Warp
from tilewright.simulator.values import lanes

_INDEX = np.dtype(np.int64)


def _side(region: Region, t: Translator) -> tuple[Code, tuple[int, ...]]:
    """The code of a region of one block, and the slots of what its terminator yields."""
    code = t.block(region.blocks[0])
    return code, t.slots(code.end.operands) if code.end is not None else ()


@implements("memref.alloca_scope")
def _alloca_scope(op: Any, t: Translator) -> Suspending:
    """Runs its region once. Its allocations are not referenced afterwards."""
    code, given = _side(op.regions[0], t)
    results = t.slots(op.results)

    def start(warp: Warp) -> Coroutine:
        yield from run_code(code, warp)
        assign(warp, results, given, None)

    return Suspending(start)


@implements("scf.index_switch")
def _index_switch(op: Any, t: Translator) -> Suspending:
    """Runs the region of each lane's case, or the default region."""
    value, results = t.slot(op.arg), t.slots(op.results)
    numbers = [int(n) for n in op.cases.get_values()]
    sides = [_side(region, t) for region in op.case_regions]
    default = _side(op.default_region, t)

    def start(warp: Warp) -> Coroutine:
        given = warp.regs[value]
        if type(given) is int:
            code, found = sides[numbers.index(given)] if given in numbers else default
            yield from run_code(code, warp)
            assign(warp, results, found, None)
            return
        whole = rest = warp.mask
        for slot in results:
            warp.regs[slot] = None
        for number, side in (*zip(numbers, sides), (None, default)):
            mask = rest if number is None else rest & (given == number)
            if mask.any():
                rest = rest & ~mask
                warp.set_mask(mask)
                yield from run_code(side[0], warp)
                assign(warp, results, side[1], mask)
        warp.set_mask(whole)

    return Suspending(start)


@dataclass(frozen=True, slots=True)
class _Reduction:
    """The reduction of one result: slots of the new value, of the arguments of the body, of what it yields, and of the
    result.
    """

    given: int
    left: int
    right: int
    code: Code
    outcome: int
    result: int


@implements("scf.parallel")
def _parallel(op: Any, t: Translator) -> Suspending:
    """Each lane runs all iterations, the last dimension fastest."""
    block = op.body.blocks[0]
    variables, inits = t.slots(block.args), t.slots(op.initVals)
    bounds = list(zip(t.slots(op.lowerBound), t.slots(op.upperBound), t.slots(op.step)))
    code = t.block(block)
    reductions = _reductions(op, code.end, t)

    def start(warp: Warp) -> Coroutine:
        assign(warp, tuple(r.result for r in reductions), inits, None)
        yield from loop(warp, 0)

    def loop(warp: Warp, axis: int) -> Coroutine:
        if axis == len(bounds):
            yield from run_code(code, warp)
            for reduction in reductions:
                yield from _combine(warp, reduction)
            return
        whole = warp.mask
        index, end, step = (lanes(warp.regs[slot], _INDEX) for slot in bounds[axis])
        if (step[whole] <= 0).any():
            raise Fault(codes.UNDEFINED, f"a step of {op.name} is not positive", op)
        while (mask := whole & (index < end)).any():
            warp.count_step(op)
            warp.set_mask(mask)
            warp.regs[variables[axis]] = _number(index)
            yield from loop(warp, axis + 1)
            index = index + step
        warp.set_mask(whole)

    return Suspending(start)


def _number(index: Array) -> Any:
    return int(index[0]) if (index == index[0]).all() else index


def _reductions(op: Any, end: Operation | None, t: Translator) -> list[_Reduction]:
    if end is None:
        return []
    regions, given = end.regions, t.slots(end.operands)
    found: list[_Reduction] = []
    for region, slot, result in zip(regions, given, t.slots(op.results)):
        left, right = t.slots(region.blocks[0].args)
        code, outcome = _side(region, t)
        found.append(_Reduction(slot, left, right, code, outcome[0], result))
    return found


def _combine(warp: Warp, reduction: _Reduction) -> Coroutine:
    """The accumulated value is the first argument, as in a loop that carries it."""
    slots = (reduction.result, reduction.given)
    assign(warp, (reduction.left, reduction.right), slots, None)
    yield from run_code(reduction.code, warp)
    assign(warp, (reduction.result,), (reduction.outcome,), warp.mask)
