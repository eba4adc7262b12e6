"""Raises the recursion limit for nested regions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

#: The Python frames needed by the deepest allowed nesting, with a margin.
_FRAMES = 12_000


class _SharedLimit:
    """Python's recursion limit while at least one thread needs it raised.

    The limit belongs to the process, not to a thread, so the first thread that enters raises it and the last
    one that leaves restores it. If each thread restored the value it found, it would cut off the others, or
    leave the limit raised for good.
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
            # Not only for the first: somebody else may have lowered the limit meanwhile.
            if current < _FRAMES:
                sys.setrecursionlimit(_FRAMES)
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            # Keep a limit that somebody else has set meanwhile.
            if self._users == 0 and sys.getrecursionlimit() == _FRAMES > self._before:
                sys.setrecursionlimit(self._before)


_limit = _SharedLimit()


class deep_recursion:
    """Raises Python's recursion limit while IR is read, printed, changed, compiled or run.

    The limit counts frames, including the caller's, and one nesting level takes several, so the default limit
    would reject IR that our own limits allow. Usable as a context manager or decorator; its frame is left out
    of tracebacks shown to users.

    May be nested, and used by several threads at once: all see the raised limit until they leave, and the
    process gets its former limit back when the last one leaves.
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
