"""Reports of running kernels, prints and failed assertions, handed over in any thread."""

from __future__ import annotations

import ctypes
import itertools
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from tilewright.cpu.abi import AssertSite, DeadlockSite, PluginSite, PrintSite, Site
from tilewright.cpu.runtime.driver import LaunchState
from tilewright.cpu.runtime.external_functions import call_plugin
from tilewright.diagnostics import Note, TileIRError
from tilewright.launching.agents import deadlock_message, waits_here
from tilewright.launching.assertions import AssertionFailure
from tilewright.launching.codes import AGENT_DEADLOCK, ASSERTION_FAILED
from tilewright.launching.interfaces import INDEX_ELEMENT
from tilewright.launching.plugins import Plugin
from tilewright.launching.printing import format_tiles, parse_format
from tilewright.launching.storage import storage_of
from tilewright.numerics.arrays import PTR, Array

_SIGNATURE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
)
_ALIGNMENT = 8
_numbers = itertools.count(1)
NO_PLUGINS: Mapping[str, Plugin] = MappingProxyType({})


class Reports:
    """Gathers what one launch says. A context: kernels may report while it is entered."""

    def __init__(
        self,
        sites: Sequence[Site],
        state: LaunchState,
        print_to: Callable[[str], object] | None,
        plugins: Mapping[str, Plugin] = NO_PLUGINS,
    ) -> None:
        self._sites = sites
        self._state = state
        self._print_to = print_to
        self._plugins = plugins
        self._lock = threading.Lock()
        self._number = next(_numbers)
        self.printed: list[str] = []
        self._failed: list[tuple[int, tuple[int, int, int], Array]] = []
        self._hook = self._hook_before = None
        self.error: BaseException | None = None
        """What ended the launch: a failed check, or what ``print_to`` raised."""

    @property
    def failures(self) -> tuple[AssertionFailure, ...]:
        """The failed assertions, a false element each."""
        return tuple(
            AssertionFailure(site.message, index, block, site.source)
            for number, block, positions in self._failed
            if isinstance(site := self._sites[number], AssertSite)
            for index in _indices(positions, site.shape)
        )

    @property
    def has_failures(self) -> bool:
        """Whether assertions have failed."""
        return bool(self._failed)

    def place(self, sites: Sequence[Site]) -> None:
        """Give the sites of failures their sources: these are the same sites, with them."""
        assert len(sites) == len(self._sites)
        self._sites = sites

    def __enter__(self) -> Reports:
        if self._sites:
            self._hook = self._keep_lost_errors()
            _active[self._number] = self
            self._state.host_call, self._state.user = _address, self._number
        return self

    def __exit__(self, *_: object) -> None:
        if _active.pop(self._number, None) is not None and sys.unraisablehook is self._hook:
            sys.unraisablehook = self._hook_before
        # The hook holds this object, which holds the arrays of the launch.
        self._hook = self._hook_before = None

    def _keep_lost_errors(self) -> Callable[[Any], object]:
        """What the handler of a signal raises where a report begins or ends, outside of every ``try``,
        would be printed by ctypes and forgotten, and the launch would go on. It ends the launch instead.
        So does what no finalizer raises by itself, such as a KeyboardInterrupt: Python forgets what is
        raised while an object is freed."""
        self._hook_before = before = sys.unraisablehook

        def hook(lost: Any) -> None:
            error = lost.exc_value
            # Which of the two names the callback depends on the version of Python.
            at_the_edge = "_host_call" in f"{lost.err_msg} {lost.object!r}"
            if error is not None and (at_the_edge or not isinstance(error, Exception)):
                self.stop(error)
            else:
                before(lost)

        if threading.current_thread() is threading.main_thread():
            sys.unraisablehook = hook
        return hook

    def take(self, site_number: int, block: tuple[int, int, int], payload: int, count: int) -> None:
        """One report of a running kernel; what goes wrong in it is raised, and ends the launch.

        ``payload`` is an address: of ``count`` bytes of text for a print, else of ``count`` words.
        """
        site = self._sites[site_number]
        if isinstance(site, PluginSite):
            call_plugin(site, self._plugins, payload, count)
            return
        with self._lock:
            if isinstance(site, PrintSite):
                self._print(site, ctypes.string_at(payload, count))
                return
            numbers = np.frombuffer(ctypes.string_at(payload, count * 8), np.int64)
            if isinstance(site, AssertSite):
                self._fail(site_number, site, block, numbers)
            else:
                self.stop(_deadlock(site, numbers.reshape(-1, 2).tolist()))

    def stop(self, error: BaseException) -> None:
        """Let all threads stop; the first error is the one that is raised."""
        if self.error is None:
            self.error = error
        self._state.stop = 1

    def _print(self, site: PrintSite, data: bytes) -> None:
        elements = [INDEX_ELEMENT if e == "index" else e for e, _ in site.operands]
        tiles: list[Array] = []
        offset = 0
        for element, (_, dims) in zip(elements, site.operands, strict=True):
            tile, size = _tile(data, offset, element, dims)
            tiles.append(tile)
            offset += -(-size // _ALIGNMENT) * _ALIGNMENT
        text = format_tiles(parse_format(site.format), tiles, elements)
        self.printed.append(text)
        if self._print_to is not None:
            self._print_to(text)

    def _fail(
        self, number: int, site: AssertSite, block: tuple[int, int, int], positions: Array
    ) -> None:
        if site.code != ASSERTION_FAILED:
            self.stop(
                TileIRError.single(
                    site.code,
                    f"{site.message}, in tile block {block}",
                    site.source.location,
                    notes=site.source.notes,
                )
            )
            return
        self._failed.append((number, block, positions))


#: The reports of kernels that have nothing to say.
SILENCE = Reports((), LaunchState(0, (), (0, 0, 0)), None)


def _indices(positions: Array, shape: tuple[int, ...]) -> Sequence[tuple[int, ...]]:
    """The indices of a tile's elements at these row-major positions."""
    if not shape:
        return [()]
    return [tuple(map(int, index)) for index in np.stack(np.unravel_index(positions, shape), -1)]


def _deadlock(site: DeadlockSite, coroutines: Sequence[Sequence[int]]) -> TileIRError:
    """The error that all coroutines of a tile block wait: the number of each, and of its place."""
    waits = [(site.names[name], *site.places[place]) for name, place in coroutines]
    message = deadlock_message([(name, what) for name, what, _ in waits])
    notes = [Note(waits_here(name), source.location) for name, _, source in waits]
    return TileIRError.single(AGENT_DEADLOCK, message, waits[0][2].location, notes=notes)


def _tile(data: bytes, offset: int, element: str, dims: tuple[int, ...]) -> tuple[Array, int]:
    """A tile of a payload, and its size in bytes."""
    if element == PTR:
        raw = np.frombuffer(data, np.uint64, prod(dims), offset)
        return raw.reshape(dims), raw.nbytes
    storage = storage_of(element)
    raw = np.frombuffer(data, storage.raw, prod(dims), offset)
    return storage.to_tile(raw.reshape(dims)), raw.nbytes


_active: dict[int, Reports] = {}


@_SIGNATURE
def _host_call(user: int, site: int, block: int, payload: int, count: int) -> None:
    try:
        reports = _active[user]
        x, y, z = (ctypes.c_int32 * 3).from_address(block)
        reports.take(site, (x, y, z), payload, count)
    except BaseException as error:  # noqa: BLE001 (nothing may pass through native code)
        _active[user].stop(error)


_address = ctypes.cast(_host_call, ctypes.c_void_p).value
