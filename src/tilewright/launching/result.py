"""The results of launches."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from tilewright.launching.assertions import AssertionFailure
from tilewright.numerics.arithmetic import REFERENCE, Arithmetic
from tilewright.numerics.arrays import Array


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a launch; machines that report more return a subclass.

    ``outputs``: the array arguments, updated in place. ``text``: the printed text, as far as the machine can observe
    it. ``failures``: the failed assertions, if they are not raised. ``arithmetic``: the mode in which outputs were
    computed.
    """

    outputs: tuple[Array, ...] = ()
    text: str = ""
    failures: tuple[AssertionFailure, ...] = ()
    arithmetic: Arithmetic = REFERENCE


_outputs, _text, _failures, _arithmetic = (
    RunResult.__dict__[each.name].__set__ for each in fields(RunResult)
)


def result_of(outputs: tuple[Array, ...]) -> RunResult:
    """``RunResult(outputs)`` in half the time: a frozen class sets what it holds one by one, by name."""
    made = object.__new__(RunResult)
    _outputs(made, outputs)
    _text(made, "")
    _failures(made, ())
    _arithmetic(made, REFERENCE)
    return made


@dataclass(frozen=True, slots=True)
class InspectedResult(RunResult):
    """The result of a launch with breakpoints.

    ``hits``: for each breakpoint the number of executions that reached it, including skipped ones. ``stopped_at``: the
    stop at which an action ended the run.
    """

    hits: tuple[int, ...] = ()
    stopped_at: Any = None
