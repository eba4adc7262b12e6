"""Which warp was in which loop when an outside exception, such as KeyboardInterrupt, ended a launch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import FrameType, GeneratorType, TracebackType
from typing import TYPE_CHECKING

from xdsl.dialects import scf
from xdsl.ir import Operation

from tilewright.launching.assertions import OperationSource
from tilewright.launching.time_limits import stopped_here
from tilewright.simulator.ops.control import Graph
from tilewright.simulator.state import Coroutine, Warp

if TYPE_CHECKING:
    from tilewright.simulator.schedule import Schedule

_LOOPS = (scf.ForOp, scf.WhileOp, scf.ParallelOp)


def note_loop(error: BaseException, clusters: Iterable[Schedule]) -> None:
    """Add a note to an exception: which warp was in which loop. Nothing outside of loops.

    A launch does not track its position. It is found in the frames that the exception has passed, or, if it was raised
    between two steps, in those of the first warp of the clusters that is in a loop.
    """
    found = _innermost(_passed(error.__traceback__))
    for cluster in clusters if found is None else ():
        for coroutine in cluster.coroutines.values():
            found = found or _innermost(_suspended(coroutine))
    if found is not None:
        warp, loop = found
        error.add_note(stopped_here(OperationSource.of(loop), warp.name()))


def _passed(traceback: TracebackType | None) -> Iterator[FrameType]:
    while traceback is not None:
        yield traceback.tb_frame
        traceback = traceback.tb_next


def _suspended(coroutine: Coroutine) -> Iterator[FrameType]:
    inner: object = coroutine
    while isinstance(inner, GeneratorType):
        if inner.gi_frame is not None:
            yield inner.gi_frame
        inner = inner.gi_yieldfrom


def _innermost(frames: Iterable[FrameType]) -> tuple[Warp, Operation] | None:
    """The innermost loop that these frames execute; they are ordered from the outside in."""
    found: tuple[Warp, Operation] | None = None
    for frame in frames:
        names = frame.f_locals
        warp, runs = names.get("warp"), names.get("self")
        if not isinstance(warp, Warp):
            continue
        if isinstance(runs, Graph):
            loop = runs.loop_around(names.get("current"))
        else:
            loop = names.get("op", getattr(runs, "op", None))
            loop = loop if isinstance(loop, _LOOPS) else None
        if loop is not None:
            found = warp, loop
    return found
