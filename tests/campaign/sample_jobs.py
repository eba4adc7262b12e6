"""Jobs for tests: processes import them by their names."""

from __future__ import annotations

import os
import signal
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
