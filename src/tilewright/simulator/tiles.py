"""Tile IR kernels on the simulator: lowered to per-thread code, and launched there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Operation

from tilewright.launching.described import Value, arguments_of, memory_of_lists
from tilewright.launching.one_at_a_time import new_lock, one_at_a_time
from tilewright.launching.options import (
    DEFAULT_OPTIONS,
    TILE_IR,
    LaunchOptions,
    check_options,
    with_deprecated,
)
from tilewright.launching.threads import Grid, LoweredKernel, LoweredProgram, ThreadsOfTiles
from tilewright.nesting import deep_recursion
from tilewright.numerics.arrays import Array
from tilewright.passes.tileas.decisions import FREE, Decisions
from tilewright.simulator.architectures import check_architecture
from tilewright.simulator.launch import RENAMED, Program, SimulationResult


class TileProgram(ThreadsOfTiles):
    """A ``cuda_tile`` or ``nv_tileaa`` module whose kernels run per thread on a simulated GPU.

    The module must have been verified. A kernel is lowered at its first launch, and refused then if it cannot be
    (``not-lowered-to-threads``). ``options`` are the defaults of launches; ``decisions`` override those of the
    compiler. Launches from several threads wait for one another.
    """

    def __init__(
        self,
        module: Operation,
        arch: str = "sm_90a",
        options: LaunchOptions = DEFAULT_OPTIONS,
        decisions: Decisions = FREE,
    ):
        found = check_architecture(arch)
        self.arch = arch
        self.options = options
        self._lowered = LoweredProgram(module, arch, found.block_shared_bytes, decisions)
        self._programs: dict[LoweredKernel, Program] = {}
        self._mapped: list[Array] = []
        self._accepted = DEFAULT_OPTIONS
        self._lock = new_lock()

    def map_array(self, array: Array) -> int:
        """Make an array accessible to kernels by address; returns the address of its first element, in bytes.

        The array is shared, and kept as long as the program.
        """
        self._mapped.append(array)
        return int(array.ctypes.data)

    def block(self, entry: str | None = None) -> int:
        """The number of threads per block of a kernel, by default the only one. Raises ``TileIRError`` if it cannot
        be lowered.
        """
        return self._lowered.kernel(entry).spec.threads

    def launch(
        self,
        entry: str | None = None,
        grid: Grid = (1, 1, 1),
        args: Sequence[object] = (),
        options: LaunchOptions | None = None,
        **deprecated: Any,
    ) -> SimulationResult:
        """Launch a kernel, as for every machine (``launching.machine.Program``).

        ``options.memory`` has arrays that the kernel accesses by address only. Raises ``TileIRError`` as every
        machine does, TypeError for unknown keywords.
        """
        chosen = self.options if options is None else options.over(self.options)
        if deprecated:
            chosen = with_deprecated(chosen, deprecated, "launch", RENAMED)
        return self._launch(entry, grid, args, chosen, chosen.memory, chosen.allow_overlap)

    def launch_described(
        self,
        entry: str,
        grid: tuple[int, int, int],
        values: Sequence[Value],
        options: LaunchOptions | None = None,
    ) -> SimulationResult:
        """As for every machine (``launching.machine.Program``)."""
        chosen = self.options if options is None else options.over(self.options)
        reached = [*chosen.memory, *memory_of_lists(values)]
        return self._launch(entry, grid, list(arguments_of(values)), chosen, reached, True)

    @one_at_a_time
    @deep_recursion()
    def _launch(
        self,
        entry: str | None,
        grid: Grid,
        args: Sequence[object],
        options: LaunchOptions,
        memory: Sequence[Array],
        allow_overlap: bool,
    ) -> SimulationResult:
        if options is not self._accepted:
            check_options(options, "sim", TILE_IR, f"sim:{self.arch}")
            self._accepted = options
        optimize = options.optimization > 0
        found = self._lowered.arguments(
            entry, grid, args, allow_overlap=allow_overlap, optimize=optimize
        )
        kernel = found.kernel
        program = self._programs.get(kernel)
        if program is None:
            # What the lowering has made is not verified again: it took a quarter of the time of a first launch.
            program = self._programs[kernel] = Program(kernel.module, self.arch, is_verified=True)
        return program.simulate(
            program.kernel(kernel.name),
            found.grid,
            found.args,
            options,
            block=kernel.spec.threads,
            memory=[*self._mapped, *self._lowered.memory, *memory],
            # Without the memory that the lowered kernel gets beside its arguments.
            outputs=found.outputs,
        )
