"""Timing launches for cuTile's autotuner."""

from __future__ import annotations

import time
from typing import Any

from tilewright.cutile.launching import checked_launch
from tilewright.cutile.scope import Settings


def measured(settings: Settings, stream: Any, grid: Any, kernel: Any, arguments: Any) -> float:
    """The microseconds that a launch takes on the machine of the settings.

    A kernel that is not compiled yet for such arguments is compiled first, outside the time.
    """
    dispatcher, extents = checked_launch(stream, grid, kernel, arguments)
    dispatcher.prepare(arguments, settings)
    started = time.perf_counter()
    dispatcher.launch(extents, arguments, settings)
    return (time.perf_counter() - started) * 1e6
