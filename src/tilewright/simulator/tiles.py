"""Kernels of Tile IR on the simulator: lowered to the code of threads, and launched there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tilewright.diagnostics import TileIRError
from tilewright.launching.threads import Grid, LoweredProgram
from tilewright.numerics.arrays import Array
from tilewright.numerics.tensor_cores import Mode
from tilewright.simulator.architectures import check_architecture
from tilewright.simulator.launch import Program, SimulationResult


class TileProgram:
    """A module of ``cuda_tile`` or ``nv_tileaa`` whose kernels run as threads of a simulated GPU.

    The module must have passed the verifier. Kernels are lowered when they are first launched; what
    cannot be lowered is refused then (``not-lowered-to-threads``). ``optimize``: see
    :class:`LoweredProgram`.
    """

    def __init__(self, module: Operation, arch: str = "sm_90a", *, optimize: bool = True):
        found = check_architecture(arch)
        self.arch = arch
        self._lowered = LoweredProgram(
            module, found.compute, found.block_shared_bytes, optimize=optimize
        )
        self._programs: dict[str, Program] = {}
        self._mapped: list[Array] = []

    @property
    def module(self) -> Operation:
        """What was given."""
        return self._lowered.module

    def map_array(self, array: Array) -> int:
        """The address of an array's first element, which kernels may go through from now on."""
        self._mapped.append(array)
        return int(array.ctypes.data)

    @property
    def fallbacks(self) -> Mapping[str, TileIRError]:
        """Of the kernels that were lowered so far, those without a schedule, and why."""
        return self._lowered.fallbacks

    def threads(self, entry: str | None = None) -> ModuleOp:
        """The module that a kernel, the only one by default, is lowered to."""
        return self._lowered.kernel(entry).module

    def block(self, entry: str | None = None) -> int:
        """The threads of a block of a kernel."""
        return self._lowered.kernel(entry).spec.threads

    def launch(
        self,
        entry: str | None = None,
        grid: Grid = (1, 1, 1),
        args: Sequence[object] = (),
        *,
        allow_overlap: bool = False,
        memory: Sequence[Array] = (),
        seed: int = 0,
        numerics: Mode = "tensor-core",
        strict: bool = True,
        print_to: Callable[[str], object] | None = None,
        **options: Any,
    ) -> SimulationResult:
        """Run a kernel over a grid; arrays among ``args`` are updated in place.

        ``args``: an array or an address for each pointer, a number for each scalar; ``memory`` holds
        arrays that the kernel reaches by address only. See :meth:`Program.launch` for the rest.
        """
        extents, given = self._lowered.arguments(entry, grid, args, allow_overlap=allow_overlap)
        kernel = self._lowered.kernel(entry)
        program = self._programs.get(kernel.name)
        if program is None:
            program = self._programs[kernel.name] = Program(kernel.module)
        return program.launch(
            kernel.name,
            extents,
            kernel.spec.threads,
            given,
            arch=self.arch,
            memory=[*self._mapped, *self._lowered.memory, *memory],
            seed=seed,
            numerics=numerics,
            strict=strict,
            print_to=print_to,
            **options,
        )
