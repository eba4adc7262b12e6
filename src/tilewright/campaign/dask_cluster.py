"""Runs jobs on a Dask cluster (the extra ``dask``)."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from tilewright.campaign.codes import NO_DASK
from tilewright.campaign.jobs import Job, Outcome, Status
from tilewright.campaign.worker_processes import Worker
from tilewright.diagnostics import TileIRError

_CONNECT_SECONDS = 15
#: The interval in seconds at which to check that a task is still wanted.
_LOOKS = 0.5
_of_thread = threading.local()


def run_apart(job: Job) -> Outcome:
    """As a task of a Dask worker, run a job in a process that belongs to this thread. The process is ended if the task
    is cancelled or its client is gone.
    """
    distributed: Any = import_module("distributed")
    dask_worker: Any = distributed.get_worker()
    key = dask_worker.get_current_task()
    if not hasattr(_of_thread, "worker"):
        _of_thread.worker = Worker()
    worker: Worker = _of_thread.worker
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_LOOKS):
            task = dask_worker.state.tasks.get(key)
            if task is None or task.state == "cancelled":
                worker.close()
                return

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        return worker.ask(job)
    finally:
        ended.set()
        watching.join()
        if worker.is_closed:
            del _of_thread.worker


class DaskCluster:
    """Runs jobs on the workers of the scheduler at an address, such as ``tcp://10.0.0.1:8786``.

    Each job runs in a process of its own beside the worker, so that a crash or timeout does not affect others. If a
    worker dies, the scheduler reassigns its jobs. Raises ``TileIRError`` if the package is missing or the scheduler
    does not answer.
    """

    def __init__(self, address: str):
        try:
            distributed: Any = import_module("distributed")
        except ImportError as error:
            raise TileIRError.single(
                NO_DASK,
                "a Dask cluster needs the package 'distributed', which is not installed",
                help="pip install 'tilewright[dask]'",
            ) from error
        self._distributed = distributed
        try:
            self._client: Any = distributed.Client(address, timeout=_CONNECT_SECONDS)
        except (OSError, ValueError) as error:
            raise TileIRError.single(
                NO_DASK, f"no Dask scheduler answers at '{address}': {error}"
            ) from error

    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """Yield the outcomes in order of completion."""
        futures = {
            self._client.submit(run_apart, job, key=f"{job.label}-{job.key}", pure=False): job
            for job in jobs
        }
        for future in self._distributed.as_completed(list(futures)):
            job = futures[future]
            if future.status == "finished":
                yield future.result()
                continue
            error = future.exception() if future.status == "error" else future.status
            yield Outcome(job.key, job.label, Status.LOST, reason=" ".join(str(error).split()))

    def close(self) -> None:
        """Disconnect from the cluster, which cancels our running jobs."""
        self._client.close()
