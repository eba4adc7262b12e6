"""Hooks around the steps of operations: how a checking or an observing run differs from a plain one.

A plain translator makes steps without any; what hooks cost is paid only by a translator that asks
for them, when it translates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tilewright.machine.compile import Coroutine, Nested, Signal, Step, SwitchPoint
from tilewright.machine.values import Registers

if TYPE_CHECKING:
    from xdsl.ir import Operation

Hook = Callable[[Registers], None]


def surround(
    op: Operation,
    step: Step | SwitchPoint | Nested | None,
    before: tuple[Hook, ...],
    after: tuple[Hook, ...],
) -> Step | SwitchPoint | Nested | None:
    """The step of an operation, with hooks that run before it and when it has ended.

    An operation with regions that a break, continue or return inside it passes by has not ended.
    An operation without a step of its own gets one that runs the hooks.
    """
    if not before and not after:
        return step
    if isinstance(step, Nested):
        return Nested(_around_coroutine(step.start, before, after))
    if isinstance(step, SwitchPoint):
        return SwitchPoint(_around(step.step, before, after))
    if op.regions and step is not None:
        return _around_regions(step, before, after)
    return _around(step, before, after)


def _around(step: Step | None, before: tuple[Hook, ...], after: tuple[Hook, ...]) -> Step:
    if step is not None and not before and len(after) == 1:
        (last,) = after

        def followed(regs: Registers) -> Signal:
            signal = step(regs)
            last(regs)
            return signal

        return followed

    def run(regs: Registers) -> Signal:
        for hook in before:
            hook(regs)
        signal = None if step is None else step(regs)
        for hook in after:
            hook(regs)
        return signal

    return run


def _around_regions(step: Step, before: tuple[Hook, ...], after: tuple[Hook, ...]) -> Step:
    def run(regs: Registers) -> Signal:
        for hook in before:
            hook(regs)
        signal = step(regs)
        if signal is None:
            for hook in after:
                hook(regs)
        return signal

    return run


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
