"""Jobs for tests: processes import them by their names."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tilewright.campaign.jobs import Job, content_key
from tilewright.diagnostics import TileIRError, define_code

REFUSED = define_code("test-campaign-refused", "A job of a test says no.")


def job(name: str, label: str = "", limit: float | None = None, **arguments: object) -> Job:
    """A job of this module."""
    function = f"tests.campaign.sample_jobs:{name}"
    key = content_key(name, repr(sorted(arguments.items())))
    return Job(function, arguments, key, label or name, limit)


def square(number: int) -> int:
    return number * number


def print_much() -> int:
    """Prints through Python and past it: neither may get among the answers."""
    print("x" * 100_000)
    os.write(1, b"y" * 10_000)
    return 1


def refuse() -> None:
    raise TileIRError.single(REFUSED, "not this one")


def fail() -> None:
    raise ZeroDivisionError("by nothing")


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def die() -> None:
    os.write(2, b"the last words\n")
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(marker: str) -> str:
    """Dies the first time, and is well after that."""
    path = Path(marker)
    if not path.exists():
        path.write_text("")
        os._exit(3)
    return "survived"


def count(log: str, number: int) -> int:
    """Writes down that it ran."""
    with open(log, "a") as file:
        file.write(f"{number}\n")
    return number


def wait_with_child(fifo: str, then: str = "") -> None:
    """Both this process and one that it starts hold the fifo open for writing, as long as they live."""
    held = os.open(fifo, os.O_WRONLY)
    os.set_inheritable(held, True)
    waits = [sys.executable, "-c", "import time; time.sleep(600)"]
    subprocess.Popen(waits, close_fds=False)
    os.write(held, b"+")
    if then == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)


def main() -> None:
    """A process with a campaign of two jobs that wait: of a fifo, and of a Dask cluster, or of two processes."""
    from tilewright.campaign.runner import Where, executor

    fifo, *dask = sys.argv[1:]
    jobs = [job("wait_with_child", f"{n}", fifo=fifo) for n in range(2)]
    with executor(Where(dask=dask[0]) if dask else Where(2)) as running:
        for _ in running.run(jobs):
            pass


if __name__ == "__main__":
    main()
