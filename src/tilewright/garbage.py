"""Cyclic garbage collection, kept rare while a module is read, changed or compiled.

IR is full of cycles (an operation knows its block, and the block its operations) and nearly all of it
outlives the work that makes it, so that a collection walks a growing heap and frees next to nothing: at
Python's thresholds that is half of the time of a compilation.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

#: New objects between two collections of the youngest ones, in such a stretch.
OBJECTS = 100_000
#: A stretch in which so many modules were imported has made objects that stay, most of all.
_MODULES = 10


_P = ParamSpec("_P")
_R = TypeVar("_R")


class RareCollections:
    """A context, or a decorator, in which collections are rare, in all threads of the process.

    Nested stretches, and those of several threads, count as one. Behind the last one the thresholds are
    what they were, unless somebody else has set them in between.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._before = gc.get_threshold()
        self._modules = 0

    def __enter__(self) -> None:
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._before, self._modules = gc.get_threshold(), len(sys.modules)
                if 0 < self._before[0] < OBJECTS:
                    gc.set_threshold(OBJECTS, *self._before[1:])

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0 and gc.get_threshold() == (OBJECTS, *self._before[1:]):
                if len(sys.modules) - self._modules >= _MODULES:
                    _count_as_old()
                gc.set_threshold(*self._before)

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        @wraps(function)
        def rarely(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            with self:
                return function(*args, **kwargs)

        return rarely


def _count_as_old() -> None:
    """Let all objects be among the oldest, which are rarely looked through: else the next collection of the
    youngest walks all that imports have made. Nothing is done where somebody keeps objects from collections."""
    if hasattr(gc, "freeze") and gc.get_freeze_count() == 0:
        gc.freeze()
        gc.unfreeze()


#: The one of the process.
rare_collections = RareCollections()
