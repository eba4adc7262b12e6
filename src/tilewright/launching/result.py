"""What a launch gives back."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.launching.assertions import AssertionFailure
from tilewright.numerics.arithmetic import REFERENCE, Arithmetic
from tilewright.numerics.arrays import Array


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a launch gave. ``outputs`` are the array arguments, updated in place; ``arithmetic`` is
    the mode in which they were computed."""

    outputs: tuple[Array, ...]
    text: str
    failures: tuple[AssertionFailure, ...]
    arithmetic: Arithmetic = REFERENCE
