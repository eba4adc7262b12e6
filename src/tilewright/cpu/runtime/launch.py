"""Loads a module onto the CPU and launches its kernels."""

from __future__ import annotations

import time
import warnings
from array import array as c_array
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.cpu.abi import ALONE, ARENA_ALIGNMENT, CLOSED, AssertSite, Site
from tilewright.cpu.compiled_kernels import CompiledKernel, CompileOptions
from tilewright.cpu.runtime.argument_fast_path import Span
from tilewright.cpu.runtime.crash import report_crashes
from tilewright.cpu.runtime.described import DescribedPacker
from tilewright.cpu.runtime.driver import LaunchState
from tilewright.cpu.runtime.engine import OptLevel, Timings
from tilewright.cpu.runtime.interrupts import WATCHER
from tilewright.cpu.runtime.kernels import NativeKernel, prepare_kernel
from tilewright.cpu.runtime.lock_order import arranged_by_key
from tilewright.cpu.runtime.module_records import put_module
from tilewright.cpu.runtime.modules import LaunchedKernel, LaunchedModule
from tilewright.cpu.runtime.native_packing import NativePacker
from tilewright.cpu.runtime.packing import ALL_MEMORY, Packed, Packer, span_of
from tilewright.cpu.runtime.pool import POOL, thread_count
from tilewright.cpu.runtime.repeated_arguments import RepeatedArguments, repeated_arguments
from tilewright.cpu.runtime.reports import SILENCE, Reports
from tilewright.cpu.runtime.updates import UPDATE_LOCK
from tilewright.cpu.runtime.waiting import watched_for_deadlock
from tilewright.cpu.runtime.warm import WarmLaunch, as_tuple
from tilewright.diagnostics import TileIRError
from tilewright.diagnostics.tracebacks import hides_frames
from tilewright.launching.assertions import OperationSource, assertion_error
from tilewright.launching.codes import ASSERTION_FAILED, BAD_GRID
from tilewright.launching.described import Given, Value
from tilewright.launching.disk_cache import disk_cache
from tilewright.launching.global_memory import GlobalMemory, public_global
from tilewright.launching.one_at_a_time import new_lock, one_at_a_time
from tilewright.launching.options import (
    DEFAULT_OPTIONS,
    LaunchOptions,
    check_options,
    with_deprecated,
)
from tilewright.launching.result import RunResult
from tilewright.launching.time_limits import stopped_here, time_is_over
from tilewright.numerics.arrays import Array

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from tilewright.launching.modules import Module

__tracebackhide__ = hides_frames

Grid = int | Sequence[int]


@dataclass(slots=True, eq=False)
class _Entry:
    """A kernel of the module: how its arguments are packed, and its code, for arrays that do not overlap
    (True) and for others, as far as that is made, and for the options that it was made with."""

    kernel: LaunchedKernel
    packer: Packer
    code: dict[tuple[bool, _Compiling], NativeKernel] = field(default_factory=dict)
    described: DescribedPacker | None = None
    latest: dict[bool, tuple[_Compiling, NativeKernel]] = field(default_factory=dict)
    warm: WarmLaunch | None = None
    """The latest launch whose arguments a client had described."""


@dataclass(frozen=True, slots=True, eq=False)
class _Compiling:
    """What code depends on beside the kernel and its arguments. There is one for each value in a
    program, so that they are compared by identity, which every launch does."""

    options: CompileOptions
    level: OptLevel


@dataclass(frozen=True, slots=True)
class _Settings:
    """The options of launches, worked out."""

    options: LaunchOptions
    compiling: _Compiling
    threads: int


class Program:
    """A loaded module: its globals live as long as it does, its kernels are compiled once.

    The module, of ``cuda_tile`` or of ``nv_tileaa``, must have passed the verifier; instead of an operation it can be one
    that is known from the disk. ``options`` are
    those of launches that give none. Several threads may launch at once; their launches share globals.
    """

    def __init__(
        self,
        module: Operation | LaunchedModule,
        options: LaunchOptions = DEFAULT_OPTIONS,
        **deprecated: Any,
    ) -> None:
        if isinstance(module, LaunchedModule):
            self._module = module
        else:
            self._module = LaunchedModule(lambda: module)
            _ = self._module.op  # A TypeError for what is no module.
        self.timings = Timings()
        self.options = with_deprecated(options, deprecated, "Program")
        # Those of launches that give none, and the latest others.
        self._compilings: dict[tuple[CompileOptions, OptLevel], _Compiling] = {}
        self._settings = self._worked_out(self.options)
        self._others = self.options, self._settings
        self._globals = {held.name: (held, _global_memory(held)) for held in self._module.globals}
        self._entries: dict[str | None, _Entry] = {}
        self._mapped: list[Array] = []
        self._warm: dict[str | None, WarmLaunch] = {}
        self._lock = new_lock()

    @property
    def module(self) -> Module:
        """The module that runs; it is read if it was not needed so far."""
        return self._module.op

    def remember(self, data: bytes) -> None:
        """Make the module, which was read from these bytes without a warning, known to later processes
        (``module_records``)."""
        cache = disk_cache()
        if cache is not None:
            put_module(cache, data, self._module.op, self._module.digest)

    def map_array(self, array: Array) -> int:
        """The address of an array's first element, valid as long as the program.

        For kernels that get addresses inside other arrays, such as tables of arrays.
        """
        self._mapped.append(array)
        return int(array.ctypes.data)

    def global_array(self, name: str) -> Array:
        """The contents of a public global: an array over its memory, 4-bit elements packed in bytes.

        Changes are seen by later launches. Raises ``KeyError`` if there is no public global of the name.
        """
        held = [each for each, _ in self._globals.values()]
        return public_global(name, held, lambda found: self._globals[found][1])

    def prepare(self, entry: str | None = None) -> NativeKernel:
        """Compile a kernel, by default the only one, for launches whose arrays do not overlap.

        A launch does it by itself. Raises ``TileIRError`` (``cpu-unsupported``) for what cannot be compiled.
        """
        return self._native(self._entry(entry), self._settings.compiling, distinct=True)

    def launch(
        self,
        entry: str | None = None,
        grid: Grid = (1, 1, 1),
        args: Sequence[object] = (),
        options: LaunchOptions | None = None,
        **deprecated: Any,
    ) -> RunResult:
        """As every machine's (``launching.machine.Program``).

        Printed texts and plugins are called in any thread. A grid whose blocks wait for one another can end in a
        deadlock, which is an error: see ``waiting``. What the handler of a signal raises, such as KeyboardInterrupt
        on Ctrl-C, ends the launch; if a tile block was in a loop then, a note of the exception names it. Raises
        ``TileIRError`` for arguments that do not fit, for failed assertions unless the options say otherwise,
        deadlocks, and after the time limit.
        """
        warm = self._warm.get(entry)
        if warm is not None and options is warm.given and not deprecated:
            try:
                again = warm.launch(grid, args)
            except BaseException as error:
                self._tell_where(error, self._entry(entry), warm.kernel, warm.state)
                raise
            if again is not None:
                return again
        given = options
        if deprecated:
            options = with_deprecated(options or self.options, deprecated, "launch")
        settings = self._settings if options is None else self._settings_of(options)
        found = self._entry(entry)
        packed = found.packer.pack(grid, args, allow_overlap=settings.options.allow_overlap)
        reports = self._run(found, packed, settings)
        failures = reports.failures
        if failures and settings.options.check_asserts:
            raise assertion_error(failures)
        if not deprecated and (extents := as_tuple(grid)) is not None:
            self._keep_warm(entry, found, packed, extents, given, settings)
        outputs = tuple([value for value in packed.keep if isinstance(value, np.ndarray)])
        return RunResult(outputs, "".join(reports.printed), failures)

    def _keep_warm(
        self,
        name: str | None,
        entry: _Entry,
        packed: Packed,
        grid: tuple[int, ...],
        given: LaunchOptions | None,
        settings: _Settings,
    ) -> None:
        """Keep what a launch has worked out for the next ones, if nothing but a grid is to be run in them."""
        native, known = entry.packer.native, self._warm.get(name)
        if native is None or (known is not None and known.is_for(known.kernel, grid, given)):
            return
        warm = self._warm_launch(entry, packed, grid, given, settings, native)
        if warm is not None:
            self._warm[name] = warm

    def _warm_launch(
        self,
        entry: _Entry,
        packed: Packed,
        grid: tuple[int, ...],
        given: LaunchOptions | None,
        settings: _Settings,
        native: NativePacker | RepeatedArguments | None = None,
    ) -> WarmLaunch | None:
        """What a launch has worked out; None where more than a grid is to be run in the next ones."""
        options = settings.options
        kernel = self._native(entry, settings.compiling, distinct=packed.distinct)
        compiled = kernel.compiled
        if not packed.distinct or compiled.sites or settings.options.checked:
            return None
        if compiled.updates and not compiled.may_be_alone:
            return None
        if compiled.may_wait or compiled.takes_over:
            return None
        if options.time_limit is not None or options.progress is not None:
            return None
        slots: Sequence[int] = packed.slots
        table: c_array[int] | None = None
        if compiled.asks_for_memory:
            # Who is alone makes no copies of arrays, whatever ranges the table says that they have.
            table = c_array(_UNSIGNED, self._noalias_ranges(entry.packer, packed, settings))
            slots = [*slots, table.buffer_info()[0]]
        state = LaunchState(kernel.address, slots, packed.grid, (kernel, table), settings.threads)
        arrays = entry.packer.arrays
        return WarmLaunch(kernel, native, state, grid, given, settings.threads, arrays)

    def _settings_of(self, options: LaunchOptions) -> _Settings:
        if options is self._settings.options:
            return self._settings
        given, found = self._others
        if options is not given:
            found = self._worked_out(options.over(self.options))
            self._others = options, found
        return found

    def _worked_out(self, options: LaunchOptions) -> _Settings:
        """A TileIRError for options of other machines, and for wrong numbers of threads."""
        check_options(options, "cpu")
        how = CompileOptions(
            cpu=options.cpu, checked=options.checked, plugins=frozenset(options.plugins or ())
        )
        level = OptLevel(options.optimization)
        compiling = self._compilings.setdefault((how, level), _Compiling(how, level))
        return _Settings(options, compiling, thread_count(options.threads))

    def launch_described(
        self,
        entry: str,
        grid: tuple[int, int, int],
        values: Sequence[Value],
        options: LaunchOptions | None = None,
    ) -> None:
        """As every machine's (``launching.machine.Program``).

        Raises ``TileIRError`` as ``launch`` does, failed assertions included.
        """
        found = self._entries.get(entry) or self._entry(entry)
        packer = found.described
        if packer is None:
            packer = found.described = DescribedPacker(found.kernel)
        packed = packer.pack(grid, values)
        warm = found.warm
        if warm is not None and options is warm.given:
            try:
                if warm.launch_packed(grid, packed):
                    return
            except BaseException as error:
                self._tell_where(error, found, warm.kernel, warm.state)
                raise
        settings = self._settings if options is None else self._settings_of(options)
        reports = self._run(found, packed, settings)
        if warm is None or not warm.is_for(warm.kernel, grid, options):
            found.warm = self._warm_launch(found, packed, grid, options, settings)
        if reports.has_failures and settings.options.check_asserts:
            raise assertion_error(reports.failures)

    def repeated(
        self,
        entry: str,
        grid: tuple[int, int, int],
        given: Sequence[Given],
        options: LaunchOptions | None = None,
    ) -> Callable[[tuple[Any, ...]], bool] | None:
        """As of ``launching.machine.RepeatingProgram``."""
        found = self._entry(entry)
        packer = found.described or DescribedPacker(found.kernel)
        arguments = repeated_arguments(given, packer.written)
        if arguments is None:
            return None
        packed = packer.pack(grid, [each.value for each in given if each.value is not None])
        settings = self._settings if options is None else self._settings_of(options)
        warm = self._warm_launch(found, packed, grid, options, settings, arguments)
        if warm is None:
            return None

        def again(args: tuple[Any, ...]) -> bool:
            try:
                return warm.repeat(args)
            except BaseException as error:
                self._tell_where(error, found, warm.kernel, warm.state)
                raise

        return again

    def _run(self, entry: _Entry, packed: Packed, settings: _Settings) -> Reports:
        """Run a kernel to its end; what it has reported."""
        options = settings.options
        kernel = self._native(entry, settings.compiling, distinct=packed.distinct)
        compiled = kernel.compiled
        if prod(packed.grid) > _MOST_BLOCKS:
            raise TileIRError.single(
                BAD_GRID,
                f"the grid {packed.grid} has more than 2**62 tile blocks, more than a run can "
                "finish",
            )
        slots: Sequence[int] = packed.slots
        table: c_array[int] | None = None
        if compiled.asks_for_memory:
            table = c_array(_UNSIGNED, self._noalias_ranges(entry.packer, packed, settings))
            slots = [*slots, table.buffer_info()[0]]
        keep = table, packed.keep, packed.copies, kernel
        state = LaunchState(kernel.address, slots, packed.grid, keep, settings.threads)
        reports = SILENCE
        if compiled.sites:
            reports = Reports(compiled.sites, state, options.print_to, options.plugins or {})
        forget = None
        if options.time_limit is not None:
            forget = WATCHER.limited(state, options.time_limit)
        try:
            with reports:
                if compiled.updates:
                    self._run_updates(state, kernel, settings)
                else:
                    self._run_blocks(state, kernel, settings)
        except TileIRError:
            raise
        except BaseException as error:
            self._tell_where(error, entry, kernel, state)
            raise
        finally:
            if forget is not None:
                forget()
        if reports.error is not None:
            if isinstance(reports.error, KeyboardInterrupt):  # while it printed
                self._tell_where(reports.error, entry, kernel, state)
            raise reports.error
        if state.expired and state.finished < state.total and options.time_limit is not None:
            where = self._stopped_in(entry, kernel, state)
            raise time_is_over(options.time_limit, *where)
        assert state.expired or not state.stop, "a kernel stopped without a diagnostic"
        if reports.has_failures and compiled.is_from_disk:
            reports.place(self._compiled_anew(entry, kernel).sites)
        return reports

    def _run_updates(self, state: LaunchState, kernel: NativeKernel, settings: _Settings) -> None:
        """Run a kernel with atomic operations: alone where that is as fast, else beside others."""
        compiled = kernel.compiled
        silent = all(map(_ends_launch, compiled.sites)) and settings.options.progress is None
        if not (compiled.may_be_alone and silent):
            with UPDATE_LOCK.together():
                self._run_blocks(state, kernel, settings)
            return
        choice, total = kernel.choice, state.total
        wanted = settings.threads == 1 or total == 1 or choice.alone_is_next()
        started = time.perf_counter()
        if wanted:
            with UPDATE_LOCK.alone() as alone:
                state.alone = ALONE if alone else 0
                self._run_blocks(state, kernel, replace(settings, threads=1) if alone else settings)
        else:
            # Before a chunk size is known, calls are too short for copies of large arrays.
            may_close = compiled.asks_for_memory and kernel.feedback.seconds > 0
            with UPDATE_LOCK.alone() if may_close else UPDATE_LOCK.together() as closed:
                state.alone = CLOSED if closed else 0
                self._run_blocks(state, kernel, settings)
        if settings.threads > 1:
            choice.learn((time.perf_counter() - started) / total, alone=state.alone == ALONE)

    @staticmethod
    def _run_blocks(state: LaunchState, kernel: NativeKernel, settings: _Settings) -> None:
        compiled, options = kernel.compiled, settings.options
        with ExitStack() as held:
            if compiled.may_wait:
                held.enter_context(watched_for_deadlock(state, options.deadlock_timeout))
            divide = None if compiled.takes_over or compiled.may_wait else LaunchState.divide
            if kernel.keys:
                divide = partial(arranged_by_key, keys=kernel.keys)
            POOL.run(
                state,
                compiled.arena_bytes,
                settings.threads,
                kernel.feedback,
                options.progress,
                divide=divide,
                gathers=compiled.updates and compiled.asks_for_memory and not options.checked,
            )

    def _tell_where(
        self, error: BaseException, entry: _Entry, kernel: NativeKernel, state: LaunchState
    ) -> None:
        """Note in what a signal has raised which loop, and which tile block, a run was in."""
        loop, block = self._stopped_in(entry, kernel, state)
        if loop is not None and block is not None:
            error.add_note(stopped_here(loop, f"tile block {block}"))

    def _stopped_in(
        self, entry: _Entry, kernel: NativeKernel, state: LaunchState
    ) -> tuple[OperationSource | None, tuple[int, int, int] | None]:
        """The loop, and the tile block, that a run was in when it was stopped."""
        found = state.stopped_in
        if found is None:
            return None, None
        number, block = found
        compiled = kernel.compiled
        if compiled.is_from_disk:
            compiled = self._compiled_anew(entry, kernel)
        assert compiled.loops is not None
        return compiled.loops[number], block

    @one_at_a_time
    def _compiled_anew(self, entry: _Entry, kernel: NativeKernel) -> CompiledKernel:
        """What code from the disk does not have, where its loops and sites are, from compiling the kernel: it makes the
        same code."""
        from tilewright.cpu.compile import compile_kernel

        distinct, compiling = next(k for k, code in entry.code.items() if code is kernel)
        options = replace(compiling.options, distinct_arguments=distinct)
        return compile_kernel(self._module.lowered, entry.kernel.interface.symbol, options)

    def _entry(self, name: str | None) -> _Entry:
        found = self._entries.get(name)
        return self._found_entry(name) if found is None else found

    @one_at_a_time
    def _found_entry(self, name: str | None) -> _Entry:
        found = self._entries.get(name)
        if found is None:
            kernel = self._module.kernel(name)
            symbol = kernel.interface.symbol
            same = (e for e in self._entries.values() if e.kernel.interface.symbol == symbol)
            found = self._entries[name] = next(same, None) or _Entry(kernel, Packer(kernel))
        return found

    def _noalias_ranges(self, packer: Packer, packed: Packed, settings: _Settings) -> list[int]:
        """The table of memory for code that asks for it (``abi``)."""
        spans = packer.spans(packed)
        if settings.options.checked:
            arrays = [*self._mapped, *(memory for _, memory in self._globals.values())]
            others = [span_of(array) for array in arrays]
            addresses = [packed.slots[number] for number in packer.arrays]
            spans = [_settled(s, at, others) for s, at in zip(spans, addresses, strict=True)]
            spans += others
        return [len(spans), *(address for span in spans for address in span)]

    def _native(self, entry: _Entry, compiling: _Compiling, *, distinct: bool) -> NativeKernel:
        found = entry.latest.get(distinct)
        if found is not None and found[0] is compiling:
            return found[1]
        kernel = self._prepared(entry, compiling, distinct=distinct)
        entry.latest[distinct] = compiling, kernel
        return kernel

    @one_at_a_time
    def _prepared(self, entry: _Entry, compiling: _Compiling, *, distinct: bool) -> NativeKernel:
        key = distinct, compiling
        found = entry.code.get(key)
        if found is None:
            found = entry.code[key] = prepare_kernel(
                self._module,
                entry.kernel,
                replace(compiling.options, distinct_arguments=distinct),
                compiling.level,
                {name: int(memory.ctypes.data) for name, (_, memory) in self._globals.items()},
                self.timings,
            )
            report_crashes()
        return found


def _ends_launch(site: Site) -> bool:
    """Whether what is reported there is a failed check: it ends the launch, and no function of the user's is called."""
    return isinstance(site, AssertSite) and site.code != ASSERTION_FAILED


def _settled(span: Span, address: int, others: Sequence[Span]) -> Span:
    """The memory that an argument stands for; a bare address for what it lies in, where that is known."""
    if span != ALL_MEMORY:
        return span
    return next((other for other in others if other[0] <= address < other[1]), span)


def _global_memory(held: GlobalMemory) -> Array:
    """Aligned bytes that hold a global's initial value."""
    alignment = max(held.alignment, ARENA_ALIGNMENT)
    room = np.empty(len(held.data) + alignment, np.uint8)
    start = -room.ctypes.data % alignment
    memory = room[start : start + len(held.data)]
    memory[:] = np.frombuffer(held.data, np.uint8)
    return memory


#: The type code of arrays that compiled code reads.
_UNSIGNED = "Q"
# Blocks are counted in 64 bits, by several threads at once.
_MOST_BLOCKS = 1 << 62


def run(
    module: Operation,
    entry: str | None = None,
    grid: Grid = (1, 1, 1),
    args: Sequence[object] = (),
    options: LaunchOptions | None = None,
    **deprecated: Any,
) -> RunResult:
    """Deprecated: ``tilewright.run(..., machine="cpu")`` is the same."""
    warnings.warn("use tilewright.run(..., machine='cpu')", DeprecationWarning, stacklevel=2)
    chosen = with_deprecated(options, deprecated, "run")
    return Program(module, chosen).launch(entry, grid, args)
