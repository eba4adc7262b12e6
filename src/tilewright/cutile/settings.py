"""Which machine launches go to: for one call, inside a ``with``, or for a whole program."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tilewright.cutile.errors import RefusedError
from tilewright.cutile.machines import check_settings, get_ready
from tilewright.diagnostics import TileIRError
from tilewright.diagnostics.tracebacks import hides_frames
from tilewright.launching.machine import DEFAULT_MACHINE
from tilewright.launching.options import OPTIONS, LaunchOptions

if TYPE_CHECKING:
    from tilewright.cutile.launching import Dispatcher, Specialisation
    from tilewright.cutile.machines import TraceSink
    from tilewright.launching.described import Value
    from tilewright.tuning.searcher import Searcher

CompileSink = Callable[
    ["Dispatcher", "Specialisation", tuple[int, int, int], tuple[Any, ...]], object
]


@dataclass(frozen=True, slots=True)
class Launched:
    """A launch that has ended: the kernel, its ``number``-th specialisation, how long it took, and
    what the machine gave back."""

    kernel: str
    number: int
    kind: Mapping[str, str]
    machine: str
    grid: tuple[int, int, int]
    seconds: float
    result: Any


LaunchSink = Callable[[Launched], object]
LaunchStandIn = Callable[["Specialisation", tuple[int, int, int], Sequence["Value"]], bool]
"""Whether the launch is to run as well."""
ReportSink = Callable[[Any, Any], object]
"""Told the module, and the ``SanitizeReport`` of a launch in which something was found, else None."""

__tracebackhide__ = hides_frames


def write_stdout(text: str) -> None:
    """Write text at once, before what the machine prints next."""
    sys.stdout.write(text)
    sys.stdout.flush()


_TO_STDOUT = LaunchOptions(print_to=write_stdout)


@dataclass(frozen=True, slots=True)
class Settings:
    """How launches run.

    ``machine``: its name. ``options``: those of every launch. ``trace`` gets a record of each launch.
    ``cuda_is_host``: arrays that claim to be in the memory of a GPU are in that of the host, because a
    GPU is only pretended. ``on_compile`` is told of each kernel before it is loaded: its dispatcher,
    what was compiled, and the grid and the arguments of the launch. ``on_launch`` is told of each
    launch that has ended well. ``on_report`` gets what the sanitizer found in each launch, and the
    module; the program goes on then. ``only`` names the kernel, or with ``#N`` its N-th specialisation,
    that is checked, recorded and stopped; others just run. ``instead`` is told of launches before they run,
    and says whether they do: what was compiled, the grid, and the arguments. ``tune_for`` is the GPU for which the
    performance model answers searches of cuTile's tuner, None where they are timed; ``searcher`` answers them in its place.
    """

    machine: str = DEFAULT_MACHINE
    options: LaunchOptions = _TO_STDOUT
    trace: TraceSink | None = None
    cuda_is_host: bool = False
    on_compile: CompileSink | None = None
    on_launch: LaunchSink | None = None
    on_report: ReportSink | None = None
    only: str | None = None
    instead: LaunchStandIn | None = None
    tune_for: str | None = None
    searcher: Searcher | None = None

    @property
    def loading(self) -> object:
        """What of the settings a loaded kernel depends on."""
        return self.machine

    def for_kernel(self, name: str, number: int) -> Settings:
        """The settings for a kernel, in its ``number``-th specialisation, from 1."""
        if self.only in (None, name, f"{name}#{number}"):
            return self
        plain = replace(self.options, sanitize=False, breakpoints=(), trace=None)
        return replace(self, options=plain, trace=None, on_launch=None)


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


def _watched(settings: Settings) -> Settings:
    """Settings with those who are told of what the program around does, and with the time limit that
    holds there, such as the command's, unless they have their own."""
    outer = active()
    if outer is None:
        return settings
    options = settings.options
    if options.time_limit is None and outer.options.time_limit is not None:
        options = replace(options, time_limit=outer.options.time_limit)
    return replace(
        settings,
        options=options,
        on_compile=settings.on_compile or outer.on_compile,
        on_launch=settings.on_launch or outer.on_launch,
        on_report=settings.on_report or outer.on_report,
        instead=settings.instead or outer.instead,
        tune_for=settings.tune_for or outer.tune_for,
        searcher=settings.searcher or outer.searcher,
    )


class on(AbstractContextManager["on"]):
    """Launches of cuTile kernels go to a machine of ours: as a ``with``, or as a decorator.

    Holds for the code inside, in this thread and in tasks started from it, not for other threads.
    ``cuda.tile.launch`` is reached under every name that a module has given it. May be used again,
    and within itself. ``options`` are those of every launch inside, of which single ones may be named
    instead: ``on("cpu", threads=2)``. What kernels print goes to standard output, unless they name
    another place. A time limit that holds around it holds inside, too. With ``tune_for="h100"`` searches of
    cuTile's tuner are answered by the performance model for that GPU; without it they are timed. A
    :class:`RefusedError` for a machine or a GPU that there is not, and for options that the machine lacks.
    """

    def __init__(
        self,
        machine: str = DEFAULT_MACHINE,
        options: LaunchOptions | None = None,
        *,
        tune_for: str | None = None,
        **fields: Any,
    ):
        self._settings = Settings(machine, options_with(options, fields), tune_for=tune_for)
        check_settings(self._settings)

    def __enter__(self) -> on:
        scope = use(_watched(self._settings))
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
                with use(_watched(settings)):
                    return await function(*args, **keywords)

            return awaited

        @functools.wraps(function)
        def wrapped(*args: Any, **keywords: Any) -> Any:
            with use(_watched(settings)):
                return function(*args, **keywords)

        return wrapped


def options_with(options: LaunchOptions | None, fields: Mapping[str, Any]) -> LaunchOptions:
    """Options, with single ones named, and with standard output for what kernels print.

    A TypeError for names of no option; a :class:`RefusedError` for values that make no sense.
    """
    for name in fields:
        if name not in OPTIONS:
            raise TypeError(f"on() got an unexpected keyword argument '{name}'")
    chosen = options or LaunchOptions()
    try:
        return replace(chosen, **{"print_to": chosen.print_to or write_stdout, **fields})
    except TileIRError as error:
        raise RefusedError(error.diagnostics) from None


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
def use_everywhere(settings: Settings, *, ready: bool = True) -> Iterator[None]:
    """These settings hold inside, in all threads. For programs that we run as a whole. Unless it is to
    be ``ready``, the machine is imported by the first launch."""
    if ready:
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
