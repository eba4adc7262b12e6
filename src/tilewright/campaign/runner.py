"""A campaign: jobs, where they run, and what is kept of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from tilewright.campaign.jobs import Job, Outcome
from tilewright.campaign.store import Store
from tilewright.campaign.worker_processes import LocalProcesses


class Executor(Protocol):
    """Runs jobs somewhere, and gives each one's outcome as soon as it is there."""

    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """The outcome of each job, in the order in which they end."""
        ...

    def close(self) -> None:
        """Stop what still runs, and give back what is held."""
        ...


@dataclass(frozen=True, slots=True)
class Where:
    """Where jobs run: on ``processes`` of this machine (0: one for each processor that there is), or on the Dask
    cluster at an address."""

    processes: int = 0
    dask: str | None = None


@contextmanager
def executor(where: Where) -> Iterator[Executor]:
    """What runs jobs there, until the end of the ``with``."""
    made: Executor
    if where.dask is not None:
        from tilewright.campaign.dask_cluster import DaskCluster

        made = DaskCluster(where.dask)
    else:
        made = LocalProcesses(where.processes or processors())
    try:
        yield made
    finally:
        made.close()


def processors() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_campaign(
    jobs: Sequence[Job],
    running: Executor,
    store: Store,
    *,
    told: Callable[[Outcome, int, int], object] | None = None,
) -> list[Outcome]:
    """The outcome of each job, in their order.

    Those that the store has are not run again; others are stored as soon as they end, so that a campaign that is
    ended resumes where it was. Jobs with one key are run once. ``told`` of each outcome, how many there are, and how many there will be.
    """
    found: dict[str, Outcome] = {}
    wanted: dict[str, Job] = {}
    for job in jobs:
        kept = store.get(job.key)
        if kept is not None:
            found[job.key] = kept
        else:
            wanted.setdefault(job.key, job)
    count, total = 0, len({job.key for job in jobs})
    for kept in found.values():
        count += 1
        if told is not None:
            told(kept, count, total)
    for outcome in running.run(list(wanted.values())) if wanted else ():
        store.add(outcome)
        found[outcome.key] = outcome
        count += 1
        if told is not None:
            told(outcome, count, total)
    return [replace(found[job.key], label=job.label) for job in jobs]
