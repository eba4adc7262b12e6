"""Room for recursion over nested regions."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock

#: Python frames that the deepest allowed nesting takes, with room to spare.
_FRAMES = 12_000


class _SharedLimit:
    """Python's recursion limit while at least one thread needs it raised.

    The limit belongs to the process, not to a thread. So the first thread that enters raises it
    and the last that leaves restores it: a thread that restored what it found on its own would cut
    off the others, or keep the raised limit for good.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._before = 0

    def enter(self) -> None:
        with self._lock:
            current = sys.getrecursionlimit()
            if self._users == 0:
                self._before = current
            # Also for a later one: somebody else may have lowered the limit meanwhile.
            if current < _FRAMES:
                sys.setrecursionlimit(_FRAMES)
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            # A limit that somebody else has set in the meantime is theirs to keep.
            if self._users == 0 and sys.getrecursionlimit() == _FRAMES > self._before:
                sys.setrecursionlimit(self._before)


_limit = _SharedLimit()


@contextmanager
def deep_recursion() -> Generator[None, None, None]:
    """Raise Python's recursion limit while IR is read, printed, changed, compiled or run: it counts frames,
    those of the caller too, of which one level of nesting takes several, and would refuse what our own limits
    allow. Also a decorator.

    May be nested, and used by several threads at once: all see the raised limit until they leave,
    and the process has its former limit when the last has left.
    """
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()
