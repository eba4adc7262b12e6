"""cuTile kernels on the machines that ``launching.machine`` knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tilewright.cutile.errors import RefusedError
from tilewright.diagnostics import TileIRError
from tilewright.launching.machine import RepeatingProgram, machine_named
from tilewright.launching.options import DEFAULT_OPTIONS

if TYPE_CHECKING:
    from tilewright.cutile.kernel_sources import KernelSource
    from tilewright.cutile.settings import ReportSink, Settings
    from tilewright.launching.described import Given, Value
    from tilewright.launching.machine import Machine, Program
    from tilewright.launching.options import LaunchOptions

TraceSink = Callable[[Any], object]
"""Told what a launch did, as a ``machine.inspect.Trace``, however it ended."""

#: What the first launch of a kernel needs beside its machine, unless that knows the kernel.
_READING = ("tilewright.bytecode.reader", "tilewright.analysis.verifier")


class LoadedKernel:
    """A compiled kernel that is ready to run on a machine."""

    def __init__(
        self,
        program: Program,
        source: KernelSource,
        machine: Machine,
        constants: Mapping[str, object],
    ):
        self._program = program
        self._entry = source.entry
        self._source = source
        self._constants = constants
        self._prints = "print_to" in machine.capabilities.options
        self._launch = program.launch_described
        self._plain: Settings | None = None
        """Settings that ask for nothing but a launch."""

    def repeated(
        self, grid: tuple[int, int, int], given: Sequence[Given], settings: Settings
    ) -> Callable[[tuple[Any, ...]], bool] | None:
        """What makes a launch like this one, which has been made, once more (``launching.machine.RepeatingProgram``)."""
        program = self._program
        if settings is not self._plain or not isinstance(program, RepeatingProgram):
            return None
        return program.repeated(self._entry, grid, given, settings.options)

    def launch(
        self, grid: tuple[int, int, int], values: Sequence[Value], settings: Settings
    ) -> object:
        """Run it to its end; what the machine knows of the run beside the arrays.

        Raises TileIRError where it does what it must not, or assertions failed; what the sanitizer finds goes to
        ``settings.on_report`` where there is one.
        """
        options = settings.options
        if settings is self._plain:
            return self._launch(self._entry, grid, values, options)
        if options.sanitize and settings.on_report is not None:
            return self._sanitized(grid, values, options, settings.on_report)
        if options.breakpoints:
            from tilewright.cutile.stops import resolved

            kernel = self._source.module.entry(self._entry)
            stops = resolved(options.breakpoints, kernel, values, self._constants)
            options = replace(options, breakpoints=stops)
        if settings.trace is not None:
            return self._traced(grid, values, options, settings.trace)
        if not self._prints:  # the driver writes to standard output by itself
            options = replace(options, print_to=None)
        if options is settings.options:
            self._plain = settings
        return self._program.launch_described(self._entry, grid, values, options)

    def _sanitized(
        self,
        grid: tuple[int, int, int],
        values: Sequence[Value],
        options: LaunchOptions,
        sink: ReportSink,
    ) -> None:
        from tilewright.machine.sanitize.sanitizer import SanitizerError

        try:
            self._program.launch_described(self._entry, grid, values, options)
        except SanitizerError as error:
            sink(self._source.module, error.report)
        else:
            sink(self._source.module, None)

    def _traced(
        self,
        grid: tuple[int, int, int],
        values: Sequence[Value],
        options: LaunchOptions,
        sink: TraceSink,
    ) -> None:
        from tilewright.machine.inspect import Trace

        wanted: Trace | None = options.trace
        trace = Trace("all") if wanted is None else replace(wanted, records=[])
        try:
            traced = replace(options, trace=trace)
            self._program.launch_described(self._entry, grid, values, traced)
        finally:
            sink(trace)


def get_ready(name: str) -> None:
    """Import and start what launches on a machine need, so that the first one does not have to.

    Raises TileIRError for a machine that there is not.
    """
    machine = machine_named(name)
    if not machine.capabilities.knows_modules:
        for module in _READING:
            import_module(module)
    machine.get_ready()


def check_settings(settings: Settings) -> None:
    """A :class:`RefusedError` that says why, unless launches can run as the settings want it."""
    options = settings.options
    try:
        machine = machine_named(settings.machine)
        wanted = options if settings.trace is None else replace(options, trace=settings.trace)
        machine.check_options(replace(wanted, print_to=None))
        machine.check()
        if settings.tune_for is not None:
            from tilewright.model.tables import gpu_named

            gpu_named(settings.tune_for)
    except TileIRError as error:
        raise RefusedError(error.diagnostics) from None


def is_known(source: KernelSource, settings: Settings) -> bool:
    """Whether a kernel can be loaded onto the machine that the settings name without reading its module."""
    try:
        check_settings(settings)
        return machine_named(settings.machine).known(source) is not None
    except TileIRError:  # which is said where the kernel is loaded
        return False


def load(source: KernelSource, settings: Settings, constants: Mapping[str, object]) -> LoadedKernel:
    """Load a kernel onto the machine that the settings name.

    ``constants`` are those that the kernel was compiled for, by parameter. Raises RefusedError for settings that the
    machine lacks, TileIRError for what it cannot run.
    """
    check_settings(settings)
    machine = machine_named(settings.machine)
    known = machine.known(source)
    if known is not None:
        return LoadedKernel(known.load(DEFAULT_OPTIONS), source, machine, constants)
    program = machine.load(source.module)
    machine.remember(source, program)
    return LoadedKernel(program, source, machine, constants)
