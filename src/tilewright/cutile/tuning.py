"""Timing launches for cuTile's autotuner."""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from multiprocessing.connection import Connection, Pipe
from typing import Any

from tilewright.cutile.launching import Dispatcher, checked_launch
from tilewright.cutile.settings import Settings
from tilewright.diagnostics.tracebacks import hides_frames

__tracebackhide__ = hides_frames


def measured(settings: Settings, stream: Any, grid: Any, kernel: Any, arguments: Any) -> float:
    """The microseconds that a launch takes on the machine of the settings.

    A kernel that is not compiled yet for such arguments is compiled first, outside the time. Raises as a launch does.
    """
    dispatcher, extents = checked_launch(stream, grid, kernel, arguments)
    dispatcher.prepare(arguments, settings)
    return _timed(dispatcher, extents, arguments, settings)


def measured_in_time(
    settings: Settings, stream: Any, grid: Any, kernel: Any, arguments: Any, seconds: float
) -> float:
    """:func:`measured`; cuTile's ``TileLaunchTimeoutError`` where the launch takes longer than ``seconds``.

    It is tried in a process of its own, forked for it, and made here once it has ended there; so
    nothing is left of one that takes too long. Where the system cannot fork, the time is looked at
    when it is over. Raises as a launch does.
    """
    dispatcher, extents = checked_launch(stream, grid, kernel, arguments)
    dispatcher.prepare(arguments, settings)
    if hasattr(os, "fork"):
        quiet = replace(settings.options, print_to=lambda text: None)
        silent = replace(settings, trace=None, on_launch=None, options=quiet)
        _try_apart(lambda: dispatcher.launch(extents, arguments, silent), seconds)
        return _timed(dispatcher, extents, arguments, settings)
    microseconds = _timed(dispatcher, extents, arguments, settings)
    if microseconds > seconds * 1e6:
        raise _too_long(seconds)
    return microseconds


def _timed(
    dispatcher: Dispatcher, grid: tuple[int, int, int], arguments: Any, settings: Settings
) -> float:
    started = time.perf_counter()
    dispatcher.launch(grid, arguments, settings)
    return (time.perf_counter() - started) * 1e6


def _too_long(seconds: float) -> Exception:
    made = import_module("cuda.tile.tune._tune_utils").TileLaunchTimeoutError
    return made(f"CUDA kernel launch exceeded timeout {seconds} sec")


def _try_apart(job: Callable[[], None], seconds: float) -> None:
    """Run a job in a copy of this process; raise if it fails there, or takes longer than that."""
    ours, theirs = Pipe(duplex=False)
    with warnings.catch_warnings():
        # Threads that the copy does not have are no loss: our own machines start theirs anew.
        warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
        child = os.fork()
    if not child:
        _run_and_exit(job, theirs)
    theirs.close()
    try:
        if not ours.poll(seconds):
            raise _too_long(seconds)
        failure = ours.recv()
    except EOFError:
        failure = "RuntimeError: the process of the launch has ended without an answer"
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        ours.close()
    if failure is not None:
        raise RuntimeError(failure)


def _run_and_exit(job: Callable[[], None], answer: Connection) -> None:
    """Run a job, say how it failed or None, and end the process without more ado."""
    try:
        try:
            job()
        except Exception as error:  # noqa: BLE001 (whatever it is, the other process raises it)
            answer.send(f"{type(error).__name__}: {error}")
        else:
            answer.send(None)
    finally:
        os._exit(0)
