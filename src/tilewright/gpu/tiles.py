"""Kernels of Tile IR on a GPU: lowered to the code of threads, compiled, and launched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tilewright.diagnostics import TileIRError
from tilewright.gpu.architectures import architecture
from tilewright.gpu.codes import LAUNCH
from tilewright.gpu.compile import CompiledKernel, CompileOptions, compile_kernel, kernels_of
from tilewright.gpu.driver import open_gpu
from tilewright.gpu.launch import LaunchResult, launch
from tilewright.launching.codes import UNSUPPORTED
from tilewright.launching.described import ArrayValue, ListValue, Value, arguments_of
from tilewright.launching.options import (
    DEFAULT_OPTIONS,
    NVGPU,
    TILE_IR,
    LaunchOptions,
    check_options,
    with_deprecated,
)
from tilewright.launching.threads import Grid, LoweredProgram
from tilewright.numerics.arrays import Array
from tilewright.passes.tileas.remarks import Remark


class _GpuProgram:
    """What programs of both levels have: an architecture, options, and no memory of the host."""

    def __init__(self, arch: str | None, options: LaunchOptions, how: CompileOptions | None):
        found = architecture(arch) if arch is not None else open_gpu().best_architecture()
        self.arch = found.name
        self.options = options
        self._how = how or CompileOptions()
        self._compiled: dict[str, CompiledKernel] = {}

    def map_array(self, array: Array) -> int:
        """A TileIRError: kernels on a GPU do not reach memory of the host."""
        raise TileIRError.single(
            LAUNCH,
            "the machine 'cuda' copies arrays to the GPU for each launch and cannot map them",
            help="pass the address of memory of the GPU",
        )

    def global_array(self, name: str) -> Array:
        """A KeyError: the globals of programs on a GPU live as long as a launch."""
        raise KeyError(f"the machine 'cuda' keeps no globals between launches, '{name}' neither")

    def _chosen(
        self, options: LaunchOptions | None, deprecated: dict[str, Any], level: str
    ) -> LaunchOptions:
        chosen = self.options if options is None else options.over(self.options)
        if deprecated:
            chosen = with_deprecated(chosen, deprecated, "launch")
        check_options(chosen, "cuda", level)
        return chosen


class TileProgram(_GpuProgram):
    """A module of ``cuda_tile`` or ``nv_tileaa`` whose kernels become code for a GPU.

    The module must have passed the verifier. ``arch``: by default that of the GPU that there is.
    ``options`` are those of launches that give none; ``how`` says how code is made. Raises
    TileIRError where the architecture is not known, and without one where there is no GPU.
    """

    def __init__(
        self,
        module: Operation,
        arch: str | None = None,
        options: LaunchOptions = DEFAULT_OPTIONS,
        how: CompileOptions | None = None,
    ):
        super().__init__(arch, options, how)
        found = architecture(self.arch)
        self._lowered = LoweredProgram(module, found.number, found.shared_limit)

    @property
    def module(self) -> Operation:
        """What was given."""
        return self._lowered.module

    @property
    def fallbacks(self) -> Mapping[str, TileIRError]:
        """Of the kernels that were lowered so far, those without a schedule, and why."""
        return self._lowered.fallbacks

    def threads(self, entry: str | None = None) -> ModuleOp:
        """The module that a kernel, the only one by default, is lowered to."""
        return self._lowered.kernel(entry, self.options.optimization > 0).module

    def scheduled(self, entry: str | None = None) -> ModuleOp:
        """A kernel, the only one by default, at the level of ``nv_tileas``."""
        return self._lowered.scheduled(entry).module

    def remarks(self, entry: str | None = None) -> list[Remark]:
        """What the compiler decided about a kernel, and why."""
        return self._lowered.remarks(entry) if self.options.optimization else []

    def arguments(
        self, entry: str | None, grid: Grid, args: Sequence[object]
    ) -> tuple[tuple[int, int, int], list[object], int]:
        """The grid, and what the parameters of the compiled kernel are given; so many of these are arguments, the others
        memory that it has beside them. A TileIRError with everything that is wrong with a launch."""
        optimize = self.options.optimization > 0
        checked, given = self._lowered.arguments(
            entry, grid, args, allow_overlap=True, optimize=optimize
        )
        return checked.grid, given, len(checked.arguments.values)

    def compile(self, entry: str | None = None) -> CompiledKernel:
        """A kernel, the only one by default, as PTX.

        Its parameters are those of the kernel, then pointers to memory: see
        ``lowering.nvgpu.ThreadKernel``.
        """
        kernel = self._lowered.kernel(entry, self.options.optimization > 0)
        found = self._compiled.get(kernel.name)
        if found is None:
            made = compile_kernel(kernel.module, self.arch, kernel.name, self._how)
            found = self._compiled[kernel.name] = made
        return found

    def launch(
        self,
        entry: str | None = None,
        grid: Grid = (1, 1, 1),
        args: Sequence[object] = (),
        options: LaunchOptions | None = None,
        **deprecated: Any,
    ) -> LaunchResult:
        """As every machine's (``launching.machine.Program``). NumPy arrays are copied to the GPU and
        back; addresses are those of the GPU."""
        self._chosen(options, deprecated, TILE_IR)
        checked, given = self._lowered.arguments(
            entry, grid, args, allow_overlap=False, optimize=self.options.optimization > 0
        )
        found = launch(self.compile(entry), checked.grid, given)
        return replace(found, outputs=checked.outputs)

    def launch_described(
        self,
        entry: str,
        grid: tuple[int, int, int],
        values: Sequence[Value],
        options: LaunchOptions | None = None,
    ) -> None:
        """As every machine's (``launching.machine.Program``), where no arrays overlap and none are in
        lists: they are copied to the GPU and back."""
        if any(isinstance(value, ListValue) for value in values):
            raise _cannot_copy("lists of arrays")
        arrays = (v for v in values if isinstance(v, ArrayValue) and v.layout.size)
        spans = sorted(value.span for value in arrays)
        if any(first[1] > second[0] for first, second in pairwise(spans)):
            raise _cannot_copy("arrays that overlap")
        self.launch(entry, grid, list(arguments_of(values)), options)


def _cannot_copy(what: str) -> TileIRError:
    return TileIRError.single(
        UNSUPPORTED, f"the machine 'cuda' copies arrays to the GPU and cannot pass {what}"
    )


class ThreadProgram(_GpuProgram):
    """A module of ``nvgpu`` whose kernels become code for a GPU: see :class:`TileProgram`."""

    def __init__(
        self,
        module: ModuleOp,
        arch: str | None = None,
        options: LaunchOptions = DEFAULT_OPTIONS,
        how: CompileOptions | None = None,
    ):
        super().__init__(arch, options, how)
        self.module = module

    def compile(self, entry: str | None = None) -> CompiledKernel:
        """A kernel, the only one by default, as PTX."""
        kernels = kernels_of(self.module)
        name = next(iter(kernels)) if entry is None and len(kernels) == 1 else entry
        found = self._compiled.get(name or "")
        if found is None:
            made = compile_kernel(self.module, self.arch, name, self._how)
            found = self._compiled[name or ""] = made
        return found

    def launch(
        self,
        entry: str | None = None,
        grid: Grid = (1, 1, 1),
        args: Sequence[Any] = (),
        options: LaunchOptions | None = None,
        **deprecated: Any,
    ) -> LaunchResult:
        """As every machine's (``launching.machine.Program``), also with arrays of the GPU. The launch
        names threads and clusters where the kernel does not."""
        chosen = self._chosen(options, deprecated, NVGPU)
        return launch(
            self.compile(entry),
            grid,
            args,
            block=chosen.block,
            cluster=chosen.cluster,
            dynamic_shared_bytes=chosen.dynamic_shared_bytes,
        )

    def launch_described(self, entry: str, *rest: object) -> None:
        """A TileIRError: what clients describe are arguments of Tile IR."""
        raise TileIRError.single(
            LAUNCH, f"kernel '{entry}' is of nvgpu, whose arguments have no description"
        )
