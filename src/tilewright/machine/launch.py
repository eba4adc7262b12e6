"""Loads a module and launches its kernels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from xdsl.ir import Operation

from tilewright.diagnostics.tracebacks import hides_frames
from tilewright.dialects.cuda_tile.ops.module import EntryOp
from tilewright.dialects.source_map import location_of
from tilewright.launching.accepted import Converted
from tilewright.launching.array_interchange import in_numpy
from tilewright.launching.assertions import assertion_error
from tilewright.launching.checks import check_launch, convention_of
from tilewright.launching.described import Value, arguments_of, arrays_of, converted
from tilewright.launching.global_memory import GlobalMemory, public_global
from tilewright.launching.modules import (
    KernelOp,
    globals_of,
    is_tileaa,
    kernel_of,
    runnable_module,
)
from tilewright.launching.one_at_a_time import new_lock, one_at_a_time
from tilewright.launching.options import (
    DEFAULT_OPTIONS,
    LaunchOptions,
    check_options,
    with_deprecated,
)
from tilewright.launching.plugins import Plugin as Plugin
from tilewright.launching.result import InspectedResult, RunResult
from tilewright.machine import ops as ops  # fills the table of implementations
from tilewright.machine.arguments import ArrayMap, bind
from tilewright.machine.compile import CompiledBlock, Translator
from tilewright.machine.described import Placements
from tilewright.machine.faults import Fault, as_error
from tilewright.machine.grid import GridRun
from tilewright.machine.memory import Allocation
from tilewright.machine.state import Machine, TimeLimit
from tilewright.machine.tensors import ArrayNames
from tilewright.nesting import deep_recursion
from tilewright.numerics.arrays import Array

__tracebackhide__ = hides_frames

Grid = int | Sequence[int]

DEFAULT_MAX_ITERATIONS = DEFAULT_OPTIONS.max_iterations
"""The number of iterations after which a loop counts as endless."""


_Kernel = tuple[Translator, CompiledBlock, tuple[int, ...]]
"""A translated kernel, and the slots of its parameters."""


_NO_NAMES = ArrayNames()
_T = TypeVar("_T")


@dataclass(slots=True)
class Given:
    """A checked launch, for any program of the module.

    ``args`` are the arguments as given, ``outputs`` the arrays among them. If the caller has described
    the arguments, ``values`` holds those descriptions.
    """

    kernel: KernelOp
    grid: tuple[int, int, int]
    args: Sequence[object]
    arguments: Converted
    outputs: tuple[Array, ...]
    names: ArrayNames
    values: Sequence[Value] | None = None


def given_arguments(
    kernel: KernelOp, grid: Grid, args: Sequence[object], allow_overlap: bool
) -> Given:
    """Check the arguments of a launch. Raises TileIRError with everything that is wrong."""
    args = in_numpy(args, lambda: location_of(kernel))
    checked = check_launch(kernel, grid, args, allow_overlap=allow_overlap)
    names = ArrayNames.of_launch(kernel, args)
    return Given(kernel, checked.grid, args, checked.arguments, checked.outputs, names)


def given_values(kernel: KernelOp, grid: tuple[int, int, int], values: Sequence[Value]) -> Given:
    """Return the launch for arguments that the caller has described."""
    arrays = [(array.name, array.as_numpy()) for array in arrays_of(values)]
    return Given(
        kernel,
        grid,
        list(arguments_of(values)),
        converted(values),
        tuple(array for _, array in arrays),
        ArrayNames(tuple(arrays)),
        values,
    )


class Program:
    """A loaded module. Its globals live as long as the program, and kernels are translated once.

    The module, of ``cuda_tile`` or ``nv_tileaa``, must be verified. Launches from several threads wait for one
    another. ``options`` are the defaults for launches.
    """

    def __init__(
        self,
        module: Operation,
        options: LaunchOptions = DEFAULT_OPTIONS,
        **deprecated: Any,
    ):
        self.module = runnable_module(module)
        self.options = with_deprecated(options, deprecated, "Program")
        self.arithmetic = self.options.arithmetic
        """The arithmetic of the latest launch."""
        self.started = False
        """Whether a launch has started to run tile blocks."""
        self._accepted = DEFAULT_OPTIONS
        self._machine = Machine()
        self._arrays = ArrayMap(self._machine.memory)
        self._mapped: list[Array] = []
        self._globals: dict[str, tuple[GlobalMemory, Allocation]] = {}
        self._kernels: dict[object, _Kernel] = {}
        self._latest: tuple[KernelOp, _Kernel] | None = None
        self._entries: dict[str, KernelOp] = {}
        self._placed = Placements(self._machine.memory)
        self._lock = new_lock()
        if is_tileaa(self.module):
            # Extends the table of implementations; the import takes time.
            from tilewright.machine import tileaa as tileaa
        for held in globals_of(self.module):
            self._globals[held.name] = held, self._load(held)
        self._accept(self.options)

    def _load(self, held: GlobalMemory) -> Allocation:
        return self._machine.memory.allocate(
            np.frombuffer(bytearray(held.data), np.uint8),
            f"global @{held.name}",
            alignment=held.alignment,
            writable=not held.is_constant,
        )

    def map_array(self, array: Array) -> int:
        """Return the address of an array's first element, valid in all later launches.

        For kernels that take addresses stored inside other arrays, such as tables of arrays.
        """
        self._mapped.append(array)
        return self._arrays.map([("a mapped array", array)])[0]

    @property
    def own_memory(self) -> list[Array]:
        """The memory that launches share besides their arguments: globals and mapped arrays."""
        return [*(held.buffer for _, held in self._globals.values()), *self._mapped]

    def share_memory_of(self, other: Program) -> None:
        """Share the globals and mapped arrays of another program of the same module; each sees the
        other's writes."""
        for name, (_, allocation) in self._globals.items():
            allocation.buffer = other._globals[name][1].buffer
        for array in other._mapped:
            self.map_array(array)

    def global_array(self, name: str) -> Array:
        """Return a public global as an array over its memory, 4-bit elements packed in bytes.

        Raises KeyError if there is none of that name.
        """
        held = [each for each, _ in self._globals.values()]
        return public_global(name, held, lambda found: self._globals[found][1].buffer)

    @one_at_a_time
    def launch(
        self,
        entry: str | None = None,
        grid: Grid = (1, 1, 1),
        args: Sequence[object] = (),
        options: LaunchOptions | None = None,
        **deprecated: Any,
    ) -> RunResult:
        """Like every machine's (``launching.machine.Program``); accepts addresses from ``map_array``.

        Raises ``TileIRError`` as they do; with ``options.sanitize`` or ``find_nan`` its subclasses ``SanitizerError``
        and ``NanError`` with everything found. TypeError for unknown keywords.
        """
        chosen = self.options if options is None else options.over(self.options)
        if deprecated:
            chosen = with_deprecated(chosen, deprecated, "launch")
        if chosen is not self._accepted:
            self._accept(chosen)
        kernel = kernel_of(self.module, entry)
        # If the parameter names say which arrays may overlap, the sanitizer reports any others that do.
        told = chosen.sanitize and convention_of(kernel) is not None
        given = given_arguments(kernel, grid, args, chosen.allow_overlap or told)
        return self._specially(given, chosen) if self._is_special else self.start(given, chosen)

    def _accept(self, options: LaunchOptions) -> None:
        """Prepare for launches with these options. Raises TileIRError for options of other machines."""
        check_options(options, "reference")
        self.arithmetic = options.arithmetic
        self._machine.plugins = dict(options.plugins or {})
        self._latest = None
        self._is_special = (
            options.sanitize
            or options.find_nan
            or bool(options.breakpoints)
            or options.trace is not None
        )
        self._accepted = options

    @one_at_a_time
    def launch_described(
        self,
        entry: str,
        grid: tuple[int, int, int],
        values: Sequence[Value],
        options: LaunchOptions | None = None,
    ) -> None:
        """Like every machine's (``launching.machine.Program``).

        Raises ``TileIRError`` for a fault in the kernel, and for failed assertions once all tile blocks have run.
        """
        chosen = self.options if options is None else options.over(self.options)
        if chosen is not self._accepted:
            self._accept(chosen)
        op = self._entries.get(entry)
        if op is None:
            op = self._entries[entry] = kernel_of(self.module, entry)
        if self._is_special:
            self._specially(given_values(op, grid, values), chosen)
        elif self._run(op, grid, self._placed.parameters, values, chosen, _NO_NAMES):
            raise assertion_error(self._machine.failures)

    def _specially(self, given: Given, options: LaunchOptions) -> RunResult:
        """Run a launch that is sanitized or observed."""
        if options.sanitize:
            from tilewright.machine.sanitize.sanitizer import SanitizerError, sanitize_given

            report = sanitize_given(given, options, self)
            if report.result is None or not report.is_clean:
                raise SanitizerError(report)
            return report.result
        from tilewright.machine.inspect.runner import inspect_given

        found = inspect_given(given, options, self)
        result = found.result or RunResult(given.outputs)
        return InspectedResult(
            result.outputs,
            result.text,
            result.failures,
            options.arithmetic,
            found.hits,
            found.stopped_at,
        )

    def start(self, given: Given, options: LaunchOptions) -> RunResult:
        """:meth:`launch` with checked arguments, for the single schedule ``options.seed``, with only the hooks of
        this program's own translator. Raises ``TileIRError`` as it does.
        """
        if options is not self._accepted:
            self._accept(options)
        array_mark = self._arrays.mark()
        try:
            failed = self._run(
                given.kernel, given.grid, self._parameters, given, options, given.names
            )
        finally:
            self._arrays.release(array_mark)
        failures = tuple(self._machine.failures)
        if failed:
            raise assertion_error(failures)
        text = "".join(self._machine.printed)
        return RunResult(given.outputs, text, failures, self.arithmetic)

    def _parameters(self, given: Given) -> Sequence[Array]:
        if given.values is not None:
            return self._placed.parameters(given.values)
        return bind(given.arguments, self._arrays, location_of(given.kernel))

    @deep_recursion()
    def _run(
        self,
        op: KernelOp,
        grid: tuple[int, int, int],
        parameters: Callable[[_T], Sequence[Array]],
        given: _T,
        options: LaunchOptions,
        names: ArrayNames,
    ) -> bool:
        """Run all tile blocks. Returns whether assertions failed that count as an error.

        ``parameters`` converts the arguments to tiles, with arrays placed in the machine's memory.
        """
        kernel, body, slots = self._kernel(op)
        machine, memory = self._machine, self._machine.memory
        memory_mark = memory.mark()
        try:
            bound = zip(slots, parameters(given), strict=True)
            machine.grid, machine.max_iterations = grid, options.max_iterations
            machine.printed, machine.failures, machine.print_to = [], [], options.print_to
            machine.names = names
            machine.time = TimeLimit.begin(options.time_limit)
            self.started = True
            GridRun(
                machine, kernel, body, bound, options.seed, options.progress, options.resident
            ).run()
        finally:
            machine.memo.clear()
            memory.release(memory_mark)
        return bool(machine.failures) and options.check_asserts

    def _translator(self, global_addresses: dict[str, int]) -> Translator:
        return Translator(self._machine, global_addresses, self.arithmetic)

    @staticmethod
    def _translated(op: KernelOp, kernel: Translator) -> CompiledBlock:
        if isinstance(op, EntryOp):
            return kernel.block(op.block)
        from tilewright.machine.tileaa.functions import translate_kernel

        return translate_kernel(op, kernel)

    def _kernel(self, op: KernelOp) -> _Kernel:
        """Return a kernel translated for the options of the launch."""
        if self._latest is not None and op is self._latest[0]:
            return self._latest[1]
        key = op.symbol, self.arithmetic, tuple(self._machine.plugins.items())
        found = self._kernels.get(key)
        if found is None:
            addresses = {name: allocation.base for name, (_, allocation) in self._globals.items()}
            kernel = self._translator(addresses)
            try:
                body = self._translated(op, kernel)
            except Fault as fault:
                raise as_error(fault, ()) from None
            found = self._kernels[key] = kernel, body, tuple(kernel.slots(op.block.args))
        self._latest = op, found
        return found


def run(
    module: Operation,
    entry: str | None = None,
    grid: Grid = (1, 1, 1),
    args: Sequence[object] = (),
    options: LaunchOptions | None = None,
    **deprecated: Any,
) -> RunResult:
    """Deprecated: ``tilewright.run`` is the same, on every machine. Raises TypeError for unknown keywords."""
    warnings.warn("use tilewright.run", DeprecationWarning, stacklevel=2)
    chosen = with_deprecated(options, deprecated, "run")
    return Program(module, chosen).launch(entry, grid, args)
