"""What the operations of a running kernel share beside registers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewright.machine.faults import STEP_LIMIT, Fault
from tilewright.machine.memory import Memory

if TYPE_CHECKING:
    from xdsl.ir import Operation


@dataclass(frozen=True, slots=True)
class AssertionFailure:
    """One false element of an assert: where in the tile, in which tile block, with what message."""

    message: str
    index: tuple[int, ...]
    block: tuple[int, int, int]
    op: Operation


@dataclass(slots=True)
class Machine:
    """The memory of a program, and what the launch in progress has brought forth so far."""

    memory: Memory = field(default_factory=Memory)
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (0, 0, 0)
    printed: list[str] = field(default_factory=list)
    print_to: Callable[[str], object] | None = None
    failures: list[AssertionFailure] = field(default_factory=list)
    max_iterations: int = 0

    def emit(self, text: str) -> None:
        """Add printed text."""
        self.printed.append(text)
        if self.print_to is not None:
            self.print_to(text)

    def check_iterations(self, count: int) -> None:
        """Fault where a loop is going to make more iterations than the limit."""
        if count > self.max_iterations:
            raise self.endless_loop()

    def endless_loop(self) -> Fault:
        return Fault(
            STEP_LIMIT, f"the loop makes more than {self.max_iterations} iterations, the limit set"
        )
