"""Kernels of Tile IR on the simulator: lowered to the code of threads, and launched there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.ir import Operation

from tilewright.launching.checks import check_launch
from tilewright.launching.modules import is_tileaa, kernel_of, runnable_module
from tilewright.lowering import TileAAOptions, lower_to_tileaa
from tilewright.lowering.nvgpu import NvgpuOptions, lower_to_nvgpu
from tilewright.numerics.arrays import Array
from tilewright.numerics.tensor_cores import Mode
from tilewright.simulator.architectures import Architecture
from tilewright.simulator.launch import Program, SimulationResult

Grid = int | Sequence[int]


@dataclass(frozen=True, slots=True)
class _Loaded:
    program: Program
    threads: int


class TileProgram:
    """A module of ``cuda_tile`` or ``nv_tileaa`` whose kernels run as threads of a simulated GPU.

    The module must have passed the verifier. Kernels are lowered when they are first launched; what
    cannot be lowered is refused then (``not-lowered-to-threads``).
    """

    def __init__(self, module: Operation, arch: str = "sm_90a"):
        self.module = runnable_module(module)
        self.arch = Architecture.parse(arch)
        self._tileaa: BuiltinModuleOp | None = None
        self._loaded: dict[str, _Loaded] = {}
        self._mapped: list[Array] = []

    def map_array(self, array: Array) -> int:
        """The address of an array's first element, which kernels may go through from now on."""
        self._mapped.append(array)
        return int(array.ctypes.data)

    def threads(self, entry: str | None = None) -> BuiltinModuleOp:
        """The module that a kernel, the only one by default, is lowered to."""
        return self._load(kernel_of(self.module, entry).symbol).program.module

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
        kernel = kernel_of(self.module, entry)
        checked = check_launch(
            kernel, grid, args, seed=seed, max_iterations=1, allow_overlap=allow_overlap
        )
        loaded = self._load(kernel.symbol)
        arrays = checked.arguments.arrays
        given = [
            arrays[number] if number in arrays else value.item()
            for number, value in enumerate(checked.arguments.values)
        ]
        return loaded.program.launch(
            kernel.symbol,
            checked.grid,
            loaded.threads,
            given,
            arch=str(self.arch),
            memory=[*self._mapped, *memory],
            seed=seed,
            numerics=numerics,
            strict=strict,
            print_to=print_to,
            **options,
        )

    def _load(self, name: str) -> _Loaded:
        found = self._loaded.get(name)
        if found is None:
            if self._tileaa is None:
                self._tileaa = self._lowered()
            options = NvgpuOptions(shared_bytes=self.arch.block_shared_bytes)
            made = lower_to_nvgpu(self._tileaa, options, name)
            found = self._loaded[name] = _Loaded(Program(made.module), made.threads[name])
        return found

    def _lowered(self) -> BuiltinModuleOp:
        if is_tileaa(self.module):
            assert isinstance(self.module, BuiltinModuleOp)
            return self.module
        target = f"sm_{self.arch.compute}"
        return lower_to_tileaa(self.module, TileAAOptions(target=target)).module

