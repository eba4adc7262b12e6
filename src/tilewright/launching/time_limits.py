"""Time limits of launches."""

from __future__ import annotations

from tilewright.diagnostics import TileIRError, define_code
from tilewright.launching.assertions import OperationSource

TIME_LIMIT = define_code(
    "time-limit",
    "A launch exceeds its time limit.",
    "`time_limit` in `LaunchOptions`, `--time-limit` and pytest's `--tilewright-time-limit` bound "
    "the seconds of each launch, not counting compilation. The location is the loop that a tile "
    "block was in; arrays hold what the kernel had written until then.",
    help="raise the time limit if the kernel is meant to run longer, else look for a loop that "
    "does not end",
)


def over_message(seconds: float, where: str = "") -> str:
    """The message for a launch that exceeded its time limit of ``seconds``."""
    return f"the launch exceeded its time limit of {seconds:g} s" + (f": {where}" if where else "")


def time_is_over(
    seconds: float, loop: OperationSource | None, block: tuple[int, int, int] | None
) -> TileIRError:
    """The error of a launch that was stopped: with the tile block and loop, if known."""
    where = "" if block is None else f"tile block {block} was in this loop"
    return TileIRError.single(
        TIME_LIMIT,
        over_message(seconds, where),
        None if loop is None else loop.location,
        notes=() if loop is None else loop.notes,
    )


def stopped_here(loop: OperationSource, who: str) -> str:
    """The note on an exception that interrupted a launch: the loop that ``who``, such as ``tile block (0, 0, 0)`` or a
    warp, was in.
    """
    location = ""
    if loop.position is not None:
        location = f"{loop.position[0]}:{loop.position[1]}"
    elif loop.location is not None:
        line = getattr(loop.location, "line", None)
        location = loop.location.file_name + (f":{line}" if line else "")
    return f"tilewright: {who} was in the loop at {location or 'an unknown location'}"
