"""Translation with checks: every operation's step, with what has to be looked at around it.

Beside the slot of each value there is one for its taint: which of its elements are uninitialized.
Tokens hold the history of what happened before them. Rules enter hooks for operation classes:
those of ``BEFORE`` run before the operation, when its operands are known; those of ``AFTER``
behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from textwrap import indent
from typing import ClassVar

from xdsl.ir import Operation, SSAValue

from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.machine.accesses import AccessSite, access_site
from tilewright.machine.compile import Nested, Step, SwitchPoint, Translator
from tilewright.machine.fused_blocks import as_inline, inline
from tilewright.machine.hooks import Hook, surround
from tilewright.machine.sanitize.events import EMPTY, History
from tilewright.machine.sanitize.races import RaceDetector
from tilewright.machine.sanitize.reporting import DiagnosticCollector
from tilewright.machine.values import Registers
from tilewright.numerics.arrays import Array

Rule = Callable[[TileOp, "SanitizingTranslator"], "Hook | None"]


@dataclass(slots=True)
class SanitizingTranslator(Translator):
    """Translates a kernel so that its findings are collected while it runs."""

    is_observed: ClassVar[bool] = True
    collector: DiagnosticCollector = None  # pyright: ignore[reportAssignmentType]
    detector: RaceDetector | None = None
    fresh: dict[int, Array] = field(default_factory=dict[int, Array])
    """For alloca memory by base address: which bytes nobody has written yet."""
    _taints: dict[SSAValue, int] = field(default_factory=dict["SSAValue", int])

    def taint(self, value: SSAValue) -> int:
        """The slot of a value's taint: None or a ``Taint``."""
        found = self._taints.get(value)
        if found is None:
            found = self._taints[value] = self.new_slot()
        return found

    def taints(self, values: Iterable[SSAValue]) -> tuple[int, ...]:
        """The slots of the taints of values, in their order."""
        return tuple(self.taint(value) for value in values)

    def flow(self, values: Iterable[SSAValue]) -> tuple[int, ...]:
        """The slots of values and then those of their taints: both are copied along."""
        values = tuple(values)
        return self.slots(values) + self.taints(values)

    def operation(self, op: Operation) -> Step | SwitchPoint | Nested | None:
        from tilewright.machine.sanitize.rules import AFTER, BEFORE

        step = Translator.operation(self, op)
        assert isinstance(op, TileOp)
        site = access_site(op, self)
        if site is not None:
            step = _watched(op, step, site, self.collector)
        before = _hooks(BEFORE, op, self)
        after = _hooks(AFTER, op, self)
        return surround(op, step, before, after)

    def sink(self, op: TileOp, value: SSAValue, what: str) -> Hook:
        """A hook that reports uninitialized elements of an operand."""
        slot, collector = self.taint(value), self.collector

        def hook(regs: Registers) -> None:
            if (taint := regs[slot]) is not None and taint.mask.any():
                collector.uninitialized(op, taint, taint.mask, what)

        return hook

    def sinks(self, op: TileOp, values: Iterable[SSAValue], what: str) -> Hook:
        """A hook that reports uninitialized elements of any of several operands."""
        slots, collector = self.taints(values), self.collector
        if not slots:
            return inline("")

        def hook(regs: Registers) -> None:
            for slot in slots:
                if (taint := regs[slot]) is not None and taint.mask.any():
                    collector.uninitialized(op, taint, taint.mask, what)

        return inline(f"if not ({none_of(slots)}): {{hook}}(regs)", hook=hook)


def none_of(taints: Iterable[int]) -> str:
    """The text of the condition that no element of these taints is uninitialized."""
    return " and ".join([f"regs[{slot}] is None" for slot in taints])


def _hooks(
    table: dict[type[TileOp], list[Rule]], op: TileOp, t: SanitizingTranslator
) -> tuple[Hook, ...]:
    return tuple(hook for rule in table.get(type(op), ()) if (hook := rule(op, t)) is not None)


def _watched(
    op: TileOp,
    step: Step | SwitchPoint | Nested | None,
    site: AccessSite,
    collector: DiagnosticCollector,
) -> Step | SwitchPoint:
    """The step of an access; when it is at fault, the collector is told what it was to touch."""
    assert step is not None and not isinstance(step, Nested)
    access = step.step if isinstance(step, SwitchPoint) else step
    inner = as_inline(access)
    run = inline(
        f"try:\n{indent(inner.text, '    ')}\nexcept Fault:\n    {{ended}}(regs)\n    raise",
        ended=partial(collector.ended_by, op, site),
        **inner.parts,
    )
    return SwitchPoint(run) if isinstance(step, SwitchPoint) else run


def history_of(token: object) -> History:
    """The history behind a token; a token that no access made has none."""
    return token if isinstance(token, History) else EMPTY
