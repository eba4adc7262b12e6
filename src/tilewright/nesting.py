"""Room for recursion over nested regions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

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


class deep_recursion:
    """Raises Python's recursion limit while IR is read, printed, changed, compiled or run: it counts frames,
    those of the caller too, of which one level of nesting takes several, and would refuse what our own limits
    allow. A context, or a decorator, whose frame is ours: tracebacks that are shown leave it out.

    May be nested, and used by several threads at once: all see the raised limit until they leave,
    and the process has its former limit when the last has left.
    """

    def __enter__(self) -> None:
        _limit.enter()

    def __exit__(self, *_: object) -> None:
        _limit.leave()

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        @wraps(function)
        def deeply(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            with self:
                return function(*args, **kwargs)

        return deeply
