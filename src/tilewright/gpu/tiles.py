"""Tile IR kernels on a GPU: lowered to per-thread code, compiled, and launched."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeGuard

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tilewright.diagnostics import TileIRError
from tilewright.dialects.source_map import location_of
from tilewright.gpu.architectures import architecture
from tilewright.gpu.arguments import Scratch, Stream, Table
from tilewright.gpu.codes import LAUNCH
from tilewright.gpu.compile import CompiledKernel, CompileOptions, compile_kernel, kernels_of
from tilewright.gpu.device_arrays import (
    LEGACY_STREAM,
    DeviceArray,
    StandIn,
    device_array,
    is_on_gpu,
    stand_in,
)
from tilewright.gpu.driver import open_gpu
from tilewright.gpu.host_memory import PAGE, Span, byte_bounds
from tilewright.gpu.launch import LaunchResult, LaunchSettings, launch_with
from tilewright.launching.array_interchange import in_numpy
from tilewright.launching.checks import first_writes
from tilewright.launching.described import (
    ArrayValue,
    ListValue,
    Value,
    arguments_of,
    arrays_of,
    row_of,
    table_of,
)
from tilewright.launching.modules import kernel_of
from tilewright.launching.one_at_a_time import new_lock, one_at_a_time
from tilewright.launching.options import (
    DEFAULT_OPTIONS,
    NVGPU,
    TILE_IR,
    LaunchOptions,
    check_options,
    with_deprecated,
)
from tilewright.launching.threads import (
    Grid,
    LoweredKernel,
    LoweredProgram,
    ThreadLaunch,
    ThreadsOfTiles,
)
from tilewright.launching.value_types import is_pointer, tile_like
from tilewright.lowering.nvgpu.tensor_maps import TensorMapPlan
from tilewright.numerics.arrays import Array
from tilewright.passes.tileas.decisions import FREE, Decisions
from tilewright.passes.tileas.remarks import Remark


class _GpuProgram:
    """The common part of programs: an architecture, options, and arrays that stay on the GPU.

    Launches from several threads wait for one another.
    """

    def __init__(self, arch: str | None, options: LaunchOptions, how: CompileOptions | None):
        found = architecture(arch) if arch is not None else open_gpu().best_architecture()
        self.arch = found.name
        self.options = options
        self._how = how or CompileOptions(record=True)
        self._compiled: dict[object, CompiledKernel] = {}
        self._mapped: list[Span] = []
        self._lock = new_lock()

    def map_array(self, array: Array) -> int:
        """Map an array; returns the GPU address of its first element, valid as long as the program.

        The array is copied to the GPU before each launch, and changes are copied back after. A GPU array keeps its own
        address.
        """
        if is_on_gpu(array):
            return device_array(array, "array").address
        low, high = byte_bounds(array)
        for span in self._mapped:
            if span.low <= low and high <= span.high:
                span.written += [array] if array.flags.writeable else []
                return span.address + int(array.ctypes.data) - span.low
            if low < span.high and span.low < high:
                raise TileIRError.single(
                    LAUNCH,
                    "the array extends past a previously mapped array that it overlaps",
                    help="first map the array that contains both",
                )
        gpu = open_gpu()
        gpu.enter()
        stream = Stream(gpu, LEGACY_STREAM, "")
        base = stream.allocate(high - low + PAGE)
        span = Span(low, high, [array] if array.flags.writeable else [], base)
        span.address = base + (low - base) % PAGE
        span.owners.append(array)
        self._mapped.append(span)
        weakref.finalize(self, _unmap, stream, base)
        return span.address + int(array.ctypes.data) - low

    def global_array(self, name: str) -> Array:
        """Raises ``KeyError``: globals of ``nvgpu`` modules live as long as a launch."""
        raise KeyError(f"the module has no public global '{name}'; public globals: none")

    def _settings(self, options: LaunchOptions, **further: Any) -> LaunchSettings:
        return LaunchSettings(
            time_limit=options.time_limit,
            check_asserts=options.check_asserts,
            print_to=options.print_to,
            fixed=self._mapped,
            **further,
        )

    def _chosen(
        self, options: LaunchOptions | None, deprecated: dict[str, Any], level: str
    ) -> LaunchOptions:
        chosen = self.options if options is None else options.over(self.options)
        if deprecated:
            chosen = with_deprecated(chosen, deprecated, "launch")
        check_options(chosen, "cuda", level)
        return chosen


def _unmap(stream: Stream, base: int) -> None:
    """Free the memory of a mapped array, when its program is deleted."""
    stream.gpu.enter()
    stream.free(base)


class TileProgram(ThreadsOfTiles, _GpuProgram):
    """A ``cuda_tile`` or ``nv_tileaa`` module whose kernels run on a GPU.

    The module must have been verified. ``arch`` is by default that of the GPU present. ``options`` are the defaults of
    launches; ``how`` are the options of the compilation; ``decisions`` override those of the compiler. Raises
    ``TileIRError`` if the architecture is unknown, or if it is omitted and there is no GPU.
    """

    def __init__(
        self,
        module: Operation,
        arch: str | None = None,
        options: LaunchOptions = DEFAULT_OPTIONS,
        how: CompileOptions | None = None,
        decisions: Decisions = FREE,
    ):
        super().__init__(arch, options, how)
        found = architecture(self.arch)
        self._lowered = LoweredProgram(module, self.arch, found.shared_limit, decisions)

    def scheduled(self, entry: str | None = None) -> ModuleOp:
        """A kernel, by default the only one, as ``nv_tileas``."""
        return self._lowered.scheduled(entry).module

    def remarks(self, entry: str | None = None) -> list[Remark]:
        """The decisions of the compiler about a kernel, and their reasons; none without optimization."""
        return self._lowered.remarks(entry) if self.options.optimization else []

    def prepare(
        self, entry: str | None, grid: Grid, args: Sequence[object]
    ) -> tuple[CompiledKernel, ThreadLaunch]:
        """The compiled kernel of a launch, and its arguments, including memory that the kernel gets beside them.

        The kernel depends on the grid, and on whether its arrays have tensor maps. Raises ``TileIRError`` with all
        errors of the launch.
        """
        optimize = self.options.optimization > 0
        found = self._lowered.arguments(entry, grid, args, allow_overlap=True, optimize=optimize)
        return self._compile(found.kernel), found

    def compile(self, entry: str | None = None) -> CompiledKernel:
        """Compile a kernel, by default the only one, to PTX.

        Its parameters are those of the kernel, then pointers to memory (``lowering.nvgpu.ThreadKernel``), then the
        message buffer, if any.
        """
        return self._compile(self._lowered.kernel(entry, self.options.optimization > 0))

    def scratch_bytes(self, entry: str | None = None) -> int:
        """The bytes of global scratch memory per block. If not 0, the last parameter, except for messages, points to
        that of all blocks.
        """
        return self._lowered.kernel(entry, self.options.optimization > 0).spec.scratch_bytes

    def tensor_maps(self, entry: str | None = None) -> tuple[TensorMapPlan, ...]:
        """The tensor maps that a launch encodes from its arguments, the last parameters except for messages."""
        return self._lowered.kernel(entry, self.options.optimization > 0).spec.tensor_maps

    def _compile(self, kernel: LoweredKernel) -> CompiledKernel:
        found = self._compiled.get(kernel.module)
        if found is None:
            found = compile_kernel(kernel.module, self.arch, kernel.name, self._how)
            self._compiled[kernel.module] = found
        return found

    def launch(
        self,
        entry: str | None = None,
        grid: Grid = (1, 1, 1),
        args: Sequence[object] = (),
        options: LaunchOptions | None = None,
        **deprecated: Any,
    ) -> LaunchResult:
        """Launch a kernel, as for every machine (``launching.machine.Program``).

        GPU arrays are used in place. Host arrays are copied to the GPU and back; addresses are those of the GPU.
        Raises ``TileIRError`` as every machine, and as ``gpu.launch.launch``.
        """
        chosen = self._chosen(options, deprecated, TILE_IR)
        given = self._stand_ins(entry, args)
        found = self._launch(entry, grid, given, chosen, allow_overlap=chosen.allow_overlap)
        converted = in_numpy(given, lambda: location_of(kernel_of(self.module, entry)))
        arrays = tuple(
            old if isinstance(new, StandIn) else new
            for old, new in zip(args, converted, strict=True)
            if isinstance(new, np.ndarray)
        )
        return replace(found, outputs=arrays)

    def _stand_ins(self, entry: str | None, args: Sequence[object]) -> Sequence[object]:
        """The arguments with stand-ins for GPU arrays, for the checks of a launch."""
        if not isinstance(args, tuple | list) or not any(is_on_gpu(value) for value in args):
            return args
        parameters = kernel_of(self.module, entry).block.args
        pointers = [(ty := tile_like(p.type)) is not None and is_pointer(ty) for p in parameters]
        found: list[object] = []
        for number, value in enumerate(args):
            if number < len(pointers) and pointers[number] and is_on_gpu(value):
                name = f"argument {number}"
                value = stand_in(device_array(value, name), name)
            found.append(value)
        return found

    @one_at_a_time
    def _launch(
        self,
        entry: str | None,
        grid: Grid,
        args: Sequence[object],
        options: LaunchOptions,
        *,
        allow_overlap: bool,
        tables: Mapping[int, Table] = MappingProxyType({}),
        **further: Any,
    ) -> LaunchResult:
        optimize = options.optimization > 0
        found = self._lowered.arguments(
            entry, grid, args, allow_overlap=allow_overlap, optimize=optimize, scratch=Scratch
        )
        given = [tables.get(number, value) for number, value in enumerate(_with_maps(found))]
        written = self._written(entry, found)
        settings = self._settings(options, written=written, folded=found.folded, **further)
        return launch_with(self._compile(found.kernel), found.grid, given, settings)

    def _written(self, entry: str | None, found: ThreadLaunch) -> frozenset[int] | None:
        """The parameters that a kernel may write through, including its globals; None for all."""
        writes = first_writes(kernel_of(self.module, entry))
        if None in writes:
            return None
        own = len(kernel_of(self.module, entry).block.args)
        further = range(own, len(found.args))
        return frozenset([*(n for n in writes if n is not None), *further])

    def launch_described(
        self,
        entry: str,
        grid: tuple[int, int, int],
        values: Sequence[Value],
        options: LaunchOptions | None = None,
    ) -> LaunchResult:
        """As for every machine (``launching.machine.Program``)."""
        chosen = self._chosen(options, {}, TILE_IR)
        args: list[object] = []
        tables: dict[int, Table] = {}
        for value in values:
            if isinstance(value, ListValue):
                tables[len(args)] = _table(value)
            first, *rest = arguments_of([value])
            args += [_on_gpu(value) if is_of_gpu(value) else first, *rest]
        arrays = arrays_of(values)
        lists = [value for value in values if isinstance(value, ListValue)]
        return self._launch(
            entry,
            grid,
            args,
            chosen,
            allow_overlap=True,
            tables=tables,
            reached=[row_of(item) for each in lists for item in each.items if not item.is_on_gpu],
            after_all=any(array.is_on_gpu for array in arrays),
        )


def is_of_gpu(value: Value) -> TypeGuard[ArrayValue]:
    """Whether an argument is an array in device memory."""
    return isinstance(value, ArrayValue) and value.is_on_gpu


def _on_gpu(value: ArrayValue) -> Array:
    """A one-dimensional array over the memory of a GPU array."""
    layout = value.layout
    count = layout.size // layout.dtype.itemsize
    row = DeviceArray(
        value.address + layout.low,
        (max(count, 1),),
        (1,),
        8 * layout.dtype.itemsize,
        layout.dtype.kind if layout.dtype.kind in "iufb" else "f",
        value.owner,
        layout.dtype,
        value.is_writable,
    )
    return stand_in(row, value.name)


def _table(value: ListValue) -> Table:
    """The records of a list of arrays, with GPU addresses."""

    def make(translated: Callable[[int], int]) -> Array:
        def address(item: ArrayValue) -> int:
            if item.is_on_gpu or not item.layout.size:
                return item.address
            # The first byte may precede the first element.
            return translated(item.address + item.layout.low) - item.layout.low

        items = [item._replace(address=address(item)) for item in value.items]
        return table_of(ListValue(value.name, items))

    return Table(make)


class ThreadProgram(_GpuProgram):
    """An ``nvgpu`` module whose kernels run on a GPU; see :class:`TileProgram`."""

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
        """Compile a kernel, by default the only one, to PTX; cached. Raises ``TileIRError`` as ``compile_kernel``
        does.
        """
        kernels = kernels_of(self.module)
        name = next(iter(kernels)) if entry is None and len(kernels) == 1 else entry
        found = self._compiled.get(name or "")
        if found is None:
            found = compile_kernel(self.module, self.arch, name, self._how)
            self._compiled[name or ""] = found
        return found

    @one_at_a_time
    def launch(
        self,
        entry: str | None = None,
        grid: Grid = (1, 1, 1),
        args: Sequence[Any] = (),
        options: LaunchOptions | None = None,
        **deprecated: Any,
    ) -> LaunchResult:
        """Launch a kernel, as for every machine (``launching.machine.Program``), also with GPU arrays.

        ``options.block`` and ``options.cluster`` are required if the kernel does not specify them. Raises
        ``TileIRError`` as ``gpu.launch.launch``.
        """
        chosen = self._chosen(options, deprecated, NVGPU)
        settings = self._settings(
            chosen,
            block=chosen.block,
            cluster=chosen.cluster,
            dynamic_shared_bytes=chosen.dynamic_shared_bytes,
        )
        return launch_with(self.compile(entry), grid, args, settings)

    def launch_described(self, entry: str, *rest: object) -> None:
        """Raises ``TileIRError`` (``gpu-launch``): described arguments are those of Tile IR kernels."""
        raise TileIRError.single(
            LAUNCH, f"kernel '{entry}' is of nvgpu, whose arguments have no description"
        )


def _with_maps(launch: ThreadLaunch) -> list[object]:
    """The arguments of a launch, in which views for tensor maps of GPU arrays become stand-ins as well."""
    given, plans = list(launch.args), launch.kernel.spec.tensor_maps
    first = len(given) - len(plans) - (3 if launch.folded else 0)
    for position, plan in enumerate(plans, first):
        source, view = given[plan.array], given[position]
        if isinstance(source, StandIn) and isinstance(view, np.ndarray):
            size = view.itemsize
            held = view.view(StandIn)
            strides = tuple(stride // size for stride in view.strides)
            held.stands_for = replace(source.stands_for, shape=view.shape, strides=strides)
            given[position] = held
    return given
