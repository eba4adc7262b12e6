"""Grids whose tile blocks wait for one another: every block that has begun has a thread of its own.

Blocks begin in ascending order, as many at once as ``IN_FLIGHT`` allows; more begin as others end. As
on a GPU, a block must not wait for one that begins only after it has ended.

A thread cannot be seen to wait, so a deadlock is told from its outcome: no block ends although all
of them have used a lot of processor time. Generated code looks at the stop flag in loops that
wait, which is how it is ended then, and on Ctrl-C.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tilewright.cpu.runtime.driver import LaunchState
from tilewright.cpu.runtime.pool import POOL, Progress, Worker
from tilewright.diagnostics import TileIRError
from tilewright.launching.codes import DEADLOCK

if TYPE_CHECKING:
    from collections.abc import Sequence

IN_FLIGHT = 512
PATIENCE = 10.0
"""Seconds of processor time for each block in flight, in which none of them ends."""

_LOOK = 0.05
_TIME_TO_STOP = 5.0

# Threads that did not stop still use their launch; it must never be freed.
_lost: list[object] = []


def run_waiting(
    state: LaunchState,
    arena_bytes: int,
    *,
    progress: Progress | None = None,
    patience: float = PATIENCE,
) -> None:
    """Run all blocks of a launch, unless it is stopped on the way. A TileIRError where the blocks seem
    to wait for ever."""
    state.chunk = 1
    with POOL.exclusively(min(state.total, IN_FLIGHT)) as workers:
        for worker in workers:
            worker.get_ready(arena_bytes)
        begun: list[Worker] = []
        try:
            for worker in workers:
                begun.append(worker)
                worker.begin(state, arena_bytes, 0)
            _watch(state, begun, progress, patience)
        finally:
            _stop(state, begun)


def _watch(
    state: LaunchState, running: list[Worker], progress: Progress | None, patience: float
) -> None:
    """Wait for the workers, which are taken out of the list as they end."""
    seen, since = -1, 0.0
    while running:
        if running[-1].wait(_LOOK):
            running.pop()
        if state.finished != seen:
            seen, since = state.finished, time.process_time()
            if progress is not None:
                progress(seen, state.total)
        elif running and time.process_time() - since > patience * len(running):
            in_flight = min(state.next, state.total) - state.finished
            raise TileIRError.single(
                DEADLOCK,
                f"{state.finished} of {state.total} tile blocks have ended, and {in_flight} seem "
                f"to wait for ever: in {patience:g} s of processor time for each none has ended",
                help=f"at most {IN_FLIGHT} tile blocks are in flight at once, the first ones first; "
                "`tilewright run` on the reference machine finds deadlocks exactly",
            )


def _stop(state: LaunchState, running: Sequence[Worker]) -> None:
    """Make the threads that still run end; those that do not are given up."""
    if not running:
        return
    state.stop = 1
    deadline = time.monotonic() + _TIME_TO_STOP
    for worker in running:
        if not worker.wait(max(0.0, deadline - time.monotonic())):
            POOL.give_up(worker)
            _lost.append((worker, state))
