"""What the operations of a running kernel share beside registers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from tilewright.launching.assertions import AssertionFailure
from tilewright.machine.faults import STEP_LIMIT, Fault
from tilewright.machine.kept_tiles import KeptTiles
from tilewright.machine.memory import Memory
from tilewright.machine.tensors import ArrayNames

if TYPE_CHECKING:
    pass


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
    random: Random | None = None
    """What decides about the schedule; None for the plain order."""
    take_over: Callable[[], tuple[int, int, int] | None] = lambda: None
    """Takes a tile block that has not begun out of the launch; None where there is none left."""
    plugins: Mapping[str, Callable[..., object]] = field(default_factory=dict)
    """What the caller has given for code that the machine does not have, by name."""
    kept: KeptTiles = field(default_factory=KeptTiles)
    names: ArrayNames = field(default_factory=ArrayNames)
    """What the arrays of the launch in progress are called."""

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
