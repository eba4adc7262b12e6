"""Conditionals, loops and terminators.

A terminator writes its operands directly to their target slots, and returns the signal that ends
the enclosing blocks. Entries end through ``return`` or after their last step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from xdsl.ir import Operation

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
from tilewright.machine.fused_blocks import Inline, called, inline
from tilewright.machine.values import Registers
from tilewright.numerics.arrays import Array, dtype_of
from tilewright.numerics.element_types import FORMATS

# Loops of at most this many iterations cache the tiles of their induction variable.
_MAX_KEPT_NUMBERS = 1 << 12


def copy_slots(sources: tuple[int, ...], targets: tuple[int, ...], signal: Signal = None) -> Inline:
    """Copies registers in parallel (a target may be the source of another copy), then returns the
    signal."""
    assert len(sources) == len(targets)
    to, from_ = (", ".join([f"regs[{slot}]" for slot in slots]) for slots in (targets, sources))
    return inline(f"{to} = {from_}" if sources else "", signal)


@implements(cf.BreakOp)
def _break(op: cf.BreakOp, t: Translator) -> Step:
    return copy_slots(t.flow(op.operands), t.loops[-1].results, BREAK)


@implements(cf.ContinueOp)
def _continue(op: cf.ContinueOp, t: Translator) -> Step:
    return copy_slots(t.flow(op.operands), t.loops[-1].carried, CONTINUE)


@implements(cf.YieldOp)
def give_results(op: Operation, t: Translator) -> Step | None:
    """The end of a region or function: its operands are the results of what is around it. None if it has none."""
    if not op.operands:
        return None
    return copy_slots(t.flow(op.operands), t.yields[-1].results)


@implements(cf.ReturnOp)
def _return(op: cf.ReturnOp, t: Translator) -> Step:
    return copy_slots((), (), RETURN)


@implements(cf.IfOp)
def _if(op: cf.IfOp, t: Translator) -> Step | Nested:
    return if_step(op, t)


def if_step(op: Operation, t: Translator) -> Step | Nested:
    """Return the step of an operation with a condition, a then region, and optionally an else region."""
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


def for_step(op: Operation, t: Translator, *, unsigned: bool) -> Step | Nested:
    """Return the step of a loop with operands lower bound, upper bound, step, and loop-carried values."""
    block = op.regions[0].blocks[0]
    variable = t.slot(block.args[0])
    carried = t.flow(block.args[1:])
    enter = called(copy_slots(t.flow(op.operands[3:]), carried))
    leave = called(copy_slots(carried, t.flow(op.results)))
    tiles = _induction_tiles(op, t, unsigned)
    t.loops.append(Scope(carried=carried))
    body = t.block(block)
    t.loops.pop()
    run, start_body, iterations = body.run, body.start, t.machine.iterations

    def step(regs: Registers) -> None:
        numbers = iterations(tiles(regs))
        enter(regs)
        for regs[variable] in numbers:
            run(regs)
        leave(regs)

    def start(regs: Registers) -> Coroutine:
        numbers = iterations(tiles(regs))
        enter(regs)
        for regs[variable] in numbers:
            yield from start_body(regs)
        leave(regs)
        return None

    return Nested(start) if body.suspends else step


def _induction_tiles(
    op: Operation, t: Translator, unsigned: bool
) -> Callable[[Registers], Iterable[Array]]:
    """Return the tiles of the induction variable, cached for when the loop runs again."""
    values = induction_values(op, t, unsigned)
    dtype = dtype_of(tile_type(op.operands[0]).element)
    latest, tiles = range(0), list[Array]()

    def numbers(regs: Registers) -> Iterable[Array]:
        nonlocal latest, tiles
        found, read = values(regs)
        made = (np.array(read(number), dtype) for number in found)
        if len(found) > _MAX_KEPT_NUMBERS:
            return made
        if found != latest:
            latest, tiles = found, list(made)
        return tiles

    return numbers


def induction_values(
    op: Operation, t: Translator, unsigned: bool
) -> Callable[[Registers], tuple[range, Callable[[int], int]]]:
    """Return the values of the induction variable, and a function that converts one to its dtype."""
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

    # The dtype holds the signed reading; i1 has a signed reading of its own.
    held = signless if unsigned or bits == 1 else int

    def values(regs: Registers) -> tuple[range, Callable[[int], int]]:
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
        return numbers, held

    return values


@implements(cf.LoopOp)
def _loop(op: cf.LoopOp, t: Translator) -> Step | Nested:
    block = op.body.blocks[0]
    carried = t.flow(block.args)
    enter = called(copy_slots(t.flow(op.initValues), carried))
    machine = t.machine
    t.loops.append(Scope(results=t.flow(op.results), carried=carried))
    body = t.block(block)
    t.loops.pop()
    run, start_body = body.run, body.start

    def step(regs: Registers) -> Signal:
        enter(regs)
        for _ in machine.iterations(range(machine.max_iterations)):
            signal = run(regs)
            if signal == BREAK:
                return None
            if signal == RETURN:
                return RETURN
        raise machine.endless_loop()

    def start(regs: Registers) -> Coroutine:
        enter(regs)
        for _ in machine.iterations(range(machine.max_iterations)):
            signal = yield from start_body(regs)
            if signal == BREAK:
                return None
            if signal == RETURN:
                return RETURN
        raise machine.endless_loop()

    return Nested(start) if body.suspends else step
