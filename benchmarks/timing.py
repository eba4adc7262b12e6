"""Repeated measurements and their medians."""

from __future__ import annotations

import math
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_SETTLING = 0.01
#: How long to wait at most for threads to sleep, how long to look at once, and what part of that idle ones take.
_LONGEST_WAIT, _LOOK, _IDLE = 0.3, 0.01, 0.05
_MOST_RUNS = 41
#: How long a job runs uncounted to wake the machine.
_WAKING = 0.004


@dataclass(frozen=True, slots=True)
class Sample:
    """Seconds of several runs."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> str:
        return f"{min(self.seconds):.4g}..{max(self.seconds):.4g}"


def timed(job: Callable[[], object]) -> Callable[[], float]:
    """A job that tells how many seconds it took."""

    def measure() -> float:
        start = time.perf_counter()
        job()
        return time.perf_counter() - start

    return measure


def processor_timed(job: Callable[[], object]) -> Callable[[], float]:
    """A job that tells how many seconds of processor time all threads of this process took, also those
    that they spent waiting for another job."""

    def measure() -> float:
        start = time.process_time()
        job()
        # The time of a thread that still runs is not counted.
        time.sleep(_SETTLING)
        return time.process_time() - start

    return measure


def interleaved(jobs: dict[str, Callable[[], object]], runs: int) -> dict[str, Sample]:
    """Time jobs in turn, A B A B, so that a drift of the machine meets all alike.

    One uncounted round goes first.
    """
    return interleaved_reports({name: timed(job) for name, job in jobs.items()}, runs)


def interleaved_reports(
    jobs: dict[str, Callable[[], float]],
    runs: int,
    *,
    pause: float = 0.0,
    awake: bool = False,
    quiet: bool = False,
    long_enough: float = 0.0,
) -> dict[str, Sample]:
    """As ``interleaved``, for jobs that tell their seconds themselves.

    ``pause``: seconds before each, in which threads that others have left spinning can stop.
    ``awake``: each runs uncounted for some milliseconds right before it is measured. A virtual machine that was idle
    gives its threads one processor for as long, before it wakes the next, and clocks and pages come back by and by:
    what wrote 12 MB in 0.22 ms again and again takes 0.94 ms first after 30 ms of sleep, then 0.53, 0.38 and 0.27.
    ``quiet``: each begins when no thread of this process works any more. Those of OpenBLAS look for work for
    tens of milliseconds when a product is done, and take a core from who runs next.
    ``long_enough``: seconds that a job is to run in all; short ones, which other work on the machine
    disturbs most, run up to ``_MOST_RUNS`` times for that.
    """

    def measure(job: Callable[[], float]) -> float:
        time.sleep(pause)
        if quiet:
            _wait_for_quiet()
        if awake:
            _wake(job)
        return job()

    first = [measure(job) for job in jobs.values()]
    wanted = math.ceil(long_enough / max(*first, 1e-9))
    runs = max(runs, min(wanted, _MOST_RUNS))
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(runs):
        for name, job in jobs.items():
            times[name].append(measure(job))
    return {name: Sample(tuple(found)) for name, found in times.items()}


def _wake(job: Callable[[], object]) -> None:
    end = time.monotonic() + _WAKING
    job()
    while time.monotonic() < end:
        job()


def _wait_for_quiet() -> None:
    """Wait until the threads of this process sleep, but not for long."""
    end = time.monotonic() + _LONGEST_WAIT
    while time.monotonic() < end:
        used = time.process_time()
        time.sleep(_LOOK)
        if time.process_time() - used < _IDLE * _LOOK:
            return


def process(command: Sequence[str]) -> Callable[[], object]:
    """A job that runs a whole process and throws its output away."""

    def job() -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    return job
