"""Running a whole Python program whose cuTile launches go to a machine of ours."""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib.machinery import ModuleSpec
from multiprocessing import spawn
from pathlib import Path
from typing import Any

from tilewright.cutile.frontend import front_end
from tilewright.cutile.interception import LATE_MODULES, install
from tilewright.cutile.scope import Settings, use_everywhere

_OURS = str(Path(__file__).resolve().parent.parent)
_FRONT_END = os.path.join("cuda", "tile", "")


@contextmanager
def hosting(settings: Settings, *, torch_cuda: bool = True) -> Iterator[None]:
    """The process is one for cuTile programs: all launches go to us, in all threads.

    With ``torch_cuda`` torch, from when it is imported on, serves the device ``cuda`` by the CPU.
    Processes that ``multiprocessing`` starts meanwhile are hosts as well, whatever way it starts them,
    but for traces. A FrontEndError where there is no cuTile that works.
    """
    with ExitStack() as stack:

        def pretend_cuda() -> None:
            from tilewright.cutile.torch_cuda import pretended_cuda

            stack.enter_context(pretended_cuda())

        watched: dict[str, Callable[[], None]] = dict.fromkeys(LATE_MODULES, install)
        if torch_cuda:
            watched["torch"] = pretend_cuda
        stack.enter_context(_imports_watched(watched))
        front_end()
        if torch_cuda and "torch" in sys.modules and not _pretends():
            pretend_cuda()
        stack.enter_context(use_everywhere(settings))
        stack.enter_context(
            _children_are(
                _Host(
                    replace(settings, trace=None, on_compile=None, on_launch=None, on_report=None),
                    torch_cuda,
                )
            )
        )
        yield


@dataclass(frozen=True)
class _Host:
    """Stands among the data with which a process begins: reading it makes the process a host."""

    settings: Settings
    torch_cuda: bool

    def __reduce__(self) -> tuple[Callable[..., _Host], tuple[Settings, bool]]:
        return _begin, (self.settings, self.torch_cuda)


# What a process that was started as a host holds until it ends.
_until_the_end = ExitStack()


def _begin(settings: Settings, torch_cuda: bool) -> _Host:
    _until_the_end.enter_context(hosting(settings, torch_cuda=torch_cuda))
    return _Host(settings, torch_cuda)


# Whether processes were started that may launch kernels, too.
_children = {"started": False}
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=lambda: _children.update(started=True))


def has_children() -> bool:
    """Whether this process has started others by ``multiprocessing``."""
    return _children["started"]


@contextmanager
def _children_are(host: _Host) -> Iterator[None]:
    """Processes that are spawned, or come from a fork server, read ``host`` before anything else.

    Those that are forked have all that this one has.
    """
    prepared = spawn.get_preparation_data

    def get_preparation_data(name: str) -> dict[str, Any]:
        _children["started"] = True
        # The other side takes what it knows, and nothing else, from this dictionary.
        return {**prepared(name), "tilewright": host}

    spawn.get_preparation_data = get_preparation_data
    try:
        yield
    finally:
        spawn.get_preparation_data = prepared


def _pretends() -> bool:
    module = sys.modules.get("tilewright.cutile.torch_cuda")
    return module is not None and module.is_pretended()


def run_program(
    path: str,
    arguments: Sequence[str],
    *,
    show: Callable[[BaseException], object] | None = None,
) -> int:
    """Run a script as ``python SCRIPT ARGUMENTS`` does; its exit status.

    ``show`` is told of an exception that it does not catch; by default it is written to standard
    error with its own frames only, without ours.
    """
    script = Path(path)
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=path, __builtins__=__builtins__, __spec__=None)
    saved = sys.argv, sys.path[0], sys.modules["__main__"]
    sys.argv = [path, *arguments]
    sys.path[0] = str(script.resolve().parent)
    sys.modules["__main__"] = module
    try:
        exec(compile(script.read_bytes(), path, "exec", dont_inherit=True), module.__dict__)
    except SystemExit as stop:
        return _exit_status(stop)
    except BaseException as error:  # noqa: BLE001 (whatever ends a program is shown, as Python does)
        (show or show_exception)(error)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    finally:
        sys.stdout.flush()
        sys.argv, sys.path[0], sys.modules["__main__"] = saved
    return 0


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
    for part in _chain(described):
        innermost = part.stack[-1].filename if part.stack else ""
        is_bug = part.exc_type is AssertionError and innermost.startswith(_OURS)
        if not is_bug:
            part.stack[:] = [f for f in part.stack if not is_ours(f.filename)]
    sys.stderr.write("".join(described.format()))


def is_ours(file: str) -> bool:
    """Whether a frame of that file is none of the program's: of Tilewright or of cuTile."""
    return file.startswith(_OURS) or _FRONT_END in file


def _chain(
    described: traceback.TracebackException | None,
) -> Iterator[traceback.TracebackException]:
    if described is not None:
        yield described
        yield from _chain(described.__cause__)
        yield from _chain(described.__context__)
        for part in described.exceptions or ():
            yield from _chain(part)


class _Watcher(importlib.abc.MetaPathFinder):
    """Calls back once a module has been imported, and says why some cannot be."""

    def __init__(self, watched: dict[str, Callable[[], None]]):
        self._watched = dict(watched)

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname == "cupy" and not _is_installed(fullname, self):
            raise ModuleNotFoundError(
                "No module named 'cupy' (it needs a GPU; launches take NumPy arrays and torch "
                "tensors)",
                name="cupy",
            )
        callback = self._watched.pop(fullname, None)
        if callback is None:
            return None
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            _call_after(spec.loader, callback)
        return spec


def _is_installed(name: str, watcher: _Watcher) -> bool:
    others = [finder for finder in sys.meta_path if finder is not watcher]
    return any(finder.find_spec(name, None, None) is not None for finder in others)


def _call_after(loader: Any, callback: Callable[[], None]) -> None:
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
