"""Hooks around the steps of operations, for checking and observing runs.

A plain translator creates steps without hooks. A translator that asks for hooks pays for them only at translation.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Operation

from tilewright.machine.compile import Coroutine, Nested, Step, SwitchPoint
from tilewright.machine.fused_blocks import Inline, as_inline, inline, joined
from tilewright.machine.values import Registers

Hook = Callable[[Registers], None] | Inline


def surround(
    op: Operation,
    step: Step | SwitchPoint | Nested | None,
    before: tuple[Hook, ...],
    after: tuple[Hook, ...],
) -> Step | SwitchPoint | Nested | None:
    """Return the step of an operation, with hooks before it and after it has ended.

    An operation with regions that is left by a break, continue or return does not end, so the hooks
    after it do not run. An operation without a step (None) gets one that runs the hooks, if there are any.
    """
    if not before and not after:
        return step
    if isinstance(step, Nested):
        return Nested(_around_coroutine(step.start, before, after))
    if isinstance(step, SwitchPoint):
        return SwitchPoint(_around(step.step, before, after))
    return _around(step, before, after, may_be_passed=bool(op.regions))


def _around(
    step: Step | None,
    before: tuple[Hook, ...],
    after: tuple[Hook, ...],
    *,
    may_be_passed: bool = False,
) -> Step:
    """Return hooks and step as lines. If the step may be left by a signal, that skips the hooks after it."""
    first, last = map(as_inline, before), map(as_inline, after)
    if step is None or isinstance(step, Inline):
        assert not may_be_passed
        return joined(*first, *([] if step is None else [step]), *last)
    run, end = (
        inline("signal = {step}(regs)", step=step),
        inline("if signal is not None: return signal"),
    )
    rest = [end, *last] if may_be_passed else [*last, end]
    return joined(*first, run, *rest)


def _around_coroutine(
    start: Callable[[Registers], Coroutine], before: tuple[Hook, ...], after: tuple[Hook, ...]
) -> Callable[[Registers], Coroutine]:
    def begin(regs: Registers) -> Coroutine:
        for hook in before:
            hook(regs)
        signal = yield from start(regs)
        if signal is None:
            for hook in after:
                hook(regs)
        return signal

    return begin
