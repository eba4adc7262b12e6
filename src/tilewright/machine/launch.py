"""Loading a module and launching its kernels."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.ir import Operation

import tilewright.machine.ops  # noqa: F401  (fills the table of implementations)
from tilewright.diagnostics import TileIRError
from tilewright.diagnostics.tracebacks import hides_frames
from tilewright.dialects.cuda_tile.ops.module import EntryOp
from tilewright.dialects.source_map import place_of
from tilewright.launching.assertions import assertion_error
from tilewright.launching.checks import check_launch, in_numpy
from tilewright.launching.modules import (
    GlobalMemory,
    KernelOp,
    globals_of,
    is_tileaa,
    kernel_of,
    public_global,
    runnable_module,
)
from tilewright.launching.options import (
    DEFAULT_OPTIONS,
    LaunchOptions,
    check_options,
    with_deprecated,
)
from tilewright.launching.plugins import Plugin as Plugin
from tilewright.launching.result import RunResult
from tilewright.machine.arguments import ArrayMap, bind
from tilewright.machine.compile import CompiledBlock, Translator
from tilewright.machine.faults import Fault, as_error
from tilewright.machine.grid import GridRun
from tilewright.machine.memory import Allocation
from tilewright.machine.state import Machine, TimeLimit
from tilewright.machine.tensors import ArrayNames
from tilewright.numerics.arrays import Array

__tracebackhide__ = hides_frames

Grid = int | Sequence[int]

DEFAULT_MAX_ITERATIONS = DEFAULT_OPTIONS.max_iterations
"""Iterations of one loop before it counts as endless."""


class Program:
    """A loaded module: its globals live as long as it does, its kernels are translated once.

    The module, of ``cuda_tile`` or of ``nv_tileaa``, must have passed the verifier. Not to be used
    by several threads at once. ``options`` are those of launches that give none.
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
        """Whether a launch has come as far as running tile blocks."""
        self._accepted = DEFAULT_OPTIONS
        self._machine = Machine()
        self._arrays = ArrayMap(self._machine.memory)
        self._mapped: list[Array] = []
        self._globals: dict[str, tuple[GlobalMemory, Allocation]] = {}
        self._kernels: dict[object, tuple[Translator, CompiledBlock]] = {}
        if is_tileaa(self.module):
            import tilewright.machine.tileaa  # noqa: F401  (more of the table, at a cost in time)
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
        """The address of an array's first element, valid in all later launches.

        For kernels that get addresses inside other arrays, such as tables of arrays.
        """
        self._mapped.append(array)
        return self._arrays.map([("a mapped array", array)])[0]

    @property
    def own_memory(self) -> list[Array]:
        """The memory of globals, and mapped arrays: what launches share beside their arguments."""
        return [*(held.buffer for _, held in self._globals.values()), *self._mapped]

    def share_memory_of(self, other: Program) -> None:
        """Begin with the globals and the mapped arrays of another program of the same module, which
        sees what this one writes."""
        for name, (_, allocation) in self._globals.items():
            allocation.buffer = other._globals[name][1].buffer
        for array in other._mapped:
            self.map_array(array)

    def global_array(self, name: str) -> Array:
        """The contents of a public global: an array over its memory, 4-bit elements packed in bytes."""
        held = [each for each, _ in self._globals.values()]
        return public_global(name, held, lambda found: self._globals[found][1].buffer)

    def launch(
        self,
        entry: str | None = None,
        grid: Grid = (1, 1, 1),
        args: Sequence[object] = (),
        options: LaunchOptions | None = None,
        **deprecated: Any,
    ) -> RunResult:
        """As every machine's (``launching.machine.Program``); addresses are those of ``map_array``."""
        chosen = self.options if options is None else options
        if deprecated:
            chosen = with_deprecated(chosen, deprecated, "launch")
        if chosen is not self._accepted:
            self._accept(chosen)
        if chosen.sanitize:
            return self._sanitized(entry, grid, args, chosen)
        if chosen.breakpoints or chosen.trace is not None or chosen.find_nan:
            return self._inspected(entry, grid, args, chosen)
        return self.launch_plainly(entry, grid, args, chosen)

    def _accept(self, options: LaunchOptions) -> None:
        """Get ready for launches with these options; a TileIRError for those of other machines."""
        check_options(options, "reference")
        self.arithmetic = options.arithmetic
        self._machine.plugins = dict(options.plugins or {})
        self._accepted = options

    def _sanitized(
        self, entry: str | None, grid: Grid, args: Sequence[object], options: LaunchOptions
    ) -> RunResult:
        from tilewright.machine.sanitize import sanitize

        report = sanitize(self.module, entry, grid, args, options, loaded=self)
        if report.result is None or not report.is_clean:
            raise TileIRError(report.diagnostics)
        return report.result

    def _inspected(
        self, entry: str | None, grid: Grid, args: Sequence[object], options: LaunchOptions
    ) -> RunResult:
        from tilewright.machine.inspect import run_with

        found = run_with(self.module, entry, grid, args, options, loaded=self)
        given = RunResult(tuple(value for value in args if isinstance(value, np.ndarray)))
        return replace(found.result or given, hits=found.hits, stopped_at=found.stopped_at)

    def launch_plainly(
        self,
        entry: str | None,
        grid: Grid,
        args: Sequence[object],
        options: LaunchOptions = DEFAULT_OPTIONS,
    ) -> RunResult:
        """:meth:`launch`, for the one schedule ``options.seed``, with what this program's translator
        puts in and nothing else."""
        if options is not self._accepted:
            self._accept(options)
        kernel_op = kernel_of(self.module, entry)
        args = in_numpy(kernel_op, args)
        checked = check_launch(kernel_op, grid, args, allow_overlap=options.allow_overlap)
        kernel, body = self._kernel(kernel_op)
        machine, memory = self._machine, self._machine.memory
        memory_mark, array_mark = memory.mark(), self._arrays.mark()
        try:
            values = bind(checked.arguments, self._arrays, place_of(kernel_op))
            parameters = zip(kernel.slots(kernel_op.block.args), values, strict=True)
            machine.grid, machine.max_iterations = checked.grid, options.max_iterations
            machine.printed, machine.failures, machine.print_to = [], [], options.print_to
            machine.names = ArrayNames.of_launch(kernel_op, args)
            machine.time = TimeLimit.begin(options.time_limit)
            self.started = True
            GridRun(
                machine, kernel, body, parameters, options.seed, options.progress, options.resident
            ).run()
        finally:
            machine.kept.clear()
            memory.release(memory_mark)
            self._arrays.release(array_mark)
        failures = tuple(machine.failures)
        if failures and options.check_asserts:
            raise assertion_error(failures)
        return RunResult(checked.outputs, "".join(machine.printed), failures, self.arithmetic)

    def _translator(self, global_addresses: dict[str, int]) -> Translator:
        return Translator(self._machine, global_addresses, self.arithmetic)

    @staticmethod
    def _translated(op: KernelOp, kernel: Translator) -> CompiledBlock:
        if isinstance(op, EntryOp):
            return kernel.block(op.block)
        from tilewright.machine.tileaa.functions import translate_kernel

        return translate_kernel(op, kernel)

    def _kernel(self, op: KernelOp) -> tuple[Translator, CompiledBlock]:
        key = op.symbol, self.arithmetic, tuple(self._machine.plugins.items())
        found = self._kernels.get(key)
        if found is None:
            addresses = {name: allocation.base for name, (_, allocation) in self._globals.items()}
            kernel = self._translator(addresses)
            try:
                found = kernel, self._translated(op, kernel)
            except Fault as fault:
                raise as_error(fault, ()) from None
            self._kernels[key] = found
        return found


def run(
    module: Operation,
    entry: str | None = None,
    grid: Grid = (1, 1, 1),
    args: Sequence[object] = (),
    options: LaunchOptions | None = None,
    **deprecated: Any,
) -> RunResult:
    """Deprecated: ``tilewright.run`` is the same, on every machine."""
    warnings.warn("use tilewright.run", DeprecationWarning, stacklevel=2)
    chosen = with_deprecated(options, deprecated, "run")
    return Program(module, chosen).launch(entry, grid, args)
