"""Running a whole Python program whose cuTile launches go to a machine of ours."""

from __future__ import annotations

import concurrent.futures.thread
import importlib.abc
import importlib.util
import os
import sys
import threading
import traceback
import types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numpy

from tilewright.cutile.children import children_are
from tilewright.cutile.frontend import front_end
from tilewright.cutile.interception import LATE_MODULES, install
from tilewright.cutile.settings import Settings, use_everywhere
from tilewright.diagnostics.tracebacks import parts_of

_OURS = str(Path(__file__).resolve().parent.parent)
#: Generated code of machines, and NumPy.
_CALLED = (
    "<steps of a block>",
    "<packing of arguments>",
    os.path.join(os.path.dirname(numpy.__file__), ""),
)
_FRONT_END = os.path.join("cuda", "tile", "")


@contextmanager
def hosting(settings: Settings, *, torch_cuda: bool = True, ready: bool = True) -> Iterator[None]:
    """The process is one for cuTile programs: all launches go to us, in all threads; ``ready``: the
    first of them need not import the machine.

    With ``torch_cuda`` torch, from when it is imported on, serves the device ``cuda`` by the CPU.
    Python processes that are started meanwhile are hosts as well, whatever starts them, but for traces
    (``children``). A FrontEndError where there is no cuTile that works.
    """
    with ExitStack() as stack:

        def pretend_cuda() -> None:
            if _pretends():
                return
            from tilewright.cutile.torch_cuda import pretended_cuda

            stack.enter_context(pretended_cuda())

        watched: dict[str, Callable[[], None]] = dict.fromkeys(LATE_MODULES, install)
        if torch_cuda:
            watched["torch"] = pretend_cuda
            watched["triton.runtime.driver"] = _serve_triton
        stack.enter_context(_imports_watched(watched))
        front_end()
        if torch_cuda and sys.modules.get("torch") is not None:
            pretend_cuda()
        stack.enter_context(use_everywhere(settings, ready=ready))
        stack.enter_context(children_are(settings, torch_cuda=torch_cuda))
        yield


def _serve_triton() -> None:
    from tilewright.cutile.triton_host import install as install_driver

    install_driver()


def _pretends() -> bool:
    module = sys.modules.get("tilewright.cutile.torch_cuda")
    return module is not None and module.is_pretended()


def run_program(
    path: str,
    arguments: Sequence[str],
    *,
    show: Callable[[BaseException], object] | None = None,
    constants: Mapping[str, Any] | None = None,
) -> int:
    """Run a script as ``python SCRIPT ARGUMENTS`` does; its exit status.

    ``show`` is told of an exception that it does not catch; by default it is written to standard
    error with its own frames only, without ours. ``constants`` of its module get other values
    (``module_constants``).
    """
    script = Path(path)
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=path, __builtins__=__builtins__, __spec__=None)
    saved = sys.argv, sys.path[0], sys.modules["__main__"]
    sys.argv = [path, *arguments]
    sys.path[0] = str(script.resolve().parent)
    sys.modules["__main__"] = module
    before = set(threading.enumerate())
    try:
        source: Any = script.read_bytes()
        if constants:
            from tilewright.cutile.module_constants import with_constants

            source = with_constants(source, path, constants)
        try:
            exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)
        finally:
            _wait_for_threads(before)
    except SystemExit as stop:
        return _exit_status(stop)
    except BaseException as error:  # noqa: BLE001 (whatever ends a program is shown, as Python does)
        (show or show_exception)(error)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    finally:
        sys.stdout.flush()
        sys.argv, sys.path[0], sys.modules["__main__"] = saved
    return 0


def _wait_for_threads(others: Collection[threading.Thread]) -> None:
    """Until the threads of a program have ended, as Python waits: not for daemons, nor for those of
    pools, which wait for more work."""
    for thread in threading.enumerate():
        is_of_pool = thread in _of_pools
        if thread not in others and not thread.daemon and not is_of_pool:
            thread.join()


# The threads of all pools: the module keeps them, to end them when Python ends.
_of_pools: Collection[threading.Thread] = getattr(concurrent.futures.thread, "_threads_queues", ())


def _exit_status(stop: SystemExit) -> int:
    if stop.code is None or isinstance(stop.code, int):
        return stop.code or 0
    print(stop.code, file=sys.stderr)
    return 1


def show_exception(error: BaseException) -> None:
    """Write an exception to standard error as Python does, without the frames of Tilewright.

    Those of a failed assertion of ours stay: it is a bug of ours.
    """
    described = traceback.TracebackException.from_exception(error)
    for part, raised in parts_of(described, error):
        innermost = part.stack[-1].filename if part.stack else ""
        is_bug = type(raised) is AssertionError and innermost.startswith(_OURS)
        if not is_bug:
            part.stack[:] = _of_the_program(part.stack)
    sys.stderr.write("".join(described.format()))


def _of_the_program(stack: traceback.StackSummary) -> list[traceback.FrameSummary]:
    """The frames that are the program's: neither ours nor those of what we have called, generated code
    and NumPy, in which Ctrl-C may come."""
    kept: list[traceback.FrameSummary] = []
    called_by_us = False
    for frame in stack:
        called_by_us = is_ours(frame.filename) or (
            called_by_us and frame.filename.startswith(_CALLED)
        )
        if not called_by_us:
            kept.append(frame)
    return kept


def is_ours(file: str) -> bool:
    """Whether a frame of that file is none of the program's: of Tilewright or of cuTile."""
    return file.startswith(_OURS) or _FRONT_END in file


class _Watcher(importlib.abc.MetaPathFinder):
    """Calls back once a module has been imported, and says why some cannot be."""

    def __init__(self, watched: dict[str, Callable[[], None]]):
        self._watched = dict(watched)
        self._asked = threading.local()

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname == "cupy" and not _is_installed(fullname, self):
            if _is_only_asked():
                return None
            raise ModuleNotFoundError(
                "No module named 'cupy' (it computes on a GPU only, and nothing stands in for it: use "
                "NumPy arrays or torch tensors, which launches take as they are; with a GPU, "
                "pip install cupy-cuda13x)",
                name="cupy",
            )
        if fullname not in self._watched or getattr(self._asked, "name", None) == fullname:
            return None
        self._asked.name = fullname
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._asked.name = None
        if spec is not None and spec.loader is not None:
            call_after(spec.loader, lambda: self._imported(fullname))
        return spec

    def _imported(self, name: str) -> None:
        # Not when a module is found: programs also look for modules that they do not import.
        callback = self._watched.pop(name, None)
        if callback is not None:
            callback()


#: What stands between an import, or a question for a module, and a finder.
_BETWEEN = ("importlib._bootstrap", "sitecustomize", __name__, "tilewright.cutile.children")


def _is_only_asked() -> bool:
    """Whether a program looks for a module (``importlib.util.find_spec``), and does not import it."""
    frame = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__") in _BETWEEN:
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__") == "importlib.util"


def _is_installed(name: str, watcher: _Watcher) -> bool:
    others = [finder for finder in sys.meta_path if finder is not watcher]
    return any(finder.find_spec(name, None, None) is not None for finder in others)


def find_anew(name: str) -> ModuleSpec | None:
    """What the finders of now say of a module; None if none of them finds it."""
    found = (finder.find_spec(name, None, None) for finder in tuple(sys.meta_path))
    return next((spec for spec in found if spec is not None), None)


def call_after(loader: Any, callback: Callable[[], None]) -> None:
    """Have a loader call back when it has executed a module."""
    execute = loader.exec_module

    def exec_module(module: types.ModuleType) -> None:
        execute(module)
        callback()

    loader.exec_module = exec_module


@contextmanager
def _imports_watched(watched: dict[str, Callable[[], None]]) -> Iterator[None]:
    watcher = _Watcher({name: call for name, call in watched.items() if name not in sys.modules})
    sys.meta_path.insert(0, watcher)
    try:
        yield
    finally:
        sys.meta_path.remove(watcher)
