"""Launches on the reference machine with every check on, or with a record of what happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.cutile.errors import KernelError
from tilewright.cutile.parameters import ArrayValue, ListValue, Value
from tilewright.cutile.reference import HostProgram
from tilewright.cutile.stops import resolved
from tilewright.diagnostics import Diagnostic, Note, TileIRError
from tilewright.launching.arguments import Converted
from tilewright.launching.options import LaunchOptions
from tilewright.machine.find_nan import NanFinder
from tilewright.machine.inspect.breakpoints import names_for
from tilewright.machine.inspect.runner import InspectingProgram, Observer, stopper
from tilewright.machine.inspect.stops import StopRun
from tilewright.machine.inspect.trace import Recorder, Trace
from tilewright.machine.sanitize.alias_promises import broken_promises
from tilewright.machine.sanitize.findings import Finding
from tilewright.machine.sanitize.sanitizer import SanitizingProgram, _identity
from tilewright.machine.tensors import ArrayNames

if TYPE_CHECKING:
    from tilewright.cutile.scope import Settings
    from tilewright.dialects.cuda_tile.ops.module import ModuleOp

TraceSink = Callable[[Trace], object]
"""Told what a launch did, however it ended."""


class SanitizerError(KernelError):
    """What the sanitizer found in one launch. The arrays are as the last schedule left them."""


class _SanitizingHostProgram(HostProgram, SanitizingProgram):
    """Checks on, for arrays of the host."""


class _InspectingHostProgram(HostProgram, InspectingProgram):
    """Observed, for arrays of the host."""


class CheckedKernel:
    """A compiled kernel that is translated anew for each launch."""

    def __init__(self, module: ModuleOp, entry: str, constants: Mapping[str, object]):
        self._constants = constants
        self._module = module
        self._entry_name = entry

    def launch(
        self, grid: tuple[int, int, int], values: Sequence[Value], settings: Settings
    ) -> None:
        if settings.options.sanitize:
            self._sanitize(grid, values, settings)
        else:
            self._observe(grid, values, settings)

    def _sanitize(
        self, grid: tuple[int, int, int], values: Sequence[Value], settings: Settings
    ) -> None:
        arrays = [(array.name, array.as_numpy()) for array in arrays_of(values)]
        entry = self._module.entry(self._entry_name)
        initial = [array.copy() for _, array in arrays]
        found = {_identity(d): d for d in broken_promises(entry, _converted(values))}
        schedules = settings.options.schedules
        for position, seed in enumerate(schedules):
            if position:
                for (_, array), content in zip(arrays, initial, strict=True):
                    if array.flags.writeable:
                        array[...] = content
            # What a kernel prints is printed once, whatever the number of schedules.
            print_to = None if position else settings.options.print_to
            options = replace(settings.options, seed=seed, print_to=print_to)
            for finding in self._run_once(grid, values, arrays, options):
                found.setdefault(_identity(finding), finding)
        if found:
            raise SanitizerError(found.values())

    def _run_once(
        self,
        grid: tuple[int, int, int],
        values: Sequence[Value],
        arrays: Sequence[tuple[str, np.ndarray[Any, Any]]],
        options: LaunchOptions,
    ) -> list[Diagnostic]:
        program = _SanitizingHostProgram(
            self._module, options.seed, races=options.races, arithmetic=options.arithmetic
        )
        program.findings.names = ArrayNames(tuple(arrays))
        entry = self._module.entry(self._entry_name)
        ended: list[Diagnostic] = []
        try:
            program.launch_values(entry, grid, values, options=options)
        except TileIRError as error:
            if not program.started:
                raise
            note = (Note(f"found with schedule seed {options.seed}"),) if options.seed else ()
            ended = [diagnostic.with_notes(*note) for diagnostic in error.diagnostics]
        findings: list[Finding] = program.findings.found
        return [*(finding.diagnostic for finding in findings), *ended]

    def _observe(
        self, grid: tuple[int, int, int], values: Sequence[Value], settings: Settings
    ) -> None:
        """Run with a record of what happens, and with breakpoints."""
        options = settings.options
        program = _InspectingHostProgram(self._module, options.arithmetic)
        entry = self._module.entry(self._entry_name)
        names = names_for(program.module, entry)
        breakpoints = resolved(options.breakpoints, entry, values, self._constants)
        observers: list[Observer] = [stopper(each, entry, grid, names) for each in breakpoints]
        trace: Trace | None = None
        if settings.trace is not None:
            trace = replace(options.trace, records=[]) if options.trace else Trace("all")
            arrays = ArrayNames(tuple((a.name, a.as_numpy()) for a in arrays_of(values)))
            observers.insert(0, Recorder(trace, entry, grid, options.seed, names, arrays))
        finder: NanFinder | None = None
        if options.find_nan:
            arrays = ArrayNames(tuple((a.name, a.as_numpy()) for a in arrays_of(values)))
            finder = NanFinder(names, arrays)
            observers.append(finder)
        program.observers = tuple(observers)
        try:
            with nullcontext() if finder is None else finder.raising():
                program.launch_values(entry, grid, values, options=options)
        except StopRun:
            return
        finally:
            if settings.trace is not None and trace is not None:
                settings.trace(trace)


def _converted(values: Sequence[Value]) -> Converted:
    """The arguments as the checks of a launch know them."""
    tiles: list[np.ndarray[Any, Any]] = []
    arrays: dict[int, np.ndarray[Any, Any]] = {}
    for value in values:
        if isinstance(value, ArrayValue):
            arrays[len(tiles)] = value.as_numpy()
            tiles += [np.zeros((), np.uint64), *value.layout.tiles]
        elif isinstance(value, ListValue):
            tiles += [np.zeros((), np.uint64), np.array(len(value.items), np.int32)]
        else:
            tiles.append(value)
    return Converted(tiles, arrays)


def arrays_of(values: Sequence[Value]) -> list[ArrayValue]:
    """All arrays among the arguments, those in lists included."""
    found: list[ArrayValue] = []
    for value in values:
        if isinstance(value, ArrayValue):
            found.append(value)
        elif isinstance(value, ListValue):
            found += value.items
    return found
