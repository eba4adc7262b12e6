"""Worker processes of this machine. If one dies or hangs, it is replaced, and the others continue."""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import IO, Any

from tilewright.campaign.jobs import Job, Outcome, Status

#: The attempts at a job whose process dies.
ATTEMPTS = 2
_SHOWN = 300


class Worker:
    """A process that runs jobs one at a time; started on demand, and restarted after it died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._lock = threading.Lock()
        self._is_closed = False

    def ask(self, job: Job) -> Outcome:
        """Run a job; returns its outcome, ``lost`` if the process died in every attempt. Blocks until it has ended."""
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

    @property
    def is_closed(self) -> bool:
        """Whether the worker has been closed."""
        return self._is_closed

    def end(self) -> None:
        """Kill the process and start no other. Thread-safe."""
        with self._lock:
            self._is_closed = True
            if self._process is not None:
                _kill(self._process)

    def close(self) -> None:
        """``end`` the process and wait for it."""
        self.end()
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.wait()

    def _try(self, job: Job) -> Outcome | tuple[Status, str]:
        process = self._started()
        if process is None:
            return Status.LOST, "the campaign was stopped"
        assert process.stdin is not None and process.stdout is not None
        late = threading.Event()

        def end() -> None:
            late.set()
            _kill(process)

        timer = None if job.time_limit is None else threading.Timer(job.time_limit, end)
        if timer is not None:
            timer.start()
        try:
            pickle.dump(job, process.stdin)
            process.stdin.flush()
            outcome = pickle.load(process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            # Its child processes may still be running.
            _kill(process)
            status = process.wait()
            said = self._last_words()
            self._process = None
            if late.is_set():
                return Status.LATE, f"it took longer than {job.time_limit:g} s"
            return Status.LOST, f"its process crashed {ATTEMPTS} times, with status {status}{said}"
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
                    # A process group of its own, so that child processes end with it. Ctrl-C goes to the parent, which
                    # ends it.
                    start_new_session=True,
                )
            return self._process

    def _last_words(self) -> str:
        if self._errors is None:
            return ""
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return f": {said[-1][:_SHOWN]}" if said else ""


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a worker and its process group. Does nothing once it has been waited for: its id may have been reused."""
    if process.returncode is not None:
        return
    if sys.platform == "win32":
        process.kill()
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        # It has not created its group yet.
        process.kill()


class LocalProcesses:
    """Runs jobs on ``count`` processes of this machine. Closing it, or leaving its ``with`` statement, ends them."""

    def __init__(self, count: int):
        self._workers = [Worker() for _ in range(max(1, count))]

    def __enter__(self) -> LocalProcesses:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def close(self) -> None:
        """End all processes."""
        # Kill all before waiting for any: a second Ctrl-C may interrupt the waits.
        for worker in self._workers:
            worker.end()
        for worker in self._workers:
            worker.close()

    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """Yield the outcomes in order of completion."""
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
    """Runs jobs sequentially in this process; for few small ones. Time limits have no effect."""

    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """Yield the outcomes in the order of the jobs."""
        from tilewright.campaign.jobs import run_job

        for job in jobs:
            yield run_job(job)

    def close(self) -> None:
        """There is nothing to release."""
