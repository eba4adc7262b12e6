"""Control flow: ``scf`` by lane masks, ``cf`` by lanes that meet again, calls, assertions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.dialects.nvgpu.support.gpu_kernels import FuncOp
from tilewright.simulator import codes
from tilewright.simulator.compile import (
    Code,
    Step,
    Suspending,
    Translator,
    implements,
)
from tilewright.simulator.findings import Fault
from tilewright.simulator.flow import order_of
from tilewright.simulator.state import Coroutine, Warp
from tilewright.simulator.values import lanes, merge

if TYPE_CHECKING:
    from xdsl.ir import Operation, Region, SSAValue

    from tilewright.numerics.arrays import Array


def _run(code: Code, warp: Warp) -> Coroutine:
    if code.suspends:
        yield from code.start(warp)
    else:
        code.run(warp)


def assign(
    warp: Warp, targets: tuple[int, ...], sources: tuple[int, ...], mask: Array | None
) -> None:
    """Copy values between slots at once, for the lanes of a mask or for all."""
    regs = warp.regs
    values = [regs[source] for source in sources]
    for target, value in zip(targets, values):
        regs[target] = value if mask is None else merge(mask, value, regs[target])


@implements("scf.if")
def _if(op: Any, t: Translator) -> Suspending:
    condition = t.slot(op.cond)
    results = t.slots(op.results)
    sides: list[tuple[Code, tuple[int, ...]] | None] = []
    for region in (op.true_region, op.false_region):
        if not region.blocks:
            sides.append(None)
            continue
        code = t.block(region.blocks[0])
        sides.append((code, t.slots(code.end.operands) if code.end is not None else ()))
    one, other = sides

    def start(warp: Warp) -> Coroutine:
        chosen = warp.regs[condition]
        if type(chosen) is not bool:
            taken = chosen & warp.mask
            count = int(np.count_nonzero(taken))
            if count not in (0, warp.active):
                yield from _diverge(warp, taken, sides, results)
                return
            chosen = count > 0
        side = one if chosen else other
        if side is not None:
            yield from _run(side[0], warp)
            assign(warp, results, side[1], None)

    return Suspending(start)


def _diverge(
    warp: Warp,
    taken: Array,
    sides: list[tuple[Code, tuple[int, ...]] | None],
    results: tuple[int, ...],
) -> Coroutine:
    whole = warp.mask
    for slot in results:
        warp.regs[slot] = None
    for side, mask in zip(sides, (taken, whole & ~taken)):
        if side is not None:
            warp.set_mask(mask)
            yield from _run(side[0], warp)
            assign(warp, results, side[1], mask)
    warp.set_mask(whole)


@implements("scf.for")
def _for(op: Any, t: Translator) -> Suspending:
    low, high, stride = t.slot(op.lb), t.slot(op.ub), t.slot(op.step)
    block = op.body.blocks[0]
    variable, carried = t.slot(block.args[0]), t.slots(block.args[1:])
    inits, results = t.slots(op.iter_args), t.slots(op.results)
    code = t.block(block)
    yielded = t.slots(code.end.operands) if code.end is not None else ()

    def start(warp: Warp) -> Coroutine:
        regs = warp.regs
        bounds = regs[low], regs[high], regs[stride]
        assign(warp, carried, inits, None)
        if not all(type(bound) is int for bound in bounds):
            yield from divergent(warp, *(lanes(bound, np.dtype(np.int64)) for bound in bounds))
            return
        first, end, step = bounds
        if step <= 0:
            raise Fault(codes.UNDEFINED, f"the step of scf.for is {step}", op)
        for index in range(first, end, step):
            warp.count_step(op)
            regs[variable] = index
            if code.suspends:
                yield from code.start(warp)
            else:
                code.run(warp)
            assign(warp, carried, yielded, None)
        assign(warp, results, carried, None)

    def divergent(warp: Warp, first: Array, end: Array, step: Array) -> Coroutine:
        whole, index = warp.mask, first
        if (step[whole] <= 0).any():
            raise Fault(codes.UNDEFINED, "the step of scf.for is not positive", op)
        while (mask := whole & (index < end)).any():
            warp.count_step(op)
            warp.set_mask(mask)
            warp.regs[variable] = index
            yield from _run(code, warp)
            assign(warp, carried, yielded, None if mask is whole else mask)
            index = index + step
        warp.set_mask(whole)
        assign(warp, results, carried, None)

    return Suspending(start)


@implements("scf.while")
def _while(op: Any, t: Translator) -> Suspending:
    before, after = op.before_region.blocks[0], op.after_region.blocks[0]
    inits, results = t.slots(op.arguments), t.slots(op.results)
    heads, bodies = t.slots(before.args), t.slots(after.args)
    test, turn = t.block(before), t.block(after)
    assert test.end is not None
    condition, passed = t.slot(test.end.operands[0]), t.slots(test.end.operands[1:])
    yielded = t.slots(turn.end.operands) if turn.end is not None else ()

    def start(warp: Warp) -> Coroutine:
        regs, whole = warp.regs, warp.mask
        assign(warp, heads, inits, None)
        for slot in results:
            regs[slot] = None
        while True:
            warp.count_step(op)
            yield from _run(test, warp)
            mask, goes_on = warp.mask, regs[condition]
            if type(goes_on) is bool:
                stays = mask if goes_on else None
            else:
                stays = goes_on & mask
                count = int(np.count_nonzero(stays))
                stays = mask if count == warp.active else stays if count else None
            if stays is not mask:
                leaving = mask if stays is None else mask & ~stays
                assign(warp, results, passed, None if leaving is whole else leaving)
            if stays is None:
                break
            warp.set_mask(stays)
            assign(warp, bodies, passed, None if stays is whole else stays)
            yield from _run(turn, warp)
            assign(warp, heads, yielded, None if stays is whole else stays)
        warp.set_mask(whole)

    return Suspending(start)


@implements("scf.execute_region")
def _execute_region(op: Any, t: Translator) -> Suspending:
    return body_of(op.regions[0], t, t.slots(op.results))


def body_of(
    region: Region, t: Translator, results: tuple[int, ...] = (), *, is_kernel: bool = False
) -> Suspending:
    """A region of blocks, entered at the first; what it returns goes to ``results``.

    Lanes that return from a kernel have ended, and barriers go on without them.
    """
    blocks = list(region.blocks)
    codes_ = [t.block(block) for block in blocks]
    ends = [_End(code.end, t, blocks) for code in codes_]
    if len(blocks) == 1:
        (code,), (end,) = codes_, ends

        def straight(warp: Warp) -> Coroutine:
            yield from _run(code, warp)
            assign(warp, results, end.returned or (), None)

        return Suspending(straight)
    order = order_of(blocks)

    def start(warp: Warp) -> Coroutine:
        whole = warp.mask
        waiting: dict[int, Array] = {0: whole}
        while waiting:
            # The block from which the others can be reached comes first, so that they wait there.
            current = min(waiting, key=order.__getitem__)
            mask = waiting.pop(current)
            warp.set_mask(mask)
            code, end = codes_[current], ends[current]
            yield from _run(code, warp)
            alone = mask is whole
            if end.returned is not None:
                assign(warp, results, end.returned, None if alone else mask)
                if is_kernel and not alone:
                    warp.exists = warp.exists & ~mask
                continue
            for target, arguments, part in end.targets(warp):
                if order[target] <= order[current]:
                    warp.count_step(end.op)
                    yield None
                slots = end.arguments[target]
                everyone = alone and part is mask
                assign(warp, slots, arguments, None if everyone else part)
                waiting[target] = part if target not in waiting else waiting[target] | part
                if everyone:
                    waiting[target] = whole
        warp.set_mask(whole)

    return Suspending(start)


class _End:
    """How a block ends: where its lanes go."""

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
            # True takes the first.
            self.cases = [1]
        else:
            self.flag = t.slot(op.flag)
            segments = op.case_operand_segments.get_values()
            found, groups = list(op.case_operands), []
            for count in segments:
                groups.append(found[:count])
                del found[:count]
            # xDSL gives the default block first.
            self.choices = [(n, t.slots(g)) for n, g in zip(numbers[1:], groups)] + [
                (numbers[0], t.slots(op.default_operands))
            ]
            self.cases = [] if op.case_values is None else list(op.case_values.get_values())

    def targets(self, warp: Warp) -> list[tuple[int, tuple[int, ...], Array]]:
        """Where the active lanes go: block, arguments, lanes."""
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
def _call(op: Any, t: Translator) -> Suspending:
    """The body of the function, once more for each call."""
    name = op.callee.root_reference.data
    callee = next(
        (f for f in t.module.walk() if f.name in ("gpu.func", "func.func") and _symbol(f) == name),
        None,
    )
    if callee is None or not callee.regions[0].blocks:
        raise Fault(codes.UNSUPPORTED, f"there is no function '@{name}' with a body", op)
    if callee in t.calls:
        raise Fault(codes.UNSUPPORTED, f"'@{name}' calls itself", op)
    region = callee.regions[0]
    t.forget(_values_in(region))
    parameters = t.slots(region.blocks[0].args)
    t.calls.append(callee)
    body = body_of(region, t, t.slots(op.results))
    t.calls.pop()
    arguments = t.slots(op.operands)

    def start(warp: Warp) -> Coroutine:
        assign(warp, parameters, arguments, None)
        yield from body.start(warp)

    return Suspending(start)


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


@implements("cf.assert")
def _assert(op: Any, t: Translator) -> Step:
    condition, message = t.slot(op.arg), op.msg.data

    def step(warp: Warp) -> None:
        value = warp.regs[condition]
        holds = value if type(value) is bool else bool((value | ~warp.mask).all())
        if not holds:
            raise Fault(codes.ASSERTION, f"assertion of {warp.name()} failed: {message}", op)

    return step
