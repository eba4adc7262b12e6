"""A worker process that renders pages while the program whose kernels they show is still running.

Importing torch and running the program takes half of the time of ``tilewright explain PROGRAM.py``, and
computing the levels of a kernel the other half. They share only the kernel, which is sent as bytecode and
names, so two cores halve the wait. Whatever the worker cannot do, the command does itself.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from tilewright.diagnostics import TileIRError

if TYPE_CHECKING:
    from tilewright.dialects.cuda_tile.ops.module import ModuleOp
    from tilewright.explain.about import About
    from tilewright.explain.levels import Explanation

_START = (
    "import sys; sys.path[:] = sys.argv[1:]; from tilewright.explain.worker import serve; serve()"
)


@dataclass(frozen=True, slots=True)
class _Kernel:
    """A kernel sent to the worker: its number, its module as bytecode, and the names of all its values."""

    number: int
    name: str
    bytecode: bytes
    names: Sequence[str | None]
    target: str
    passes: str


@dataclass(frozen=True, slots=True)
class _Page:
    """A request for the page of a kernel sent before."""

    number: int
    about: About


class PageWorker:
    """Renders pages of kernels in a process that starts immediately. Must be closed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        if not sys.executable or len(_cores()) < 2:
            return
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, *sys.path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError:
            return

    def begin(self, number: int, module: ModuleOp, name: str, *, target: str, passes: str) -> None:
        """Start computing all levels of a kernel of a verified module, as for a page of a cuTile program."""
        from tilewright.bytecode import write
        from tilewright.explain.values import values_below

        if self._process is None:
            return
        try:
            data = write(module)
        except TileIRError:  # not expressible in any version of bytecode
            return
        names = [value.name_hint for value in values_below(module)]
        self._send(_Kernel(number, name, data, names, target, passes))

    def page(self, number: int, about: About) -> str | None:
        """Return the page of a kernel passed to ``begin``; None if the worker has none."""
        if self._process is None:
            return None
        self._send(_Page(number, about))
        try:
            assert self._process.stdout is not None
            found: str | None = pickle.load(self._process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            self.close()
            return None
        return found

    def _send(self, message: object) -> None:
        assert self._process is not None and self._process.stdin is not None
        try:
            pickle.dump(message, self._process.stdin)
            self._process.stdin.flush()
        except OSError:
            self.close()

    def close(self) -> None:
        """Terminate the process, whatever it is doing."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def __enter__(self) -> PageWorker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _cores() -> Sequence[int]:
    if hasattr(os, "sched_getaffinity"):
        return tuple(os.sched_getaffinity(0))
    return range(os.cpu_count() or 1)


# The worker's side.


def serve() -> None:
    """Answer requests on standard input until it ends, then end the process at once."""
    import gc
    import queue
    import signal
    import threading

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()  # nothing here lives long enough for it to matter
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # Kernels are received while modules are still being imported, so that the sender need not wait.
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin.buffer, messages), daemon=True).start()
    from tilewright.explain.page import render_page

    _import_ahead()
    made: dict[int, Explanation] = {}
    while True:
        message = messages.get()
        if isinstance(message, _Kernel):
            made[message.number] = _explain(message)
        else:
            found = made.get(message.number)
            page = None if found is None else render_page(found, about=message.about)
            pickle.dump(page, answers)
            answers.flush()


def _read(stream: IO[bytes], messages: Any) -> None:
    try:
        while True:
            messages.put(pickle.load(stream))
    except (EOFError, OSError):
        os._exit(0)


def _import_ahead() -> None:
    """Import what the levels need and would otherwise import on first use."""
    import importlib

    for name in (
        "tilewright.bytecode",
        "tilewright.gpu.tiles",
        "tilewright.cpu.compile",
        "tilewright.cpu.runtime.engine",
    ):
        try:
            importlib.import_module(name)
        except ImportError:  # reported by the level that needs it
            return


def _explain(kernel: _Kernel) -> Explanation:
    from tilewright.bytecode import read
    from tilewright.explain.levels import explain_kernel
    from tilewright.explain.values import values_below

    module = read(kernel.bytecode)
    for value, name in zip(values_below(module), kernel.names, strict=True):
        value.name_hint = name
    return explain_kernel(
        module, kernel.name, target=kernel.target, passes=kernel.passes, folded=True
    )
