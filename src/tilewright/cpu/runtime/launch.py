"""Loading a module onto the CPU and launching its kernels."""

from __future__ import annotations

from array import array as c_array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.ir import Operation

from tilewright.cpu.abi import ARENA_ALIGNMENT
from tilewright.cpu.compile import CompileOptions
from tilewright.cpu.runtime.crash import report_crashes
from tilewright.cpu.runtime.driver import LaunchState
from tilewright.cpu.runtime.engine import DEFAULT_LEVEL, OptLevel, Timings
from tilewright.cpu.runtime.kernels import NativeKernel, prepare_kernel
from tilewright.cpu.runtime.packing import ALL_MEMORY, Packed, Packer, span_of
from tilewright.cpu.runtime.pool import POOL, Progress, thread_count
from tilewright.cpu.runtime.quick_packing import Span
from tilewright.cpu.runtime.reports import SILENCE, Reports
from tilewright.cpu.runtime.waiting import PATIENCE, run_waiting
from tilewright.cpu.target import HOST
from tilewright.diagnostics import TileIRError
from tilewright.dialects.nv_tileaa.types import PtrType
from tilewright.launching.assertions import assertion_error
from tilewright.launching.codes import BAD_GRID
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
from tilewright.lowering import lower_to_tileaa
from tilewright.numerics.arrays import Array, dtype_of

Grid = int | Sequence[int]


@dataclass(frozen=True, slots=True)
class _Entry:
    """A kernel of the module: how its arguments are packed, and its code, for arrays that do not overlap
    (True) and for others, as far as that is made."""

    op: KernelOp
    packer: Packer
    code: dict[bool, NativeKernel] = field(default_factory=dict)


class Program:
    """A loaded module: its globals live as long as it does, its kernels are compiled once.

    The module, of ``cuda_tile`` or of ``nv_tileaa``, must have passed the verifier. ``cpu`` names a
    target (``host``, ``generic``, ...); ``checked`` compiles checks of every access in; ``threads``
    is how many threads launches use, unless they say otherwise: by default as many as the
    environment variable TILEWRIGHT_THREADS says, or one for each core. ``plugins`` gives functions on
    NumPy arrays for the code that a module of ``nv_tileaa`` calls but does not hold, by the names that
    it has there; they may be called in any thread.

    Several threads may launch at once; their launches share globals.
    """

    def __init__(
        self,
        module: Operation,
        *,
        cpu: str = HOST,
        checked: bool = False,
        threads: int | None = None,
        level: OptLevel = DEFAULT_LEVEL,
        plugins: Mapping[str, Plugin] | None = None,
    ) -> None:
        self.module = runnable_module(module)
        self.timings = Timings()
        self._plugins = dict(plugins or {})
        self._options = CompileOptions(cpu=cpu, checked=checked, plugins=frozenset(self._plugins))
        self._level = level
        self._threads = thread_count(threads)
        self._lowered: BuiltinModuleOp | None = None
        self._globals = {
            held.name: (held, _global_memory(held)) for held in globals_of(self.module)
        }
        self._entries: dict[str | None, _Entry] = {}
        self._mapped: list[Array] = []

    def map_array(self, array: Array) -> int:
        """The address of an array's first element, valid as long as the program.

        For kernels that get addresses inside other arrays, such as tables of arrays.
        """
        self._mapped.append(array)
        return int(array.ctypes.data)

    def global_array(self, name: str) -> Array:
        """The contents of a public global: an array over its memory, 4-bit elements packed in bytes."""
        held, memory = self._globals.get(name, (None, None))
        if held is None or memory is None or held.is_private:
            public = [n for n, (g, _) in self._globals.items() if not g.is_private]
            known = ", ".join(public) or "none"
            raise KeyError(f"the module has no public global '{name}'; public globals: {known}")
        raw = memory.view(storage_of(held.element).raw)
        dtype = dtype_of(held.element)
        return raw.view(dtype) if raw.itemsize == dtype.itemsize and dtype != np.bool_ else raw

    def prepare(self, entry: str | None = None) -> NativeKernel:
        """Compile a kernel for launches whose arrays do not overlap; a launch does it by itself."""
        return self._native(self._entry(entry), distinct=True)

    def launch(
        self,
        entry: str | None = None,
        grid: Grid = (1, 1, 1),
        args: Sequence[object] = (),
        *,
        check_asserts: bool = True,
        allow_overlap: bool = False,
        print_to: Callable[[str], object] | None = None,
        progress: Progress | None = None,
        threads: int | None = None,
        patience: float = PATIENCE,
    ) -> RunResult:
        """Run a kernel over a grid, to its end.

        ``args``: an array (of NumPy, torch on the CPU, or whatever speaks DLPack) or an address for
        each pointer, a number for each scalar. ``print_to`` gets each printed text at once, perhaps
        in another thread; ``progress`` the numbers of finished and of all tile blocks.
        ``allow_overlap`` lets arrays that the kernel may write share memory with others. ``patience``
        is for grids whose blocks wait for one another: see ``waiting``.

        A TileIRError before anything runs: bad arguments, grid or kernel name, and operations that
        have no code; arrays are as they were. While running: a deadlock, and, unless
        ``check_asserts`` is false, failed assertions, once all blocks have run.
        """
        found = self._entry(entry)
        packed = found.packer.pack(grid, args, allow_overlap=allow_overlap)
        reports = self._run(found, packed, print_to, progress, threads, patience)
        failures = tuple(reports.failures)
        if failures and check_asserts:
            raise assertion_error(failures)
        outputs = tuple([value for value in packed.keep if isinstance(value, np.ndarray)])
        return RunResult(outputs, "".join(reports.printed), failures)

    def launch_packed(
        self, entry: str, packed: Packed, print_to: Callable[[str], object] | None = None
    ) -> None:
        """As :meth:`launch`, with arguments that have been checked and packed by the caller."""
        reports = self._run(self._entry(entry), packed, print_to)
        if reports.failures:
            raise assertion_error(tuple(reports.failures))

    def _run(
        self,
        entry: _Entry,
        packed: Packed,
        print_to: Callable[[str], object] | None,
        progress: Progress | None = None,
        threads: int | None = None,
        patience: float = PATIENCE,
    ) -> Reports:
        """Run a kernel to its end; what it has reported."""
        kernel = self._native(entry, distinct=packed.distinct)
        compiled = kernel.compiled
        if prod(packed.grid) > _MOST_BLOCKS:
            raise TileIRError.single(
                BAD_GRID,
                f"the grid {packed.grid} has more than 2**62 tile blocks, which no run comes to an "
                "end of",
            )
        wanted = self._threads if threads is None else thread_count(threads)
        slots: Sequence[int] = packed.slots
        table: c_array[int] | None = None
        if compiled.asks_for_memory:
            table = c_array(_UNSIGNED, self._known_memory(kernel, entry.packer, packed))
            slots = [*slots, table.buffer_info()[0]]
        keep = table, packed.keep, packed.copies, kernel
        state = LaunchState(kernel.address, slots, packed.grid, keep)
        reports = SILENCE
        if compiled.sites:
            reports = Reports(compiled.sites, state, print_to, self._plugins)
        with reports:
            if compiled.may_wait and state.total > 1:
                run_waiting(state, compiled.arena_bytes, progress=progress, patience=patience)
            else:
                divided = not compiled.takes_over
                POOL.run(
                    state, compiled.arena_bytes, wanted, kernel.pace, progress, divided=divided
                )
        if reports.error is not None:
            raise reports.error
        assert not state.stop, "a kernel has stopped without a reason"
        return reports

    def _entry(self, name: str | None) -> _Entry:
        found = self._entries.get(name)
        if found is None:
            op = kernel_of(self.module, name)
            same = (entry for entry in self._entries.values() if entry.op is op)
            found = self._entries[name] = next(same, None) or _Entry(op, Packer(op))
        return found

    def _known_memory(self, kernel: NativeKernel, packer: Packer, packed: Packed) -> list[int]:
        """The table of memory for code that asks for it (``abi``)."""
        spans = packer.spans(packed)
        if self._options.checked:
            arrays = [*self._mapped, *(memory for _, memory in self._globals.values())]
            others = [span_of(array) for array in arrays]
            pairs = zip(packed.slots, kernel.compiled.parameters, strict=True)
            addresses = [slot for slot, ty in pairs if isinstance(ty, PtrType)]
            spans = [_settled(s, at, others) for s, at in zip(spans, addresses, strict=True)]
            spans += others
        return [len(spans), *(address for span in spans for address in span)]

    def _native(self, entry: _Entry, *, distinct: bool) -> NativeKernel:
        found = entry.code.get(distinct)
        if found is not None:
            return found
        found = prepare_kernel(
            self.module,
            entry.op,
            self._tileaa,
            replace(self._options, distinct_arguments=distinct),
            self._level,
            {name: int(memory.ctypes.data) for name, (_, memory) in self._globals.items()},
            self.timings,
        )
        report_crashes()
        entry.code[distinct] = found
        return found

    def _tileaa(self) -> BuiltinModuleOp:
        if self._lowered is None:
            if is_tileaa(self.module):
                assert isinstance(self.module, BuiltinModuleOp)
                self._lowered = self.module
            else:
                self._lowered = lower_to_tileaa(self.module).module
        return self._lowered


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
    *,
    cpu: str = HOST,
    checked: bool = False,
    threads: int | None = None,
    plugins: Mapping[str, Plugin] | None = None,
    **options: Any,
) -> RunResult:
    """Load a module, run one of its kernels (the only one by default), and unload it.

    See :class:`Program` and :meth:`Program.launch` for the arguments, options and errors.
    """
    program = Program(module, cpu=cpu, checked=checked, threads=threads, plugins=plugins)
    return program.launch(entry, grid, args, **options)
