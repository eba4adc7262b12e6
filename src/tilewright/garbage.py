"""Makes cyclic garbage collection rare while a module is read, changed or compiled.

IR is full of cycles (an operation refers to its block, and the block to its operations), and nearly all of
it outlives the work that creates it. A collection therefore walks a growing heap and frees next to nothing:
with Python's default thresholds, half of a compilation's time.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

#: The number of new objects between collections of the youngest generation while the context is active.
OBJECTS = 100_000
#: After this many module imports, the new objects are mostly permanent.
_MODULES = 10


_P = ParamSpec("_P")
_R = TypeVar("_R")


class RareCollections:
    """A context manager or decorator during which collections are rare, in all threads of the process.

    Nested contexts, and those of several threads, count as one. After the last one exits, the thresholds are
    restored, unless somebody else has changed them meanwhile.
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
    """Move all objects to the oldest generation, which is rarely scanned. Otherwise the next collection of the
    youngest would walk everything that imports have created. Does nothing if objects are frozen by somebody else."""
    if hasattr(gc, "freeze") and gc.get_freeze_count() == 0:
        gc.freeze()
        gc.unfreeze()


#: The instance of this process.
rare_collections = RareCollections()
