"""Conditionals, loops and terminators.

A terminator writes its operands where they are needed, at once, and gives the signal that ends
the blocks around it. Entries end through ``return`` or by running out of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from tilewright.dialects.cuda_tile.ops import control_flow as cf
from tilewright.machine.compile import (
    BREAK,
    CONTINUE,
    RETURN,
    CompiledBlock,
    Coroutine,
    Nested,
    Scope,
    Signal,
    Step,
    Translator,
    implements,
    tile_type,
)
from tilewright.machine.faults import BAD_STEP, INDUCTION_OVERFLOW, Fault
from tilewright.machine.values import Registers
from tilewright.numerics.arrays import dtype_of
from tilewright.numerics.element_types import FORMATS

if TYPE_CHECKING:
    from xdsl.ir import Operation

Copy = Callable[[Registers], None]


def copy_slots(sources: tuple[int, ...], targets: tuple[int, ...]) -> Copy:
    """Copy registers as if all at once: a target may be the source of another copy."""
    if len(sources) == 1:
        (source,), (target,) = sources, targets

        def copy_one(regs: Registers) -> None:
            regs[target] = regs[source]

        return copy_one
    pairs = tuple(zip(sources, targets, strict=True))
    if not set(sources) & set(targets):

        def copy_disjoint(regs: Registers) -> None:
            for source, target in pairs:
                regs[target] = regs[source]

        return copy_disjoint

    def copy_all(regs: Registers) -> None:
        values = [regs[source] for source in sources]
        for target, value in zip(targets, values, strict=True):
            regs[target] = value

    return copy_all


def leave(copy: Copy, signal: Signal) -> Step:
    """A terminator: copies, and gives the signal."""

    def step(regs: Registers) -> Signal:
        copy(regs)
        return signal

    return step


@implements(cf.BreakOp)
def break_(op: cf.BreakOp, t: Translator) -> Step:
    return leave(copy_slots(t.flow(op.operands), t.loops[-1].results), BREAK)


@implements(cf.ContinueOp)
def continue_(op: cf.ContinueOp, t: Translator) -> Step:
    return leave(copy_slots(t.flow(op.operands), t.loops[-1].carried), CONTINUE)


@implements(cf.YieldOp)
def yield_(op: cf.YieldOp, t: Translator) -> Step | None:
    if not op.operands:
        return None
    return leave(copy_slots(t.flow(op.operands), t.yields[-1].results), None)


@implements(cf.ReturnOp)
def return_(op: cf.ReturnOp, t: Translator) -> Step:
    return leave(copy_slots((), ()), RETURN)


@implements(cf.IfOp)
def if_(op: cf.IfOp, t: Translator) -> Step | Nested:
    return if_step(op, t)


def if_step(op: Operation, t: Translator) -> Step | Nested:
    """An operation with a condition, the region for where it holds, and perhaps another one."""
    condition = t.slot(op.operands[0])
    then_region, else_region = op.regions
    t.yields.append(Scope(results=t.flow(op.results)))
    then = t.block(then_region.blocks[0])
    other = t.block(else_region.blocks[0]) if else_region.blocks else None
    t.yields.pop()
    if then.suspends or (other is not None and other.suspends):
        return _suspending_if(condition, then, other)
    run_then, run_else = then.run, _nothing if other is None else other.run

    def step(regs: Registers) -> Signal:
        return run_then(regs) if regs[condition] else run_else(regs)

    return step


def _nothing(regs: Registers) -> None:
    return None


def _suspending_if(condition: int, then: CompiledBlock, other: CompiledBlock | None) -> Nested:
    def start(regs: Registers) -> Coroutine:
        chosen = then if regs[condition] else other
        if chosen is None:
            return None
        if chosen.suspends:
            return (yield from chosen.start(regs))
        return chosen.run(regs)

    return Nested(start)


@implements(cf.ForOp)
def for_(op: cf.ForOp, t: Translator) -> Step | Nested:
    return for_step(op, t, unsigned="unsignedCmp" in op.properties)


def for_step(op: Operation, t: Translator, *, unsigned: bool) -> Step | Nested:
    """A loop whose operands are the lower and upper bound, the step and the carried values."""
    block = op.regions[0].blocks[0]
    variable = t.slot(block.args[0])
    carried = t.flow(block.args[1:])
    enter = copy_slots(t.flow(op.operands[3:]), carried)
    leave = copy_slots(carried, t.flow(op.results))
    values = _induction_values(op, t, unsigned)
    dtype = dtype_of(tile_type(op.operands[0]).element)
    t.loops.append(Scope(carried=carried))
    body = t.block(block)
    t.loops.pop()
    run, start_body = body.run, body.start
    make = np.array

    def step(regs: Registers) -> None:
        numbers = values(regs)
        enter(regs)
        for number in numbers:
            regs[variable] = make(number, dtype)
            run(regs)
        leave(regs)

    def start(regs: Registers) -> Coroutine:
        numbers = values(regs)
        enter(regs)
        for number in numbers:
            regs[variable] = make(number, dtype)
            yield from start_body(regs)
        leave(regs)
        return None

    return Nested(start) if body.suspends else step


def _induction_values(
    op: Operation, t: Translator, unsigned: bool
) -> Callable[[Registers], Iterable[int]]:
    """The numbers that the induction variable takes, as its dtype holds them."""
    lower, upper, step = t.slots(op.operands[:3])
    bits = FORMATS[tile_type(op.operands[0]).element].bits
    mask = (1 << bits) - 1
    highest = mask if unsigned else mask >> 1
    machine = t.machine

    def read(value: np.ndarray) -> int:
        number = int(value.item())
        if unsigned:
            return number & mask
        return -number if bits == 1 else number

    def signless(number: int) -> int:
        return number - mask - 1 if bits > 1 and number > mask >> 1 else number & mask

    def values(regs: Registers) -> Iterable[int]:
        start, stop, stride = read(regs[lower]), read(regs[upper]), read(regs[step])
        if stride <= 0:
            raise Fault(BAD_STEP, f"the step of the loop is {stride}; it must be positive")
        machine.check_iterations(-(-(stop - start) // stride))
        numbers = range(start, stop, stride)
        if numbers and numbers[-1] + stride > highest:
            raise Fault(
                INDUCTION_OVERFLOW,
                f"the value after {numbers[-1]} is {numbers[-1] + stride}, above {highest}, the "
                f"largest number of the type, before it reaches the upper bound {stop}",
            )
        # The signed reading is the one that the dtype holds; i1 has a signed reading of its own.
        if unsigned or bits == 1:
            return [signless(number) for number in numbers]
        return numbers

    return values


@implements(cf.LoopOp)
def loop(op: cf.LoopOp, t: Translator) -> Step | Nested:
    block = op.body.blocks[0]
    carried = t.flow(block.args)
    enter = copy_slots(t.flow(op.initValues), carried)
    machine = t.machine
    t.loops.append(Scope(results=t.flow(op.results), carried=carried))
    body = t.block(block)
    t.loops.pop()
    run, start_body = body.run, body.start

    def step(regs: Registers) -> Signal:
        enter(regs)
        for _ in range(machine.max_iterations):
            signal = run(regs)
            if signal == BREAK:
                return None
            if signal == RETURN:
                return RETURN
        raise machine.endless_loop()

    def start(regs: Registers) -> Coroutine:
        enter(regs)
        for _ in range(machine.max_iterations):
            signal = yield from start_body(regs)
            if signal == BREAK:
                return None
            if signal == RETURN:
                return RETURN
        raise machine.endless_loop()

    return Nested(start) if body.suspends else step
