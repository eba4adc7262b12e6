"""Processes of this machine that run jobs. One may die, or hang: the others go on, and it is replaced."""

from __future__ import annotations

import pickle
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import IO, Any

from tilewright.campaign.jobs import Job, Outcome, Status

#: How often a job is tried whose process dies.
ATTEMPTS = 2
_SHOWN = 300


class Worker:
    """A process for jobs, one after the other; started by the first, and again where it died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._lock = threading.Lock()
        self._is_closed = False

    def ask(self, job: Job) -> Outcome:
        """The outcome of a job, however it ends; ``lost`` where the process died each time."""
        reason = ""
        started = time.monotonic()
        for _ in range(ATTEMPTS):
            outcome = self._try(job)
            if isinstance(outcome, Outcome):
                return outcome
            status, reason = outcome
            if status is Status.LATE or self._is_closed:
                break
        else:
            status = Status.LOST
        seconds = time.monotonic() - started
        return Outcome(job.key, job.label, status, reason=reason, seconds=seconds)

    def close(self) -> None:
        """End the process, whatever it does. May be called by another thread."""
        with self._lock:
            self._is_closed = True
            process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def _try(self, job: Job) -> Outcome | tuple[Status, str]:
        process = self._started()
        if process is None:
            return Status.LOST, "the campaign was ended"
        assert process.stdin is not None and process.stdout is not None
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        timer = None if job.time_limit is None else threading.Timer(job.time_limit, end)
        if timer is not None:
            timer.start()
        try:
            pickle.dump(job, process.stdin)
            process.stdin.flush()
            outcome = pickle.load(process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            status = process.wait()
            said = self._last_words()
            self._process = None
            if late.is_set():
                return Status.LATE, f"it took longer than {job.time_limit:g} s"
            return Status.LOST, f"its process died {ATTEMPTS} times, with status {status}{said}"
        finally:
            if timer is not None:
                timer.cancel()
        assert isinstance(outcome, Outcome)
        return outcome

    def _started(self) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if self._is_closed:
                return None
            if self._process is None:
                self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the process)
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "tilewright.campaign.worker"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._errors,
                )
            return self._process

    def _last_words(self) -> str:
        if self._errors is None:
            return ""
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return f": {said[-1][:_SHOWN]}" if said else ""


class LocalProcesses:
    """Runs jobs on processes of this machine, ``count`` at once. Closing it, or leaving its ``with``, ends them."""

    def __init__(self, count: int):
        self._workers = [Worker() for _ in range(max(1, count))]

    def __enter__(self) -> LocalProcesses:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def close(self) -> None:
        for worker in self._workers:
            worker.close()

    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """The outcomes, as they come."""
        waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
        for job in jobs:
            waiting.put(job)
        done: queue.SimpleQueue[Outcome | BaseException] = queue.SimpleQueue()

        def serve(worker: Worker) -> None:
            while True:
                try:
                    job = waiting.get_nowait()
                except queue.Empty:
                    return
                try:
                    done.put(worker.ask(job))
                except BaseException as error:  # noqa: BLE001 (who waits must hear of it)
                    done.put(error)
                    return

        for worker in self._workers[: len(jobs)]:
            threading.Thread(target=serve, args=(worker,), daemon=True).start()
        for _ in jobs:
            outcome = done.get()
            if isinstance(outcome, BaseException):
                raise outcome
            yield outcome


class InProcess:
    """Runs jobs in this process, one after the other: for few and small ones. Time limits do not hold."""

    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        from tilewright.campaign.jobs import run_job

        for job in jobs:
            yield run_job(job)

    def close(self) -> None:
        """Nothing is held."""


_of_thread = threading.local()


def run_apart(job: Job) -> Outcome:
    """Run a job in a process that belongs to this thread: as a task of others' clusters, whose workers
    may have several threads."""
    if not hasattr(_of_thread, "worker"):
        _of_thread.worker = Worker()
    return _of_thread.worker.ask(job)
