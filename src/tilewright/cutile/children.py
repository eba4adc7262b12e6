"""Python processes that a hosted program starts: they launch on the same machine.

Those of ``multiprocessing`` get the settings with the data that they begin with. Others get them by
their environment: a variable with the settings, and a folder in PYTHONPATH whose ``sitecustomize``
reads it (``hook/sitecustomize.py``); an environment that a program makes for a process is completed
(``hook/_tilewright_environment.py``), also for Python with an option that leaves it aside (``-I``, ``-E``). A process that is
started by others without it, and Python with ``-S``, are on their own.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from importlib.machinery import ModuleSpec
from multiprocessing import spawn
from pathlib import Path
from typing import Any

from tilewright.cutile.hook._tilewright_environment import (
    VARIABLE,
    completed,
    replace_in_os,
    replace_in_subprocess,
)
from tilewright.cutile.settings import Settings, active
from tilewright.numerics.arithmetic import Arithmetic

_SOURCE = str(Path(__file__).resolve().parent.parent.parent)
_PLAIN = (str, int, float, bool, type(None))


# Whether processes were started that may launch kernels, too.
_children = {"started": False}
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=lambda: _children.update(started=True))


def has_children() -> bool:
    """Whether this process has started others, which may be hosts."""
    return _children["started"]


@contextmanager
def children_are(settings: Settings, *, torch_cuda: bool) -> Iterator[None]:
    """Processes that are started inside are hosts with these settings, but for traces.

    Those that are forked have all that this one has.
    """
    with ExitStack() as stack:
        stack.enter_context(_spawned_are(_Host(_inherited(settings), torch_cuda)))
        stack.enter_context(_environment(_to_text(settings, torch_cuda)))
        yield


@dataclass(frozen=True)
class _Host:
    """Stands among the data with which a process begins: reading it makes the process a host."""

    settings: dict[str, Any]
    torch_cuda: bool

    def __reduce__(self) -> tuple[Callable[..., _Host], tuple[dict[str, Any], bool]]:
        return _begin, (self.settings, self.torch_cuda)


# The variables by which this process could not become a host, and has said so.
_refused: set[str] = set()
# What a process that was started as a host holds until it ends.
_until_the_end = ExitStack()


def _begin(settings: dict[str, Any], torch_cuda: bool) -> _Host:
    from tilewright.cutile.program import hosting

    if active() is None:
        _until_the_end.enter_context(hosting(_settings(settings), torch_cuda=torch_cuda))
        # Before modules are taken apart.
        atexit.register(_until_the_end.close)
    return _Host(settings, torch_cuda)


def begin(text: str, imported: str) -> ModuleSpec | None:
    """Host this process, which is about to import a module; the spec of that module, None where there is none.

    ``text`` is that of the variable. A process that cannot be a host says why and goes on.
    """
    from tilewright.cutile.errors import RefusedError
    from tilewright.cutile.frontend import FrontEndError

    def host() -> None:
        if os.environ.get(VARIABLE) != text or active() is not None or text in _refused:
            return
        told = json.loads(text)
        try:
            _begin(told["settings"], told["torch_cuda"])
        except (FrontEndError, RefusedError) as error:
            _refused.add(text)
            sys.stderr.write(f"tilewright: this process is not hosted: {error}\n")

    from tilewright.cutile.program import call_after, find_anew

    if imported == "cupy":
        host()
        return find_anew(imported)
    spec = importlib.util.find_spec(imported)
    if spec is not None and spec.loader is not None:
        call_after(spec.loader, host)
    return spec


def _inherited(settings: Settings) -> dict[str, Any]:
    """What of the settings another process takes over: all but what lives in this one."""
    options = {name: getattr(settings.options, name) for name in settings.options.changed}
    told = {
        name: list(v) if isinstance(v, range) else v for name, v in options.items() if _is_plain(v)
    }
    if "arithmetic" in options:
        told["arithmetic"] = str(options["arithmetic"])
    found = {each.name: getattr(settings, each.name) for each in fields(Settings)}
    plain = {name: value for name, value in found.items() if isinstance(value, _PLAIN)}
    return {**plain, "options": told}


def _is_plain(value: object) -> bool:
    if isinstance(value, list | tuple | range):
        return all(isinstance(each, _PLAIN) for each in value)
    return isinstance(value, _PLAIN)


def _settings(told: Mapping[str, Any]) -> Settings:
    """Settings again from what was told of them."""
    options: dict[str, Any] = dict(told["options"])
    if "arithmetic" in options:
        options["arithmetic"] = Arithmetic.parse(options["arithmetic"])
    plain = Settings()
    return replace(plain, **{**told, "options": replace(plain.options, **options)})


def _to_text(settings: Settings, torch_cuda: bool) -> str:
    told = {"settings": _inherited(settings), "torch_cuda": torch_cuda, "source": _SOURCE}
    return json.dumps(told, sort_keys=True)


@contextmanager
def _spawned_are(host: _Host) -> Iterator[None]:
    """Processes that are spawned, or come from a fork server, read ``host`` before anything else."""
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


@contextmanager
def _environment(text: str) -> Iterator[None]:
    """The environment tells, also one that a program makes for a process itself."""
    saved = {name: os.environ.get(name) for name in (VARIABLE, "PYTHONPATH")}
    told = completed(os.environ, text)
    os.environ.update({name: str(told[name]) for name in saved})
    restore = replace_in_subprocess(text, lambda: _children.update(started=True))
    restore_os = replace_in_os(text)
    try:
        yield
    finally:
        restore_os()
        restore()
        for name, value in saved.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
