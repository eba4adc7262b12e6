"""Launches that are recorded, for CUDA graphs."""

from __future__ import annotations

import threading
from typing import Any, Protocol


class Capture(Protocol):
    """Records what is done while it is the thread's capture."""

    def before_launch(self, kernel_args: tuple[Any, ...]) -> None:
        """A launch is about to happen: it may write to any of these."""
        ...

    def launched(self, *launch: Any) -> None:
        """A launch has happened; these are the arguments of ``launch_with``."""
        ...


class _OfThread(threading.local):
    capture: Capture | None = None


of_thread = _OfThread()
"""``capture`` is the one of this thread, if there is any."""
