"""What a launch gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.launching.assertions import AssertionFailure
from tilewright.numerics.arithmetic import REFERENCE, Arithmetic
from tilewright.numerics.arrays import Array


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a launch gave; machines that know more give a class of their own that has all of this.

    ``outputs`` are the array arguments, updated in place; ``text`` is what the kernel printed, as far
    as the machine sees it; ``failures`` are the failed assertions of a launch that goes on after them.
    ``arithmetic`` is the mode in which outputs were computed. ``hits`` has for each breakpoint the
    number of executions that it met, those skipped included, and ``stopped_at`` the stop at which an
    action ended the run.
    """

    outputs: tuple[Array, ...] = ()
    text: str = ""
    failures: tuple[AssertionFailure, ...] = ()
    arithmetic: Arithmetic = REFERENCE
    hits: tuple[int, ...] = ()
    stopped_at: Any = None
