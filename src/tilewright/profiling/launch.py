"""Profiles of launches of generated kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tilewright.diagnostics import TileIRError
from tilewright.dialects.upstream.gpu.kernels import FuncOp
from tilewright.gpu.abi import Parameter
from tilewright.gpu.compile import CompiledKernel, CompileOptions
from tilewright.gpu.tiles import ThreadProgram, TileProgram
from tilewright.gpu.tools import disassemble_to_json
from tilewright.launching.modules import is_tile_ir
from tilewright.model.profile import BlockFacts, Options, Origin, Profile
from tilewright.model.sass import Kernel, kernel_named, read_kernels
from tilewright.model.tables import TARGETS, Gpu, gpu_named
from tilewright.model.timing import profile
from tilewright.model.walk import LaunchShape, parameter_words
from tilewright.numerics.arrays import Array
from tilewright.passes.tileas.decisions import FREE, Decisions
from tilewright.profiling.codes import BLOCK_OF_THREADS
from tilewright.profiling.origins import origins_of
from tilewright.profiling.running import Found, run_blocks

#: The addresses of the arrays of a modelled launch: far apart and aligned.
_FIRST_ADDRESS, _APART = 1 << 36, 1 << 36
#: The time limit of running a block: only endless loops reach it.
RUN_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Asked:
    """Parameters of a profile that a launch does not determine.

    ``block``: threads, for kernels of ``nvgpu`` that do not set them; ``cluster`` and ``dynamic_shared_bytes`` as for a
    launch. ``trips``: iterations of loops by name, which override the code. ``footprint_bytes``: bytes that are read
    from the GPU's memory at least, by default the size of all arrays. ``run_seconds``: the time limit of running a
    block on the simulator; 0 runs none, so bank conflicts and sectors are unknown.
    """

    block: tuple[int, int, int] | None = None
    cluster: tuple[int, int, int] | None = None
    dynamic_shared_bytes: int = 0
    trips: Mapping[str, int] = field(default_factory=dict)
    footprint_bytes: int | None = None
    run_seconds: float = RUN_SECONDS


def profile_launch(
    module: Operation,
    gpu: Gpu | str,
    grid: int | Sequence[int],
    args: Sequence[object],
    *,
    entry: str | None = None,
    memory: Sequence[Array] = (),
    asked: Asked = Asked(),
) -> Profile:
    """The modelled profile of one launch; the arguments are not changed.

    ``module``: verified Tile IR or ``nvgpu``. ``gpu``: a table or its name. ``entry``: the kernel, by default the only
    one. ``grid``, ``args`` and ``memory`` are those of a launch on the simulator: arrays are only read, and large ones
    need no contents except those on which addresses and branches depend.

    Raises ``TileIRError`` for unknown GPUs, missing tools, kernels that cannot be compiled for the GPU or do not fit,
    invalid arguments, and loops with unknown iterations.
    """
    return Profiler(module, gpu, entry).profile(grid, args, memory=memory, asked=asked)


@dataclass(frozen=True, slots=True)
class Code:
    """A compiled kernel: its machine code, its ``nvgpu`` function, and the origins of its line numbers."""

    compiled: CompiledKernel
    kernel: Kernel
    function: FuncOp
    origins: Mapping[int, Origin]

    @staticmethod
    def of(compiled: CompiledKernel, threads: ModuleOp) -> Code:
        """The machine code of a compiled kernel, with the operations that it was generated from.

        Raises ``TileIRError`` if NVIDIA's tools are missing.
        """
        kernels = read_kernels(compiled.assemble().cubin, disassemble_to_json)
        kernel = kernel_named(kernels, compiled.name)
        return Code(compiled, kernel, _function(compiled, threads), origins_of(compiled.operations))


def _function(compiled: CompiledKernel, threads: ModuleOp) -> FuncOp:
    for op in compiled.operations[:1]:
        around: Operation | None = op
        while around is not None and not isinstance(around, FuncOp):
            around = around.parent_op()
        if around is not None and around.is_kernel:
            return around
    return next(op for op in threads.walk() if isinstance(op, FuncOp) and op.is_kernel)


class Profiler:
    """Profiles launches of a kernel, compiled for a GPU. Arguments and errors are those of ``profile_launch``;
    ``decisions`` override those of the compiler.
    """

    def __init__(
        self,
        module: Operation,
        gpu: Gpu | str,
        entry: str | None = None,
        decisions: Decisions = FREE,
    ):
        self.gpu = gpu_named(gpu) if isinstance(gpu, str) else gpu
        target, how = TARGETS[self.gpu.compute], CompileOptions(lines=True)
        self._entry = entry
        self._codes: dict[int, Code] = {}
        self._tiles: TileProgram | None = None
        self._plain: Code | None = None
        if is_tile_ir(module):
            self._tiles = TileProgram(module, target, how=how, decisions=decisions)
        else:
            assert isinstance(module, ModuleOp)
            compiled = ThreadProgram(module, target, how=how).compile(entry)
            self._plain = Code.of(compiled, module)

    @property
    def code(self) -> Code:
        """The code for launches of small grids, with tensor maps for all arrays. Raises ``TileIRError`` if it cannot
        be compiled.
        """
        if self._plain is None:
            assert self._tiles is not None
            compiled = self._tiles.compile(self._entry)
            self._plain = self._code_of(compiled, self._tiles.threads(self._entry))
        return self._plain

    def code_for(self, grid: int | Sequence[int], args: Sequence[object]) -> Code:
        """The code that a launch runs. Raises ``TileIRError`` as ``code`` does."""
        return self._given(grid, args)[0]

    def _code_of(self, compiled: CompiledKernel, threads: ModuleOp) -> Code:
        # The program caches compiled kernels.
        if id(compiled) not in self._codes:
            self._codes[id(compiled)] = Code.of(compiled, threads)
        return self._codes[id(compiled)]

    def profile(
        self,
        grid: int | Sequence[int],
        args: Sequence[object],
        *,
        memory: Sequence[Array] = (),
        asked: Asked = Asked(),
    ) -> Profile:
        """The modelled profile of a launch; parameters and errors are those of ``profile_launch``."""
        code, extents, given = self._given(grid, args)
        threads, own = _threads_of(code.compiled, asked), len(args)
        numbers = [*_numbers(code.compiled.parameters, given)]
        launch = LaunchShape(extents, threads, parameter_words(code.kernel, numbers))
        arrays = _distinct([*given[:own], *memory])
        found = Found({}, ())
        if asked.run_seconds > 0:
            found = run_blocks(code, launch, given, own, memory, asked)
        footprint = asked.footprint_bytes
        if footprint is None and arrays:
            footprint = sum(array.nbytes for array in arrays)
        dynamic = code.compiled.dynamic_shared_bytes + asked.dynamic_shared_bytes
        options = Options(
            trips=asked.trips,
            dynamic_shared_bytes=dynamic,
            footprint_bytes=footprint,
            facts=found.facts,
            origins=code.origins,
            notes=found.notes,
        )
        return profile(code.kernel, self.gpu, launch, options)

    def _given(
        self, grid: int | Sequence[int], args: Sequence[object]
    ) -> tuple[Code, tuple[int, int, int], list[object]]:
        """The code of a launch, its grid, and the values of its parameters, the caller's arguments first."""
        if self._tiles is not None:
            compiled, found = self._tiles.prepare(self._entry, grid, args)
            return self._code_of(compiled, found.kernel.module), found.grid, found.args
        x, y, z = (*((grid,) if isinstance(grid, int) else tuple(grid)), 1, 1)[:3]
        return self.code, (x, y, z), list(args)


def _threads_of(compiled: CompiledKernel, asked: Asked) -> tuple[int, int, int]:
    said = compiled.block
    if said is None and asked.block is None:
        raise TileIRError.single(
            BLOCK_OF_THREADS,
            f"kernel '{compiled.name}' does not state its threads per block",
            help="add --block X[,Y[,Z]] (in Python: Asked(block=...))",
        )
    if said is not None and asked.block not in (None, (*said, 1, 1)[:3]):
        raise TileIRError.single(
            BLOCK_OF_THREADS,
            f"kernel '{compiled.name}' requires blocks of {said}, not {asked.block}",
        )
    x, y, z = (*(said if said is not None else asked.block or ()), 1, 1)[:3]
    return x, y, z


def _distinct(values: Sequence[object]) -> list[Array]:
    """The arrays with distinct addresses, of each the largest."""
    found: dict[int, Array] = {}
    for value in values:
        if isinstance(value, np.ndarray):
            at = value.__array_interface__["data"][0]
            if at not in found or found[at].nbytes < value.nbytes:
                found[at] = value
    return list(found.values())


def _numbers(
    parameters: Sequence[Parameter], given: Sequence[object]
) -> Iterator[tuple[int, int | float | None]]:
    """Size and value of each number that the machine code receives; None if the value is unknown."""
    address = _FIRST_ADDRESS
    for parameter, value in zip(parameters, given, strict=True):
        at = address if isinstance(value, np.ndarray) else value
        address += _APART
        for place in parameter.fields:
            yield place.size, _field(place.what, place.size, value, at)


def _field(what: str, size: int, value: Any, at: Any) -> int | float | None:
    if what in ("pointer", "allocated", "aligned"):
        return at if isinstance(at, int) else None
    if what == "offset":
        return 0
    if what == "value":
        number = value.item() if isinstance(value, np.generic) else value
        if isinstance(number, bool | int):
            return int(number)
        return number if isinstance(number, float) and size in (4, 8) else None
    if isinstance(value, np.ndarray) and what.startswith("size"):
        return int(value.shape[int(what.removeprefix("size"))])
    if isinstance(value, np.ndarray) and what.startswith("stride"):
        return int(value.strides[int(what.removeprefix("stride"))]) // max(value.itemsize, 1)
    return None


__all__ = ["RUN_SECONDS", "Asked", "BlockFacts", "Profiler", "profile_launch"]
