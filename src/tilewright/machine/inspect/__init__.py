"""Looking inside a run: stopping at operations, statistics of tiles, traces.

    stops = [break_at(module, line=31)]
    run_with(module, "add", 8, args, LaunchOptions(breakpoints=stops))

Plain runs know nothing of it: hooks are put in when a kernel is translated for such a run.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.machine.inspect.breakpoints import Breakpoint, break_at
    from tilewright.machine.inspect.runner import InspectedRun, run_with
    from tilewright.machine.inspect.stats import TileStats, tile_stats
    from tilewright.machine.inspect.stops import Stop, StopRun, print_stop
    from tilewright.machine.inspect.trace import AccessRecord, OpRecord, Trace, ValueRecord

_HOMES = {
    "AccessRecord": "trace",
    "Breakpoint": "breakpoints",
    "InspectedRun": "runner",
    "OpRecord": "trace",
    "Stop": "stops",
    "StopRun": "stops",
    "TileStats": "stats",
    "Trace": "trace",
    "ValueRecord": "trace",
    "break_at": "breakpoints",
    "print_stop": "stops",
    "run_with": "runner",
    "tile_stats": "stats",
}

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


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
