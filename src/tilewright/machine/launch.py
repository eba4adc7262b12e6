"""Loading a module and launching its kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.ir import Operation

import tilewright.machine.ops  # noqa: F401  (fills the table of implementations)
from tilewright.diagnostics import Diagnostic, Note, Severity, TileIRError
from tilewright.dialects.cuda_tile.ops.module import EntryOp, GlobalOp, ModuleOp
from tilewright.dialects.source_map import place_of
from tilewright.machine.arguments import ArrayMap, bind
from tilewright.machine.compile import CompiledBlock, Translator
from tilewright.machine.faults import (
    ASSERTION_FAILED,
    UNKNOWN_ENTRY,
    Fault,
    as_error,
    source_note,
)
from tilewright.machine.grid import GridRun, Progress
from tilewright.machine.launch_checks import check_launch
from tilewright.machine.memory import Allocation
from tilewright.machine.ops.tiles import array_of_constant
from tilewright.machine.state import AssertionFailure, Machine
from tilewright.machine.storage import storage_of
from tilewright.numerics.arithmetic import REFERENCE, Arithmetic
from tilewright.numerics.arrays import Array, to_bytes

DEFAULT_MAX_ITERATIONS = 10_000_000
"""Iterations of one loop before it counts as endless."""

_MAX_SHOWN_FAILURES = 20


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a launch gave. ``outputs`` are the array arguments, updated in place; ``arithmetic`` is
    the mode in which they were computed."""

    outputs: tuple[Array, ...]
    text: str
    failures: tuple[AssertionFailure, ...]
    arithmetic: Arithmetic = REFERENCE


class Program:
    """A loaded module: its globals live as long as it does, its kernels are translated once.

    The module must have passed the verifier. Not to be used by several threads at once.
    ``arithmetic`` chooses what is computed where Tile IR leaves it open; the reference by default.
    """

    def __init__(self, module: Operation, *, arithmetic: Arithmetic = REFERENCE):
        self.module = _tile_module(module)
        self.arithmetic = arithmetic
        self.started = False
        """Whether a launch has come as far as running tile blocks."""
        self._machine = Machine()
        self._arrays = ArrayMap(self._machine.memory)
        self._globals: dict[str, tuple[GlobalOp, Allocation]] = {}
        self._kernels: dict[str, tuple[Translator, CompiledBlock]] = {}
        for op in self.module.globals:
            self._globals[op.symbol] = op, self._load(op)

    def _load(self, op: GlobalOp) -> Allocation:
        constant = op.value_constant
        data = to_bytes(array_of_constant(constant), constant.type.element)
        return self._machine.memory.allocate(
            np.frombuffer(bytearray(data), np.uint8),
            f"global @{op.symbol}",
            alignment=op.alignment_value,
            writable=not op.is_constant,
        )

    def map_array(self, array: Array) -> int:
        """The address of an array's first element, valid in all later launches.

        For kernels that get addresses inside other arrays, such as tables of arrays.
        """
        return self._arrays.map([("a mapped array", array)])[0]

    def global_array(self, name: str) -> Array:
        """The contents of a public global: an array over its memory, 4-bit elements packed in bytes."""
        op, allocation = self._globals.get(name, (None, None))
        if op is None or allocation is None or op.is_private:
            known = (
                ", ".join(n for n, (g, _) in self._globals.items() if not g.is_private) or "none"
            )
            raise KeyError(f"the module has no public global '{name}'; public globals: {known}")
        raw = allocation.buffer.view(storage_of(op.value_constant.type.element).raw)
        dtype = array_of_constant(op.value_constant).dtype
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
    ) -> RunResult:
        """Run a kernel over a grid.

        ``args``: a NumPy array (or an address from ``map_array``) for each pointer, a number for
        each scalar. ``seed`` 0 runs tile blocks in ascending order; others shuffle them and switch
        between them at random. ``print_to`` gets each printed text at once; ``progress`` the
        numbers of finished and of all tile blocks. A loop of more than ``max_iterations`` is an
        error. ``allow_overlap`` lets arrays that the kernel may write share memory with others.

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
        kernel, body = self._kernel(kernel_op)
        machine, memory = self._machine, self._machine.memory
        memory_mark, array_mark = memory.mark(), self._arrays.mark()
        try:
            values = bind(checked.arguments, self._arrays, place_of(kernel_op))
            parameters = zip(kernel.slots(kernel_op.block.args), values, strict=True)
            machine.grid, machine.max_iterations = checked.grid, max_iterations
            machine.printed, machine.failures, machine.print_to = [], [], print_to
            self.started = True
            GridRun(machine, kernel, body, parameters, seed, progress).run()
        finally:
            memory.release(memory_mark)
            self._arrays.release(array_mark)
        failures = tuple(machine.failures)
        if failures and check_asserts:
            raise _assertions(failures)
        outputs = tuple(value for value in args if isinstance(value, np.ndarray))
        return RunResult(outputs, "".join(machine.printed), failures, self.arithmetic)

    def _translator(self, global_addresses: dict[str, int]) -> Translator:
        return Translator(self._machine, global_addresses, self.arithmetic)

    def _kernel(self, op: EntryOp) -> tuple[Translator, CompiledBlock]:
        found = self._kernels.get(op.symbol)
        if found is None:
            addresses = {name: allocation.base for name, (_, allocation) in self._globals.items()}
            kernel = self._translator(addresses)
            try:
                found = kernel, kernel.block(op.block)
            except Fault as fault:
                raise as_error(fault, ()) from None
            self._kernels[op.symbol] = found
        return found


def kernel_of(module: Operation, name: str | None) -> EntryOp:
    """The kernel of that name, or the only one for None; a TileIRError where there is none."""
    inner = _tile_module(module)
    try:
        return inner.entry(name)
    except KeyError as error:
        raise TileIRError.single(UNKNOWN_ENTRY, str(error.args[0]), place_of(inner)) from None


def _tile_module(module: Operation) -> ModuleOp:
    """The cuda_tile module, also where it is the only one in a builtin module."""
    if isinstance(module, BuiltinModuleOp):
        inner = [op for op in module.body.block.ops if isinstance(op, ModuleOp)]
        if len(inner) == 1:
            return inner[0]
    if isinstance(module, ModuleOp):
        return module
    raise TypeError(f"expected a cuda_tile module, got '{module.name}'")


def _assertions(failures: tuple[AssertionFailure, ...]) -> TileIRError:
    found = [_diagnostic(failure) for failure in failures[:_MAX_SHOWN_FAILURES]]
    if len(failures) > len(found):
        more = Note(f"{len(failures) - len(found)} more elements failed")
        found[-1] = found[-1].with_notes(more)
    return TileIRError(found)


def _diagnostic(failure: AssertionFailure) -> Diagnostic:
    where = f" at element {list(failure.index)}" if failure.index else ""
    return Diagnostic(
        Severity.ERROR,
        ASSERTION_FAILED,
        f"assertion failed in tile block {failure.block}{where}: {failure.message}",
        place_of(failure.op),
        notes=source_note(failure.op),
    )


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
    sanitize: bool = False,
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
        )
        if report.result is None or not report.is_clean:
            raise TileIRError(report.diagnostics)
        return report.result
    return Program(module, arithmetic=arithmetic).launch(
        entry,
        grid,
        args,
        seed=seed,
        check_asserts=check_asserts,
        max_iterations=max_iterations,
        allow_overlap=allow_overlap,
        print_to=print_to,
        progress=progress,
    )
