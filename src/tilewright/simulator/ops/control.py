"""Control flow: ``scf`` by lane masks, ``cf`` with reconvergence, calls, assertions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import Operation, Region, SSAValue

from tilewright.dialects.upstream.gpu.kernels import FuncOp
from tilewright.numerics.arrays import Array
from tilewright.simulator import codes
from tilewright.simulator.compile import (
    Code,
    Nested,
    Step,
    Suspending,
    Translator,
    implements,
)
from tilewright.simulator.faults import Fault
from tilewright.simulator.flow import order_of
from tilewright.simulator.polling import begin_loop, next_iteration
from tilewright.simulator.state import FALL_APART, WARP_SIZE, Coroutine, Warp
from tilewright.simulator.values import lanes, merge


def run_code(code: Code, warp: Warp) -> Coroutine:
    """Run the operations of a block as a coroutine, whether they may wait or not."""
    if code.suspends:
        yield from code.start(warp)
    else:
        code.run(warp)


def assign(
    warp: Warp, targets: tuple[int, ...], sources: tuple[int, ...], mask: Array | None
) -> None:
    """Copy values between slots in parallel, for the lanes of a mask or for all.

    Raises ``Fault`` for values that cannot differ between lanes, see ``merge``.
    """
    regs = warp.regs
    values = [regs[source] for source in sources]
    for target, value in zip(targets, values):
        regs[target] = value if mask is None else merge(mask, value, regs[target])


_Side = tuple[Code, tuple[int, ...]]


@implements("scf.if")
def _if(op: Any, t: Translator) -> Suspending | Nested:
    """Runs the branch of each lane: first the lanes whose condition is true, then the others.

    An ``scf.if`` that cannot wait runs without a coroutine.
    """
    condition, results = t.slot(op.cond), t.slots(op.results)
    sides: list[_Side | None] = []
    for region in (op.true_region, op.false_region):
        if not region.blocks:
            sides.append(None)
            continue
        code = t.block(region.blocks[0])
        sides.append((code, t.slots(code.end.operands) if code.end is not None else ()))
    if any(side is not None and side[0].suspends for side in sides):
        return _suspending_if(condition, results, sides)
    one, other = sides

    def run(warp: Warp) -> None:
        chosen = warp.regs[condition]
        if type(chosen) is not bool:
            taken = chosen & warp.mask
            count = int(np.count_nonzero(taken))
            if count not in (0, warp.active):
                diverge(warp, taken)
                return
            chosen = count > 0
        side = one if chosen else other
        if side is not None:
            side[0].run(warp)
            assign(warp, results, side[1], None)

    def diverge(warp: Warp, taken: Array) -> None:
        whole = warp.mask
        for slot in results:
            warp.regs[slot] = None
        for side, mask in zip(sides, (taken, whole & ~taken)):
            if side is not None:
                warp.set_mask(mask)
                side[0].run(warp)
                assign(warp, results, side[1], mask)
        warp.set_mask(whole)

    return Nested(run)


def _suspending_if(
    condition: int, results: tuple[int, ...], sides: list[_Side | None]
) -> Suspending:
    """An ``scf.if`` that may wait. Its position in the path is the branch: 0 for true."""

    def start(warp: Warp) -> Coroutine:
        chosen = warp.regs[condition]
        if type(chosen) is not bool:
            taken = chosen & warp.mask
            count = int(np.count_nonzero(taken))
            if count not in (0, warp.active):
                if warp.size > WARP_SIZE:
                    yield FALL_APART
                warp.path.append(None)
                yield from _diverge(warp, taken, sides, results)
                warp.path.pop()
                return
            chosen = count > 0
        number = 0 if chosen else 1
        side = sides[number]
        if side is not None:
            warp.path.append(number)
            yield from run_code(side[0], warp)
            warp.path.pop()
            assign(warp, results, side[1], None)

    def resume(warp: Warp, saved: list[Any]) -> Coroutine:
        number = saved.pop(0)
        side = sides[number]
        assert side is not None
        warp.path.append(number)
        yield from side[0].resume(warp, saved)
        warp.path.pop()
        assign(warp, results, side[1], None)

    return Suspending(start, resume)


def _diverge(
    warp: Warp, taken: Array, sides: list[_Side | None], results: tuple[int, ...]
) -> Coroutine:
    whole = warp.mask
    for slot in results:
        warp.regs[slot] = None
    for side, mask in zip(sides, (taken, whole & ~taken)):
        if side is not None:
            warp.set_mask(mask)
            yield from run_code(side[0], warp)
            assign(warp, results, side[1], mask)
    warp.set_mask(whole)


@implements("scf.for")
def _for(op: Any, t: Translator) -> Suspending | Nested:
    """Runs the body for the bounds of each lane; lanes that have finished wait for the others of their warp."""
    bounds = t.slots((op.lb, op.ub, op.step))
    block = op.body.blocks[0]
    variable, carried = t.slot(block.args[0]), t.slots(block.args[1:])
    inits, results = t.slots(op.iter_args), t.slots(op.results)
    code = t.block(block)
    yielded = t.slots(code.end.operands) if code.end is not None else ()
    loop = _Loop(op, bounds, variable, carried, inits, results, code, yielded, _counters(op, t))
    if code.suspends:
        return Suspending(loop.start, loop.resume)
    return Nested(loop.run)


def _counters(op: Any, t: Translator) -> tuple[tuple[int, int], ...]:
    """Slots of loop-carried values that each iteration increments, with those of the invariant increments."""
    block = op.body.blocks[0]
    inside = {result for inner in op.walk() for result in inner.results}
    end = block.last_op
    found: list[tuple[int, int]] = []
    if end is None:
        return ()
    for argument, value in zip(block.args[1:], end.operands, strict=True):
        made = value.owner
        if getattr(made, "name", "") != "arith.addi" or argument not in made.operands:
            continue
        added = next((o for o in made.operands if o is not argument), None)
        if added is not None and added not in inside and added.owner is not block:
            found.append((t.slot(argument), t.slot(added)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Loop:
    """A counted loop. Its position in the path is the value of its variable. ``counters`` are further induction
    variables.
    """

    op: Operation
    bounds: tuple[int, ...]
    variable: int
    carried: tuple[int, ...]
    inits: tuple[int, ...]
    results: tuple[int, ...]
    code: Code
    yielded: tuple[int, ...]
    counters: tuple[tuple[int, int], ...]

    def numbers(self, warp: Warp, at: int | None = None) -> Sequence[int] | None:
        """The values of the variable, or None if they may differ between lanes.

        With ``at`` the loop resumes after that value.
        """
        regs = warp.regs
        first, end, step = (regs[slot] for slot in self.bounds)
        if not (type(first) is type(end) is type(step) is int):
            return None
        if step <= 0:
            raise Fault(codes.UNDEFINED, f"the step of scf.for is {step}", self.op)
        found, recorder = range(first, end, step), warp.launch.recorder
        if recorder is None:
            return found
        return recorder.turns(warp, self.op, found, at, lambda count: self._leave_out(warp, count))

    def _leave_out(self, warp: Warp, count: int) -> None:
        """Advance the induction variables by ``count`` omitted iterations."""
        for counter, added in self.counters:
            value, step = warp.regs[counter], warp.regs[added]
            if type(value) is int:
                warp.regs[counter] = value + int(step) * count
            else:
                warp.regs[counter] = value + step * value.dtype.type(count)

    def run(self, warp: Warp) -> None:
        numbers, regs = self.numbers(warp), warp.regs
        assign(warp, self.carried, self.inits, None)
        if numbers is None:
            for _ in self.turns(warp):
                self.code.run(warp)
            return
        body, op, variable = self.code.run, self.op, self.variable
        carried, yielded = self.carried, self.yielded
        for index in numbers:
            warp.count_step(op)
            regs[variable] = index
            body(warp)
            assign(warp, carried, yielded, None)
        assign(warp, self.results, carried, None)

    def start(self, warp: Warp) -> Coroutine:
        numbers = self.numbers(warp)
        if numbers is None:
            if warp.size > WARP_SIZE:
                yield FALL_APART
            assign(warp, self.carried, self.inits, None)
            warp.path.append(None)
            for _ in self.turns(warp):
                yield from self.code.start(warp)
            warp.path.pop()
            return
        assign(warp, self.carried, self.inits, None)
        yield from self.go_on(warp, numbers)

    def resume(self, warp: Warp, saved: list[Any]) -> Coroutine:
        index = saved.pop(0)
        numbers = self.numbers(warp, index)
        assert numbers is not None
        warp.path.append(index)
        yield from self.code.resume(warp, saved)
        warp.path.pop()
        assign(warp, self.carried, self.yielded, None)
        yield from self.go_on(warp, numbers[numbers.index(index) + 1 :])

    def go_on(self, warp: Warp, numbers: Sequence[int]) -> Coroutine:
        regs, path = warp.regs, warp.path
        depth = len(path)
        path.append(0)
        for index in numbers:
            warp.count_step(self.op)
            regs[self.variable] = path[depth] = index
            yield from self.code.start(warp)
            assign(warp, self.carried, self.yielded, None)
        path.pop()
        assign(warp, self.results, self.carried, None)

    def turns(self, warp: Warp) -> Iterator[None]:
        """Iterate over the values of lanes with different bounds, under their masks."""
        first, end, step = (
            lanes(warp.regs[slot], np.dtype(np.int64), warp.size) for slot in self.bounds
        )
        whole, index = warp.mask, first
        _note_entry(warp, self.op)
        if (step[whole] <= 0).any():
            raise Fault(codes.UNDEFINED, "the step of scf.for is not positive", self.op)
        while (mask := whole & (index < end)).any():
            warp.count_step(self.op)
            warp.set_mask(mask)
            warp.regs[self.variable] = index
            yield None
            assign(warp, self.carried, self.yielded, mask)
            index = index + step
        warp.set_mask(whole)
        assign(warp, self.results, self.carried, None)


def _note_entry(warp: Warp, op: Operation) -> None:
    if warp.launch.recorder is not None:
        warp.launch.recorder.enter(warp, op)


@implements("scf.while")
def _while(op: Any, t: Translator) -> Suspending:
    """Runs both regions alternately while any lane's condition is true; lanes that have left keep their results."""
    before, after = op.before_region.blocks[0], op.after_region.blocks[0]
    inits, results = t.slots(op.arguments), t.slots(op.results)
    heads, bodies = t.slots(before.args), t.slots(after.args)
    test, turn = t.block(before), t.block(after)
    assert test.end is not None
    condition, passed = t.slot(test.end.operands[0]), t.slots(test.end.operands[1:])
    yielded = t.slots(turn.end.operands) if turn.end is not None else ()

    def start(warp: Warp) -> Coroutine:
        assign(warp, heads, inits, None)
        for slot in results:
            warp.regs[slot] = None
        warp.path.append(_TEST)
        _note_entry(warp, op)
        begin_loop(warp, op)
        yield from go_on(warp, _TEST, [])

    def resume(warp: Warp, saved: list[Any]) -> Coroutine:
        stage = saved.pop(0)
        warp.path.append(stage)
        return go_on(warp, stage, saved)

    def go_on(warp: Warp, stage: int, saved: list[Any]) -> Coroutine:
        regs, whole, path = warp.regs, warp.mask, warp.path
        depth = len(path) - 1
        while True:
            if stage == _TEST:
                if saved:
                    yield from test.resume(warp, saved)
                else:
                    warp.count_step(op)
                    polls = next_iteration(warp, op, heads)
                    if polls is not None:
                        yield polls
                    yield from run_code(test, warp)
            if stage != _BODY:
                stays = _stays(warp, regs[condition])
                if stays is not warp.mask and stays is not None and warp.size > WARP_SIZE:
                    path[depth] = _DECIDE
                    yield FALL_APART
                if not leave(warp, whole, stays):
                    break
                path[depth] = _BODY if warp.mask is whole else None
            if saved:
                yield from turn.resume(warp, saved)
            else:
                yield from run_code(turn, warp)
            assign(warp, heads, yielded, None if warp.mask is whole else warp.mask)
            stage = _TEST
            if path[depth] is not None:
                path[depth] = stage
        path.pop()
        warp.set_mask(whole)

    def leave(warp: Warp, whole: Array, stays: Array | None) -> bool:
        """Set the results of lanes that leave the loop. Returns whether others remain."""
        mask = warp.mask
        if stays is not mask:
            leaving = mask if stays is None else mask & ~stays
            assign(warp, results, passed, None if leaving is whole else leaving)
        if stays is None:
            return False
        warp.set_mask(stays)
        assign(warp, bodies, passed, None if stays is whole else stays)
        return True

    return Suspending(start, resume)


#: The positions of an ``scf.while`` in a path: in one of its regions, or between them.
_TEST, _DECIDE, _BODY = range(3)


def _stays(warp: Warp, condition: Any) -> Array | None:
    """The active lanes whose condition is true: the mask itself if all are, None if none is."""
    mask = warp.mask
    if type(condition) is bool:
        return mask if condition else None
    stays = condition & mask
    count = int(np.count_nonzero(stays))
    return mask if count == warp.active else stays if count else None


@implements("scf.execute_region")
def _execute_region(op: Any, t: Translator) -> Suspending | Nested:
    """Runs the region once, in place."""
    return body_of(op.regions[0], t, t.slots(op.results))


def body_of(
    region: Region, t: Translator, results: tuple[int, ...] = (), *, is_kernel: bool = False
) -> Suspending | Nested:
    """Translate a region, entered at its first block; the values that it returns go to ``results``.

    Lanes that return from a kernel have ended, and barriers no longer expect them.
    """
    blocks = list(region.blocks)
    codes_ = [t.block(block) for block in blocks]
    ends = [_End(code.end, t, blocks) for code in codes_]
    if len(blocks) > 1:
        graph = Graph(codes_, ends, order_of(blocks), results, is_kernel)
        return Suspending(graph.start, graph.resume)
    (code,), (end,) = codes_, ends
    returned = end.returned or ()

    def start(warp: Warp) -> Coroutine:
        yield from code.start(warp)
        assign(warp, results, returned, None)

    def resume(warp: Warp, saved: list[Any]) -> Coroutine:
        yield from code.resume(warp, saved)
        assign(warp, results, returned, None)

    def run(warp: Warp) -> None:
        code.run(warp)
        assign(warp, results, returned, None)

    return Suspending(start, resume) if code.suspends else Nested(run)


@dataclass(frozen=True, slots=True)
class Graph:
    """Blocks with branches between them.

    The position in the path is the number of a block, and whether the warp is at its end.
    """

    codes: list[Code]
    ends: list[_End]
    order: list[tuple[int, int]]
    results: tuple[int, ...]
    is_kernel: bool

    def start(self, warp: Warp) -> Coroutine:
        """Run from the first block, with the current lanes of the warp."""
        return self.go_on(warp, {0: warp.mask}, None)

    def loop_around(self, block: int | None) -> Operation | None:
        """The branch back to the header of the innermost loop around a block, or None."""
        if block is None:
            return None
        order, here = self.order, self.order[block]
        around = [
            (order[target], order[number], end.op)
            for number, end in enumerate(self.ends)
            for target in end.arguments
            if order[target] <= here <= order[number]
        ]
        return max(around, key=lambda found: (found[0], -found[1][1]))[2] if around else None

    def resume(self, warp: Warp, saved: list[Any]) -> Coroutine:
        """Resume at a saved position, for warps that have left their group."""
        return self.go_on(warp, {}, saved)

    def go_on(self, warp: Warp, waiting: dict[int, Array], saved: list[Any] | None) -> Coroutine:
        """Run blocks until no lane is in any.

        ``waiting`` are the lanes that are to enter each block; ``saved`` is a position at which to resume instead.
        """
        whole, path = warp.mask, warp.path
        depth = len(path)
        path.append(None)
        while waiting or saved is not None:
            # A block from which others can be reached runs first, so that its lanes catch up with theirs.
            if saved is None:
                current = min(waiting, key=self.order.__getitem__)
                mask, is_at_end = waiting.pop(current), False
            else:
                (current, is_at_end), mask = saved.pop(0), whole
            warp.set_mask(mask)
            alone = mask is whole
            path[depth] = (current, False) if alone else None
            if saved:
                yield from self.codes[current].resume(warp, saved)
            elif not is_at_end:
                yield from run_code(self.codes[current], warp)
            saved = None
            end = self.ends[current]
            if end.returned is not None:
                assign(warp, self.results, end.returned, None if alone else mask)
                if self.is_kernel and not alone:
                    warp.exists = warp.exists & ~mask
                continue
            targets = end.targets(warp)
            if len(targets) > 1 and warp.size > WARP_SIZE:
                path[depth] = current, True
                yield FALL_APART
            for target, arguments, lanes_ in targets:
                if self.order[target] <= self.order[current]:
                    warp.count_step(end.op)
                    yield next_iteration(warp, end.op, arguments)
                everyone = alone and lanes_ is mask
                assign(warp, end.arguments[target], arguments, None if everyone else lanes_)
                waiting[target] = waiting[target] | lanes_ if target in waiting else lanes_
                if everyone:
                    waiting[target] = whole
        path.pop()
        warp.set_mask(whole)


class _End:
    """The terminator of a block: where its lanes go."""

    def __init__(self, op: Operation | None, t: Translator, blocks: list[Any]):
        self.op: Any = op
        self.returned: tuple[int, ...] | None = None
        self.arguments: dict[int, tuple[int, ...]] = {}
        name = op.name if op is not None else "gpu.return"
        if name.startswith("cf."):
            self._branch(op, t, blocks)
        else:
            self.returned = t.slots(op.operands) if op is not None else ()

    def _branch(self, op: Any, t: Translator, blocks: list[Any]) -> None:
        numbers = [blocks.index(block) for block in op.successors]
        for number in numbers:
            self.arguments[number] = t.slots(blocks[number].args)
        if op.name == "cf.br":
            self.choices: list[tuple[int, tuple[int, ...]]] = [(numbers[0], t.slots(op.operands))]
        elif op.name == "cf.cond_br":
            self.flag = t.slot(op.cond)
            groups = op.then_arguments, op.else_arguments
            self.choices = [(n, t.slots(g)) for n, g in zip(numbers, groups)]
            # The condition true selects the first successor.
            self.cases = [1]
        else:
            self.flag = t.slot(op.flag)
            segments = op.case_operand_segments.get_values()
            found, groups = list(op.case_operands), []
            for count in segments:
                groups.append(found[:count])
                del found[:count]
            # xDSL lists the default block first.
            self.choices = [(n, t.slots(g)) for n, g in zip(numbers[1:], groups)] + [
                (numbers[0], t.slots(op.default_operands))
            ]
            self.cases = [] if op.case_values is None else list(op.case_values.get_values())

    def targets(self, warp: Warp) -> list[tuple[int, tuple[int, ...], Array]]:
        """The targets of the active lanes: block, arguments, lanes."""
        mask = warp.mask
        if len(self.choices) == 1:
            return [(*self.choices[0], mask)]
        value = warp.regs[self.flag]
        if isinstance(value, int):
            wanted = int(value)
            index = self.cases.index(wanted) if wanted in self.cases else -1
            return [(*self.choices[index], mask)]
        found: list[tuple[int, tuple[int, ...], Array]] = []
        rest = mask
        for case, choice in zip(self.cases, self.choices):
            part = rest & (value == case)
            if part.any():
                found.append((*choice, part))
                rest = rest & ~part
        if rest.any():
            found.append((*self.choices[-1], rest))
        if len(found) == 1:
            number, arguments, _ = found[0]
            return [(number, arguments, mask)]
        return found


@implements("func.call")
def _call(op: Any, t: Translator) -> Suspending | Nested:
    """Inlines the body of the function, once per call. Raises ``Fault`` for recursion, or if there is no body."""
    name = op.callee.root_reference.data
    callee = next(
        (f for f in t.module.walk() if f.name in ("gpu.func", "func.func") and _symbol(f) == name),
        None,
    )
    if callee is None or not callee.regions[0].blocks:
        raise Fault(codes.UNSUPPORTED, f"there is no function '@{name}' with a body", op)
    if callee in t.calls:
        raise Fault(codes.UNSUPPORTED, f"'@{name}' is recursive", op)
    region = callee.regions[0]
    t.forget(_values_in(region))
    parameters = t.slots(region.blocks[0].args)
    t.calls.append(callee)
    body = body_of(region, t, t.slots(op.results))
    t.calls.pop()
    arguments = t.slots(op.operands)

    if isinstance(body, Nested):
        run_body = body.run

        def run(warp: Warp) -> None:
            assign(warp, parameters, arguments, None)
            run_body(warp)

        return Nested(run)
    start_body = body.start

    def start(warp: Warp) -> Coroutine:
        assign(warp, parameters, arguments, None)
        yield from start_body(warp)

    return Suspending(start, body.resume)


def _symbol(op: Operation) -> str:
    if isinstance(op, FuncOp):
        return op.symbol
    found: Any = op.properties.get("sym_name")
    return found.data if found is not None else ""


def _values_in(region: Region) -> list[SSAValue]:
    found: list[SSAValue] = []
    for block in region.blocks:
        found.extend(block.args)
        for op in block.ops:
            found.extend(op.results)
            for inner in op.regions:
                found.extend(_values_in(inner))
    return found


@implements("cf.assert", wide=True)
def _assert(op: Any, t: Translator) -> Step:
    """Raises ``Fault`` with the message if the condition is false for an active lane."""
    condition, message = t.slot(op.arg), op.msg.data

    def step(warp: Warp) -> None:
        value = warp.regs[condition]
        holds = value if type(value) is bool else bool((value | ~warp.mask).all())
        if not holds:
            raise Fault(codes.ASSERTION, f"assertion of {warp.name()} failed: {message}", op)

    return step
