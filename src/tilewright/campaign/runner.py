"""Runs campaigns: jobs, an executor, and a store of outcomes."""

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
    """Runs jobs, and yields each outcome as soon as it is available."""

    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """Yield the outcome of each job, in order of completion."""
        ...

    def close(self) -> None:
        """Stop running jobs and release resources."""
        ...


@dataclass(frozen=True, slots=True)
class Where:
    """Where jobs run: on ``processes`` of this machine (0: one per processor), or on the Dask cluster at an address."""

    processes: int = 0
    dask: str | None = None


@contextmanager
def executor(where: Where) -> Iterator[Executor]:
    """The executor for ``where``, closed at the end of the ``with`` statement.

    Raises ``TileIRError`` where a cluster does not answer, or its package is missing.
    """
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
    """The number of processors available to this process."""
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
    """Run the jobs; returns their outcomes in order.

    Stored outcomes are reused; others are stored as soon as they complete, so that an interrupted campaign can be
    resumed. Jobs with equal keys run once. ``told`` is called with each outcome, their number so far, and their
    total. A job that raises has that as its outcome; only the store raises ``TileIRError``, if it cannot be written.
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
