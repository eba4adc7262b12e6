"""Methods that one thread runs at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from tilewright.diagnostics.tracebacks import hides_frames

__tracebackhide__ = hides_frames

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Locked = TypeVar("_Locked", bound="_HasLock")


class _HasLock(Protocol):
    _lock: Any


def one_at_a_time(
    method: Callable[Concatenate[_Locked, _P], _R],
) -> Callable[Concatenate[_Locked, _P], _R]:
    """A method during which other threads wait that call such methods of the same object.

    The object has :func:`new_lock` as ``_lock``. The thread that is in one may call others: a kernel can call back.
    """

    @wraps(method)
    def alone(self: _Locked, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with self._lock:
            return method(self, *args, **kwargs)

    return alone


#: What ``_lock`` is, for each object.
new_lock = RLock
