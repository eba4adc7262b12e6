"""Loading a module and launching its kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.ir import Operation

import tilewright.machine.ops  # noqa: F401  (fills the table of implementations)
from tilewright.diagnostics import TileIRError
from tilewright.dialects.cuda_tile.ops.module import EntryOp
from tilewright.dialects.source_map import place_of
from tilewright.launching.assertions import assertion_error
from tilewright.launching.checks import check_launch, check_resident
from tilewright.launching.modules import (
    GlobalMemory,
    KernelOp,
    globals_of,
    is_tileaa,
    kernel_of,
    runnable_module,
)
from tilewright.launching.plugins import Plugin
from tilewright.launching.result import RunResult
from tilewright.launching.storage import storage_of
from tilewright.machine.arguments import ArrayMap, bind
from tilewright.machine.compile import CompiledBlock, Translator
from tilewright.machine.faults import Fault, as_error
from tilewright.machine.grid import GridRun, Progress
from tilewright.machine.memory import Allocation
from tilewright.machine.state import Machine
from tilewright.machine.tensors import ArrayNames
from tilewright.numerics.arithmetic import REFERENCE, Arithmetic
from tilewright.numerics.arrays import Array, dtype_of

DEFAULT_MAX_ITERATIONS = 10_000_000
"""Iterations of one loop before it counts as endless."""


class Program:
    """A loaded module: its globals live as long as it does, its kernels are translated once.

    The module, of ``cuda_tile`` or of ``nv_tileaa``, must have passed the verifier. Not to be used
    by several threads at once. ``arithmetic`` chooses what is computed where Tile IR leaves it
    open; the reference by default. ``plugins`` gives functions on NumPy arrays for the code that a
    module of ``nv_tileaa`` calls but does not hold, by the names that it has there.
    """

    def __init__(
        self,
        module: Operation,
        *,
        arithmetic: Arithmetic = REFERENCE,
        plugins: Mapping[str, Plugin] | None = None,
    ):
        self.module = runnable_module(module)
        self.arithmetic = arithmetic
        self.started = False
        """Whether a launch has come as far as running tile blocks."""
        self._machine = Machine(plugins=dict(plugins or {}))
        self._arrays = ArrayMap(self._machine.memory)
        self._globals: dict[str, tuple[GlobalMemory, Allocation]] = {}
        self._kernels: dict[str, tuple[Translator, CompiledBlock]] = {}
        if is_tileaa(self.module):
            import tilewright.machine.tileaa  # noqa: F401  (more of the table, at a cost in time)
        for held in globals_of(self.module):
            self._globals[held.name] = held, self._load(held)

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
        return self._arrays.map([("a mapped array", array)])[0]

    def global_array(self, name: str) -> Array:
        """The contents of a public global: an array over its memory, 4-bit elements packed in bytes."""
        held, allocation = self._globals.get(name, (None, None))
        if held is None or allocation is None or held.is_private:
            known = (
                ", ".join(n for n, (g, _) in self._globals.items() if not g.is_private) or "none"
            )
            raise KeyError(f"the module has no public global '{name}'; public globals: {known}")
        raw = allocation.buffer.view(storage_of(held.element).raw)
        dtype = dtype_of(held.element)
        return raw.view(dtype) if raw.itemsize == dtype.itemsize and dtype != np.bool_ else raw

    def launch(
        self,
        entry: str | None = None,
        grid: int | Sequence[int] = (1, 1, 1),
        args: Sequence[object] = (),
        *,
        seed: int = 0,
        check_asserts: bool = True,
        max_iterations: int = DEFAULT_MAX_ITERATIONS,
        allow_overlap: bool = False,
        print_to: Callable[[str], object] | None = None,
        progress: Progress | None = None,
        resident: int | None = None,
    ) -> RunResult:
        """Run a kernel over a grid.

        ``args``: a NumPy array (or an address from ``map_array``) for each pointer, a number for
        each scalar. ``seed`` 0 runs tile blocks in ascending order; others shuffle them and switch
        between them at random. No more than ``resident`` blocks are live at once, in ascending
        order; all of them by default. ``print_to`` gets each printed text at once; ``progress`` the
        numbers of finished and of all tile blocks; they must not change the arrays. A loop of
        more than ``max_iterations`` is an error. ``allow_overlap`` lets arrays that the kernel may
        write share memory with others.

        A TileIRError before anything runs: bad arguments, grid or kernel name, and operations that
        the machine does not run; arrays are as they were. While running: whatever the kernel must not do, and, unless
        ``check_asserts`` is false, failed assertions, once all blocks have run.
        """
        kernel_op = kernel_of(self.module, entry)
        checked = check_launch(
            kernel_op,
            grid,
            args,
            seed=seed,
            max_iterations=max_iterations,
            allow_overlap=allow_overlap,
        )
        check_resident(resident)
        kernel, body = self._kernel(kernel_op)
        machine, memory = self._machine, self._machine.memory
        memory_mark, array_mark = memory.mark(), self._arrays.mark()
        try:
            values = bind(checked.arguments, self._arrays, place_of(kernel_op))
            parameters = zip(kernel.slots(kernel_op.block.args), values, strict=True)
            machine.grid, machine.max_iterations = checked.grid, max_iterations
            machine.printed, machine.failures, machine.print_to = [], [], print_to
            machine.names = ArrayNames.of_launch(kernel_op, args)
            self.started = True
            GridRun(machine, kernel, body, parameters, seed, progress, resident).run()
        finally:
            machine.kept.clear()
            memory.release(memory_mark)
            self._arrays.release(array_mark)
        failures = tuple(machine.failures)
        if failures and check_asserts:
            raise assertion_error(failures)
        outputs = tuple(value for value in args if isinstance(value, np.ndarray))
        return RunResult(outputs, "".join(machine.printed), failures, self.arithmetic)

    def _translator(self, global_addresses: dict[str, int]) -> Translator:
        return Translator(self._machine, global_addresses, self.arithmetic)

    @staticmethod
    def _translated(op: KernelOp, kernel: Translator) -> CompiledBlock:
        if isinstance(op, EntryOp):
            return kernel.block(op.block)
        from tilewright.machine.tileaa.functions import translate_kernel

        return translate_kernel(op, kernel)

    def _kernel(self, op: KernelOp) -> tuple[Translator, CompiledBlock]:
        found = self._kernels.get(op.symbol)
        if found is None:
            addresses = {name: allocation.base for name, (_, allocation) in self._globals.items()}
            kernel = self._translator(addresses)
            try:
                found = kernel, self._translated(op, kernel)
            except Fault as fault:
                raise as_error(fault, ()) from None
            self._kernels[op.symbol] = found
        return found


def run(
    module: Operation,
    entry: str | None = None,
    grid: int | Sequence[int] = (1, 1, 1),
    args: Sequence[object] = (),
    *,
    seed: int = 0,
    check_asserts: bool = True,
    max_iterations: int = DEFAULT_MAX_ITERATIONS,
    allow_overlap: bool = False,
    print_to: Callable[[str], object] | None = None,
    progress: Progress | None = None,
    arithmetic: Arithmetic = REFERENCE,
    plugins: Mapping[str, Plugin] | None = None,
    sanitize: bool = False,
    resident: int | None = None,
) -> RunResult:
    """Load a module, run one of its kernels (the only one by default), and unload it.

    See :class:`Program` and :meth:`Program.launch` for the arguments and errors. With ``sanitize`` every check is on,
    and whatever they find is raised as one TileIRError when the run is over.
    """
    if sanitize:
        from tilewright.machine.sanitize import sanitize as run_checked

        report = run_checked(
            module,
            entry,
            grid,
            args,
            seeds=(seed,),
            max_iterations=max_iterations,
            allow_overlap=allow_overlap,
            progress=progress,
            arithmetic=arithmetic,
            resident=resident,
        )
        if report.result is None or not report.is_clean:
            raise TileIRError(report.diagnostics)
        return report.result
    return Program(module, arithmetic=arithmetic, plugins=plugins).launch(
        entry,
        grid,
        args,
        seed=seed,
        check_asserts=check_asserts,
        max_iterations=max_iterations,
        allow_overlap=allow_overlap,
        print_to=print_to,
        progress=progress,
        resident=resident,
    )
