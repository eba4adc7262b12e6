"""Launches that are recorded, for CUDA graphs."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, NoReturn, Protocol

#: The work on each stream that comes before something: how many pieces.
Clock = Mapping[int, int]


class Capture(Protocol):
    """Records what is done while it is the thread's capture."""

    def takes(self, stream: int) -> bool:
        """Whether what is put on a stream, given by its number, is recorded. Work on any other is done as usual."""
        ...

    def before_launch(self, kernel_args: tuple[Any, ...]) -> None:
        """A launch is about to happen: it may write to any of these."""
        ...

    def launched(self, stream: int, *launch: Any) -> None:
        """A launch has happened on a stream; these are the arguments of ``launch_with``."""
        ...

    def clock(self, stream: int) -> Clock:
        """The work that an event on a recorded stream comes after."""
        ...

    def wait(self, stream: int, clock: Clock | None) -> None:
        """A stream waits for recorded work, and is recorded from now on; for None, which is work that is not recorded, CUDA's
        error where the stream is."""
        ...

    def record(self, event: Any) -> None:
        """An event is to be recorded at each replay."""
        ...

    def fail(self, reason: str) -> NoReturn:
        """CUDA's error of something that cannot be captured; the capture has failed with it."""
        ...


class _OfThread(threading.local):
    capture: Capture | None = None


of_thread = _OfThread()
"""``capture`` is the one of this thread, if there is any."""


def capture_of(stream: int) -> Capture | None:
    """The capture of this thread, if it records what is put on the stream."""
    capture = of_thread.capture
    return capture if capture is not None and capture.takes(stream) else None


def check_waiting(stream: int) -> None:
    """The host waits for a stream, which CUDA does not allow while it is captured."""
    capture = capture_of(stream)
    if capture is not None:
        capture.fail("operation not permitted when stream is capturing")
