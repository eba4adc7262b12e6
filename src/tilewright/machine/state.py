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
    """The time limit of a launch, in seconds, and its deadline."""

    seconds: float
    deadline: float

    @classmethod
    def begin(cls, seconds: float | None) -> TimeLimit | None:
        """Return the limit of a launch that starts now and may take ``seconds``, by the wall clock; None without one."""
        return None if seconds is None else cls(seconds, monotonic() + seconds)

    def check(self, where: str) -> None:
        """Raise ``Fault`` if the deadline has passed; ``where`` says where the launch was."""
        if monotonic() > self.deadline:
            raise Fault(TIME_LIMIT, over_message(self.seconds, where))


@dataclass(slots=True)
class Machine:
    """The memory of a program, and the results of the launch in progress."""

    memory: Memory = field(default_factory=Memory)
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (0, 0, 0)
    printed: list[str] = field(default_factory=list[str])
    print_to: Callable[[str], object] | None = None
    failures: list[AssertionFailure] = field(default_factory=list[AssertionFailure])
    max_iterations: int = 0
    random: Random | None = None
    """The random generator of the schedule; None for seed 0."""
    take_over: Callable[[], tuple[int, int, int] | None] = lambda: None
    """Removes a tile block that has not started from the grid; returns None if none is left."""
    plugins: Mapping[str, Callable[..., object]] = field(
        default_factory=dict[str, Callable[..., object]]
    )
    """External functions supplied by the caller, by name."""
    memo: LoadMemo = field(default_factory=LoadMemo)
    names: ArrayNames = field(default_factory=ArrayNames)
    """The names of the array arguments of the launch in progress."""
    time: TimeLimit | None = None
    """The time limit of the launch in progress."""

    def emit(self, text: str) -> None:
        """Append printed text."""
        self.printed.append(text)
        if self.print_to is not None:
            self.print_to(text)

    def iterations(self, numbers: Iterable[_T]) -> Iterable[_T]:
        """Yield a loop's iterations; raises ``Fault`` at the start of one past the deadline."""
        return numbers if self.time is None else self._in_time(numbers, self.time)

    def _in_time(self, numbers: Iterable[_T], limit: TimeLimit) -> Iterator[_T]:
        for number in numbers:
            limit.check(f"tile block {self.block} was in this loop")
            yield number

    def check_time(self) -> None:
        """Raise ``Fault`` between tile blocks if the deadline has passed."""
        if self.time is not None:
            self.time.check("")

    def check_iterations(self, count: int) -> None:
        """Raise ``Fault`` if a loop is about to exceed the iteration limit; ``count`` includes the next iteration."""
        if count > self.max_iterations:
            raise self.endless_loop()

    def endless_loop(self) -> Fault:
        """Return the fault of a loop that reaches ``max_iterations``."""
        return Fault(
            STEP_LIMIT, f"the loop makes more than {self.max_iterations} iterations, the limit set"
        )
