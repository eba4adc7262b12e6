"""Limits of the time that a launch may take."""

from __future__ import annotations

from tilewright.diagnostics import TileIRError, define_code
from tilewright.launching.assertions import OperationSource

TIME_LIMIT = define_code(
    "time-limit",
    "A launch takes longer than the time that it was given.",
    "`time_limit` in `LaunchOptions`, `--time-limit` and pytest's `--tilewright-time-limit` bound the "
    "seconds of each launch, compilation left out. The place is the loop that a tile block was in when the time "
    "was over; arrays hold what the kernel had written until then.",
)


def over_message(seconds: float, where: str = "") -> str:
    """What is said of a launch whose time is over."""
    return f"the launch has not ended within {seconds:g} s" + (f": {where}" if where else "")


def time_is_over(
    seconds: float, loop: OperationSource | None, block: tuple[int, int, int] | None
) -> TileIRError:
    """The error of a launch that was stopped: in which tile block, in which loop, as far as is known."""
    where = "" if block is None else f"tile block {block} was in this loop"
    return TileIRError.single(
        TIME_LIMIT,
        over_message(seconds, where),
        None if loop is None else loop.location,
        notes=() if loop is None else loop.notes,
    )


def stopped_here(loop: OperationSource, who: str) -> str:
    """The note of an exception that has ended a launch from outside: ``tile block (0, 0, 0)``, or which
    warp, was in this loop."""
    location = ""
    if loop.position is not None:
        location = f"{loop.position[0]}:{loop.position[1]}"
    elif loop.location is not None:
        line = getattr(loop.location, "line", None)
        location = loop.location.file_name + (f":{line}" if line else "")
    return f"tilewright: {who} was in the loop at {location or 'an unknown place'}"
