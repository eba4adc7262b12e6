"""A worker process: reads jobs from standard input, and writes outcomes to the original standard output.

It ends together with its parent, however that ends, and kills the processes that jobs have started.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import sys
import threading
import time
import traceback
from typing import IO, NoReturn

from tilewright.campaign.jobs import Job, run_job

#: The interval in seconds at which to check that the parent is alive.
_LOOKS = 0.5


def main() -> None:
    """Read jobs from standard input and write outcomes to standard output, until the parent is gone."""
    # A program under Tilewright makes its children hosts as well (cutile/children.py); this one is none.
    os.environ.pop("TILEWRIGHT_HOSTED", None)
    asked, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # Output of jobs, including that of native code, must not mix with outcomes, and they must not read the job stream.
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(asked, jobs), daemon=True).start()
    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()
    while True:
        pickle.dump(run_job(jobs.get()), answers)
        answers.flush()


def _read(asked: IO[bytes], jobs: queue.SimpleQueue[Job]) -> None:
    """Read jobs as they arrive; the end of the input ends the process."""
    try:
        while True:
            jobs.put(pickle.load(asked))
    except EOFError:
        _end()
    except BaseException:  # noqa: BLE001 (the last words of this process tell it)
        traceback.print_exc()
        _end()


def _watch(parent: int) -> None:
    """End the process when the parent is gone. The input ends then too, unless another process has inherited its write
    end.
    """
    while os.getppid() == parent:
        time.sleep(_LOOKS)
    _end()


def _end() -> NoReturn:
    """End this process and those that it has started, which are in its process group if it leads one."""
    if sys.platform != "win32" and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    main()
