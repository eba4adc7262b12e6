"""Which machine launches go to: for one call, inside a ``with``, or for a whole program."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tilewright.cutile.machines import DEFAULT_MACHINE, check_settings, get_ready

if TYPE_CHECKING:
    from tilewright.cutile.checked import TraceSink


def _write_stdout(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


@dataclass(frozen=True, slots=True)
class Settings:
    """How launches run.

    ``machine``: its name. ``sanitize``: every check is on, and each launch runs under the schedules
    ``seed`` to ``seed + seeds - 1``; without it under ``seed`` alone. ``trace`` gets a record of
    each launch. ``print_to`` gets what kernels print. ``cuda_is_host``: arrays that claim to be in
    the memory of a GPU are in that of the host, because a GPU is only pretended. ``resident``: how many
    tile blocks are live at once, in ascending order; None for all.
    """

    machine: str = DEFAULT_MACHINE
    sanitize: bool = False
    seed: int = 0
    seeds: int = 1
    trace: TraceSink | None = None
    print_to: Callable[[str], object] = field(default=_write_stdout)
    cuda_is_host: bool = False
    resident: int | None = None

    @property
    def loading(self) -> tuple[str, bool]:
        """What of the settings a loaded kernel depends on."""
        return self.machine, self.sanitize or self.trace is not None


_DEFAULT = Settings()
_here: ContextVar[Settings | None] = ContextVar("tilewright_cutile_settings", default=None)
_everywhere: list[Settings] = []
# The scopes that were entered by ``with on(...)`` in this context, outermost first.
_entered: ContextVar[tuple[AbstractContextManager[None], ...]] = ContextVar("entered", default=())


def active() -> Settings | None:
    """The settings that hold here; None where cuTile is to work as it does without us."""
    here = _here.get()
    if here is not None:
        return here
    return _everywhere[-1] if _everywhere else None


def current(machine: str | None = None) -> Settings:
    """The settings of a launch that asks for us, and perhaps for a machine."""
    settings = active() or _DEFAULT
    if machine is None or machine == settings.machine:
        return settings
    if settings is _DEFAULT:
        return _default_on(machine)
    return replace(settings, machine=machine)


@functools.cache
def _default_on(machine: str) -> Settings:
    return Settings(machine)


class on(AbstractContextManager["on"]):
    """Launches of cuTile kernels go to a machine of ours: as a ``with``, or as a decorator.

    Holds for the code inside, in this thread and in tasks started from it, not for other threads.
    ``cuda.tile.launch`` is reached under every name that a module has given it. May be used again,
    and within itself. A :class:`RefusedError` for a machine that there is not.
    """

    def __init__(
        self,
        machine: str = DEFAULT_MACHINE,
        *,
        sanitize: bool = False,
        seeds: int = 1,
        resident: int | None = None,
    ):
        self._settings = Settings(machine, sanitize, seeds=seeds, resident=resident)
        check_settings(self._settings)

    def __enter__(self) -> on:
        scope = use(self._settings)
        scope.__enter__()
        _entered.set((*_entered.get(), scope))
        return self

    def __exit__(self, *exception: Any) -> None:
        *outer, scope = _entered.get()
        _entered.set(tuple(outer))
        scope.__exit__(*exception)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        settings = self._settings
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaited(*args: Any, **keywords: Any) -> Any:
                with use(settings):
                    return await function(*args, **keywords)

            return awaited

        @functools.wraps(function)
        def wrapped(*args: Any, **keywords: Any) -> Any:
            with use(settings):
                return function(*args, **keywords)

        return wrapped


@contextmanager
def use(settings: Settings) -> Iterator[None]:
    """These settings hold inside, in this context."""
    get_ready(settings.machine)
    with _intercepted():
        token = _here.set(settings)
        try:
            yield
        finally:
            _here.reset(token)


@contextmanager
def use_everywhere(settings: Settings) -> Iterator[None]:
    """These settings hold inside, in all threads. For programs that we run as a whole."""
    get_ready(settings.machine)
    with _intercepted():
        _everywhere.append(settings)
        try:
            yield
        finally:
            _everywhere.remove(settings)


_lock = threading.Lock()
_users = 0


@contextmanager
def _intercepted() -> Iterator[None]:
    """cuTile's functions that need a GPU ask for our settings first, in all modules."""
    global _users
    from tilewright.cutile.interception import install, uninstall

    with _lock:
        if _users == 0:
            install()
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                uninstall()
