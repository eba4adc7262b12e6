"""Inspecting a run: breakpoints at operations, statistics of tiles, traces.

    stops = [break_at(module, line=31)]
    run_with(module, "add", 8, args, LaunchOptions(breakpoints=stops))

Plain runs pay nothing for it: hooks are inserted when a kernel is translated for an inspected run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.lazy import lazy_names

if TYPE_CHECKING:
    from tilewright.machine.inspect.breakpoints import Breakpoint, break_at
    from tilewright.machine.inspect.runner import InspectedRun, run_with
    from tilewright.machine.inspect.stats import TileStats, tile_stats
    from tilewright.machine.inspect.stops import Stop, StopRun, print_stop
    from tilewright.machine.inspect.trace import AccessRecord, OpRecord, Trace, ValueRecord


__all__ = [
    "AccessRecord",
    "Breakpoint",
    "InspectedRun",
    "OpRecord",
    "Stop",
    "StopRun",
    "TileStats",
    "Trace",
    "ValueRecord",
    "break_at",
    "print_stop",
    "run_with",
    "tile_stats",
]

__getattr__, __dir__ = lazy_names(
    globals(),
    {
        "breakpoints": "Breakpoint break_at",
        "runner": "InspectedRun run_with",
        "stats": "TileStats tile_stats",
        "stops": "Stop StopRun print_stop",
        "trace": "AccessRecord OpRecord Trace ValueRecord",
    },
)
