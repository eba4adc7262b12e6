"""State that the operations of a running kernel share besides registers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from time import monotonic
from typing import TypeVar

from tilewright.launching.assertions import AssertionFailure
from tilewright.launching.time_limits import TIME_LIMIT, over_message
from tilewright.machine.faults import STEP_LIMIT, Fault
from tilewright.machine.load_memo import LoadMemo
from tilewright.machine.memory import Memory
from tilewright.machine.tensors import ArrayNames

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """How many seconds a launch may take, and when they are over."""

    seconds: float
    deadline: float

    @classmethod
    def begin(cls, seconds: float | None) -> TimeLimit | None:
        """The limit of a launch that begins now; None for none."""
        return None if seconds is None else cls(seconds, monotonic() + seconds)

    def check(self, where: str) -> None:
        """A fault when the time is over, which says ``where`` the launch was."""
        if monotonic() > self.deadline:
            raise Fault(TIME_LIMIT, over_message(self.seconds, where))


@dataclass(slots=True)
class Machine:
    """The memory of a program, and what the launch in progress has brought forth so far."""

    memory: Memory = field(default_factory=Memory)
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (0, 0, 0)
    printed: list[str] = field(default_factory=list[str])
    print_to: Callable[[str], object] | None = None
    failures: list[AssertionFailure] = field(default_factory=list[AssertionFailure])
    max_iterations: int = 0
    random: Random | None = None
    """What decides about the schedule; None for the plain order."""
    take_over: Callable[[], tuple[int, int, int] | None] = lambda: None
    """Takes a tile block that has not begun out of the launch; None where there is none left."""
    plugins: Mapping[str, Callable[..., object]] = field(
        default_factory=dict[str, Callable[..., object]]
    )
    """What the caller has given for code that the machine does not have, by name."""
    memo: LoadMemo = field(default_factory=LoadMemo)
    names: ArrayNames = field(default_factory=ArrayNames)
    """What the arrays of the launch in progress are called."""
    time: TimeLimit | None = None
    """How long the launch in progress may take."""

    def emit(self, text: str) -> None:
        """Add printed text."""
        self.printed.append(text)
        if self.print_to is not None:
            self.print_to(text)

    def rounds(self, numbers: Iterable[_T]) -> Iterable[_T]:
        """What a loop runs over; a fault in the round at whose beginning the time is over."""
        return numbers if self.time is None else self._in_time(numbers, self.time)

    def _in_time(self, numbers: Iterable[_T], limit: TimeLimit) -> Iterator[_T]:
        for number in numbers:
            limit.check(f"tile block {self.block} was in this loop")
            yield number

    def check_time(self) -> None:
        """A fault where the time is over, between tile blocks."""
        if self.time is not None:
            self.time.check("")

    def check_iterations(self, count: int) -> None:
        """Fault where a loop is going to make more iterations than the limit."""
        if count > self.max_iterations:
            raise self.endless_loop()

    def endless_loop(self) -> Fault:
        """The fault of a loop that reaches ``max_iterations``."""
        return Fault(
            STEP_LIMIT, f"the loop makes more than {self.max_iterations} iterations, the limit set"
        )
