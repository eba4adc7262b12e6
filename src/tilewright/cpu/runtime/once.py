"""Values that a process computes once, whichever thread needs them first."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def once(make: Callable[[], _T]) -> Callable[[], _T]:
    """A function that makes a thing when it is first called, and always gives that one.

    ``functools.cache`` lets threads that come together make one each; code that is loaded into the
    process must not come twice, since the one that nobody keeps is unloaded.
    """
    found: list[_T] = []
    lock = threading.Lock()

    def get() -> _T:
        if not found:
            with lock:
                if not found:
                    found.append(make())
        return found[0]

    get.__doc__ = make.__doc__
    return get
