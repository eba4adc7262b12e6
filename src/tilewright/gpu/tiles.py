"""Kernels of Tile IR on a GPU: lowered to the code of threads, compiled, and launched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tilewright.diagnostics import TileIRError
from tilewright.gpu.architectures import architecture
from tilewright.gpu.compile import CompiledKernel, CompileOptions, compile_kernel
from tilewright.gpu.driver import open_gpu
from tilewright.gpu.launch import LaunchResult, launch
from tilewright.launching.threads import Grid, LoweredProgram


class TileProgram:
    """A module of ``cuda_tile`` or ``nv_tileaa`` whose kernels become code for a GPU.

    The module must have passed the verifier. ``arch``: by default that of the GPU that there is.
    ``optimize``: see :class:`LoweredProgram`; what LLVM does ``options`` say.
    Raises TileIRError where the architecture is not known, and without one where there is no GPU.
    """

    def __init__(
        self,
        module: Operation,
        arch: str | None = None,
        options: CompileOptions | None = None,
        *,
        optimize: bool = True,
    ):
        found = architecture(arch) if arch is not None else open_gpu().best_architecture()
        self.arch = found.name
        self._options = options or CompileOptions()
        self._lowered = LoweredProgram(module, found.number, found.shared_limit, optimize=optimize)
        self._compiled: dict[str, CompiledKernel] = {}

    @property
    def fallbacks(self) -> Mapping[str, TileIRError]:
        """Of the kernels that were lowered so far, those without a schedule, and why."""
        return self._lowered.fallbacks

    def threads(self, entry: str | None = None) -> ModuleOp:
        """The module that a kernel, the only one by default, is lowered to."""
        return self._lowered.kernel(entry).module

    def compile(self, entry: str | None = None) -> CompiledKernel:
        """A kernel, the only one by default, as PTX.

        Its parameters are those of the kernel, then pointers to memory: see
        ``lowering.nvgpu.ThreadKernel``.
        """
        kernel = self._lowered.kernel(entry)
        found = self._compiled.get(kernel.name)
        if found is None:
            made = compile_kernel(kernel.module, self.arch, kernel.name, self._options)
            found = self._compiled[kernel.name] = made
        return found

    def launch(
        self,
        entry: str | None = None,
        grid: Grid = (1, 1, 1),
        args: Sequence[object] = (),
        *,
        allow_overlap: bool = False,
    ) -> LaunchResult:
        """Run a kernel over a grid, and wait for it.

        ``args``: a NumPy array, which is copied to the GPU and back, or an address of the GPU for each
        pointer; a number for each scalar.
        """
        extents, given = self._lowered.arguments(entry, grid, args, allow_overlap=allow_overlap)
        return launch(self.compile(entry), extents, given)
