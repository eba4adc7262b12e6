"""Keeps helping threads off the processor of the launching thread.

A thread that is woken often begins on the processor of the one that wakes it, and shares it until the system notices,
some milliseconds later: too late for most launches. Where the system allows it, helping threads may run on every
processor that the process may use, except that one.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache

ANYWHERE = -1
"""No processor to stay away from."""


@cache
def _current() -> Callable[[], int] | None:
    """The system's function that gives the processor of the calling thread."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    function = getattr(ctypes.CDLL(None), "sched_getcpu", None)
    if function is None or function() < 0:
        return None
    return function


def own_processor() -> int:
    """The number of the processor that the calling thread is on; ANYWHERE where nothing can be done about it."""
    function = _current()
    return ANYWHERE if function is None else function()


def keep_away(thread: int | None, processor: int) -> None:
    """Let a thread (by its number in the system) run where the calling thread may, but for one processor.

    Nothing changes where the calling thread is bound to a single one.
    """
    if thread is None or _current() is None:
        return
    with suppress(OSError):
        usable = os.sched_getaffinity(0)
        if len(usable) > 1:
            os.sched_setaffinity(thread, usable - {processor})
