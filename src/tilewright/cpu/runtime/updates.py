"""Decides which launch may update memory without atomic operations: one on a single thread, while no other launch that updates
memory runs in this process."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class UpdateLock:
    """Launches with atomic operations hold it: many at once, or one alone.

    A launch that is alone does not wait for anything, so that the others wait for its end only. What
    a handler of a signal launches in its midst, on the same thread, does not wait: the first one
    stands still meanwhile.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._owner: int | None = None
        self._key: object = None
        self._shared = 0

    def take(self, key: object) -> bool:
        """Whether the launch is alone now, until ``give_back`` with that key; no other one is waited for."""
        with self._changed:
            taken = self._owner is None and not self._shared
            if taken:
                self._owner, self._key = threading.get_ident(), key
        return taken

    def give_back(self, key: object) -> None:
        """End what ``take`` has begun with a key, if it has: the handler of a signal may have raised right behind it."""
        with self._changed:
            if self._key is key:
                self._owner = self._key = None
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Whether the launch is alone; else it goes with the others."""
        key = object()
        try:
            if self.take(key):
                yield True
                return
        finally:
            self.give_back(key)
        with self.together():
            yield False

    @contextmanager
    def together(self) -> Iterator[None]:
        """Beside others that do not run alone; waits for one that does."""
        me = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: self._owner in (None, me))
            self._shared += 1
        try:
            yield
        finally:
            with self._changed:
                self._shared -= 1


UPDATE_LOCK = UpdateLock()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=UPDATE_LOCK.__init__)
