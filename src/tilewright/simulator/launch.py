"""Launches of kernels on the simulator."""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tilewright.analysis import verifier
from tilewright.analysis.preorder import operations
from tilewright.diagnostics import Diagnostic, TileIRError
from tilewright.diagnostics.render_html import preformatted, render_html
from tilewright.diagnostics.tracebacks import hides_frames
from tilewright.dialects.nvgpu.registers import registers_at_launch
from tilewright.dialects.upstream.gpu.kernels import FuncOp
from tilewright.launching.array_interchange import as_array
from tilewright.launching.one_at_a_time import new_lock, one_at_a_time
from tilewright.launching.options import (
    DEFAULT_OPTIONS,
    NVGPU,
    LaunchOptions,
    check_options,
    with_deprecated,
)
from tilewright.launching.result import RunResult
from tilewright.nesting import deep_recursion
from tilewright.numerics.arrays import Array
from tilewright.numerics.tensor_cores import MODES, Mode
from tilewright.simulator import codes, ops
from tilewright.simulator.address_space import AddressSpace
from tilewright.simulator.architectures import (
    MAX_THREADS,
    Architecture,
    Occupancy,
    Requirement,
    occupancy,
)
from tilewright.simulator.arguments import bind, memory_of
from tilewright.simulator.compile import Nested, Suspending, Translator
from tilewright.simulator.counters import Counters
from tilewright.simulator.faults import DiagnosticCollector, Fault
from tilewright.simulator.grid import Corner, Grid
from tilewright.simulator.groups import widened
from tilewright.simulator.memory import SHARED, Buffer
from tilewright.simulator.ops.control import body_of
from tilewright.simulator.ops.memrefs import local_value, memory_size, shared_value
from tilewright.simulator.pending import pending_values
from tilewright.simulator.proxies import GlobalProxies
from tilewright.simulator.recording import Recorder
from tilewright.simulator.schedule import Schedule
from tilewright.simulator.shadow import Shadow
from tilewright.simulator.shared_layout import SharedLayout
from tilewright.simulator.state import WARP_SIZE, Block, Cluster, Coroutine, Launch, Warp
from tilewright.simulator.timeline import Timeline

__tracebackhide__ = hides_frames

Extents = int | Sequence[int]
#: Options that had other names as keywords.
RENAMED = {"max_steps": "max_iterations"}
_WORKGROUP_ALIGNMENT = 128
_MAX_GRID, _MAX_CLUSTER = (2**31 - 1, 65535, 65535), 8
# Fill of uninitialized shared memory: a NaN in every float type.
_GARBAGE = 0xFF

assert ops.__all__


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationResult(RunResult):
    """The result of a launch. ``completed`` is false if a fault ended it early.

    ``diagnostics`` are errors and warnings in the order in which they were found. ``shared_bytes`` is the shared
    memory of a block, static and dynamic. ``seconds`` is the time that the simulation took, not a time on a GPU.
    ``block`` is in threads, x first; ``seed`` is that of the schedule that ran last.
    """

    counters: Counters
    timeline: Timeline
    diagnostics: tuple[Diagnostic, ...]
    occupancy: Occupancy
    shared_bytes: int
    seconds: float
    completed: bool
    seed: int
    arch: str
    block: tuple[int, int, int]

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that are errors, not warnings."""
        return tuple(found for found in self.diagnostics if found.is_error)

    @property
    def findings(self) -> tuple[Diagnostic, ...]:
        """The former name of ``diagnostics``, for one version."""
        warnings.warn("use diagnostics instead of findings", DeprecationWarning, stacklevel=2)
        return self.diagnostics

    def _repr_html_(self) -> str:
        """Diagnostics and counters as HTML, for notebooks."""
        how = "completed" if self.completed else "stopped by a fault"
        lines = [f"{self.arch}, seed {self.seed}: {how}; {self.occupancy}"]
        lines += [f"{name}: {count}" for name, count in self.counters.as_dict().items() if count]
        return preformatted("\n".join(lines)) + render_html(self.diagnostics)


@dataclass(slots=True)
class _Kernel:
    """A translated kernel."""

    translator: Translator
    body: Suspending
    parameters: tuple[int, ...]
    private: list[tuple[int, Callable[[], Any]]] = field(default_factory=list)
    _presets: dict[int, list[Any]] = field(default_factory=dict)
    """The initial registers of groups, by their number of warps."""

    def registers(self, block: Block, warps: int) -> list[Any]:
        """The initial registers of a group of so many warps of the block."""
        found = self._presets.get(warps)
        if found is None:
            found = [widened(value, warps) for value in self.translator.registers]
            self._presets[warps] = found
        found = list(found)
        for slot in (*self.parameters, *(slot for slot, _ in self.translator.block_values)):
            found[slot] = widened(block.registers[slot], warps)
        return found


class Program:
    """The kernels of an ``nvgpu`` module, ready to be launched on a simulated GPU.

    Verifies ``module`` unless ``is_verified``; raises ``TileIRError`` with all errors. ``options`` are the defaults of
    launches, which wait for one another where several threads make them.
    """

    @deep_recursion()
    def __init__(
        self,
        module: ModuleOp,
        arch: str = "sm_90a",
        options: LaunchOptions = DEFAULT_OPTIONS,
        *,
        is_verified: bool = False,
    ):
        if not is_verified:
            verifier.verify(module)
        self.module = module
        self.arch = arch
        self.options = options
        self._mapped: list[Array] = []
        self.kernels = {
            op.symbol: op for op in operations(module) if isinstance(op, FuncOp) and op.is_kernel
        }
        self._translated: dict[tuple[Any, ...], _Kernel] = {}
        self._lock = new_lock()

    @classmethod
    def parse(
        cls,
        text: str,
        filename: str = "<string>",
        arch: str = "sm_90a",
        options: LaunchOptions = DEFAULT_OPTIONS,
    ) -> Program:
        """Parse a module and make a program of it. Raises ``TileIRError`` with all errors of the text and of the
        module.
        """
        from tilewright.text import parse

        return cls(parse(text, filename), arch, options)  # pyright: ignore[reportArgumentType]

    def map_array(self, array: Array) -> int:
        """Make an array accessible to kernels by address; returns the address of its first element, in bytes.

        The array is shared, and kept as long as the program.
        """
        self._mapped.append(array)
        return int(array.ctypes.data)

    def global_array(self, name: str) -> Array:
        """Raises ``KeyError``: globals of ``nvgpu`` modules live as long as a launch."""
        raise KeyError(f"the module has no public global '{name}'; public globals: none")

    def kernel(self, name: str | None = None) -> FuncOp:
        """The kernel of this name, or the only one. Raises ``TileIRError`` if there is none."""
        known = ", ".join(f"'{n}'" for n in self.kernels) or "none"
        if name is None and len(self.kernels) == 1:
            return next(iter(self.kernels.values()))
        for spelling in () if name is None else (name, name.removeprefix("@")):
            if spelling in self.kernels:
                return self.kernels[spelling]
        what = "name one" if name is None else f"there is no kernel '{name}'"
        raise TileIRError.single(codes.KERNEL, f"{what}; kernels of the module: {known}")

    def launch(
        self,
        entry: str | None = None,
        grid: Extents = (1, 1, 1),
        args: Sequence[Any] = (),
        options: LaunchOptions | None = None,
        **deprecated: Any,
    ) -> SimulationResult:
        """Launch a kernel, as for every machine (``launching.machine.Program``). ``options.block`` is required.

        ``grid`` counts blocks, ``options.block`` threads, x first; a number is the extent along x. ``args``: an array
        for each memref or tensor map, an array or an address for each pointer, and numbers. Arrays are updated in
        place. ``options.in_groups`` does not change the diagnostics, but may change the results of a kernel with
        races. With ``options.strict`` raises ``TileIRError`` with all diagnostics if one is an error, else they are
        in the result. Errors of the launch itself are always raised.
        """
        arch = deprecated.pop("arch", self.arch)
        if not isinstance(
            options, LaunchOptions | None
        ):  # grid, block, args, as launches once were
            deprecated["block"], args, options = args, cast("Sequence[Any]", options), None
        chosen = self.options if options is None else options.over(self.options)
        if deprecated:
            chosen = with_deprecated(chosen, deprecated, "launch", RENAMED)
        check_options(chosen, "sim", NVGPU, f"sim:{arch}")
        if chosen.block is None:
            raise TileIRError.single(
                codes.ARGUMENT,
                "a launch of an nvgpu kernel needs the number of threads per block",
                help="pass LaunchOptions(block=...)",
            )
        memory = [*self._mapped, *chosen.memory]
        return self.simulate(
            self.kernel(entry), grid, args, chosen, block=chosen.block, memory=memory, arch=arch
        )

    def launch_described(self, entry: str, *rest: object) -> None:
        """Raises ``TileIRError``: described arguments are those of Tile IR kernels."""
        raise TileIRError.single(
            codes.ARGUMENT, f"kernel '{entry}' is of nvgpu, whose arguments have no description"
        )

    @one_at_a_time
    @deep_recursion()
    def simulate(
        self,
        function: FuncOp,
        grid: Extents,
        args: Sequence[Any],
        options: LaunchOptions,
        *,
        block: Extents,
        memory: Sequence[Array],
        outputs: tuple[Array, ...] | None = None,
        arch: str | None = None,
        recorder: Recorder | None = None,
    ) -> SimulationResult:
        """:meth:`launch` with checked options, and with all memory that is accessed by address.

        ``grid`` counts blocks, ``block`` threads. ``outputs`` are the arrays of the result, by default those among
        ``args``. With a ``recorder`` only its blocks run (``recording``). Raises ``TileIRError`` as ``launch`` does.
        """
        arch, numerics = self.arch if arch is None else arch, options.numerics
        try:
            if numerics not in MODES:
                raise Fault(codes.ARGUMENT, f"numerics is one of {', '.join(MODES)}: {numerics!r}")
            target = Architecture.parse(arch)
            shape = _Shape.of(grid, block, options.cluster or 1)
            shape.check(target, function)
            args = [as_array(arg, f"argument {n}") for n, arg in enumerate(args)]
            values = bind(function.arguments, args)
            given = memory_of(function.arguments, args, memory)
            by_turns = recorder is None and not options.in_groups and any(options.schedules)
            if recorder is not None:
                # A recorder needs the operations that warps execute, not exact results.
                numerics = "rough"
            kernel = self._translate(function, target, options, numerics, by_turns=by_turns)
        except Fault as fault:
            raise TileIRError([fault.diagnostic()]) from None
        given += [value.buffer for value in kernel.translator.global_values.values()]
        outputs = _arrays(args) if outputs is None else outputs
        request = _Request(
            target, shape, options, kernel, values, AddressSpace(given), outputs,
            options.registers or registers_at_launch(function, shape.threads), recorder,
        )  # fmt: skip
        result = _under_all(request, given)
        if options.strict and result.errors:
            raise TileIRError(result.diagnostics)
        return result

    def _translate(
        self,
        function: FuncOp,
        arch: Architecture,
        options: LaunchOptions,
        numerics: str,
        *,
        by_turns: bool,
    ) -> _Kernel:
        dynamic_bytes = options.dynamic_shared_bytes
        key = (function, arch, numerics, dynamic_bytes, by_turns)
        if key not in self._translated:
            layout = SharedLayout(dynamic_bytes)
            translator = Translator(self.module, arch, layout, numerics, by_turns=by_turns)
            self._translated[key] = _translate(translator, function)
        _check_shared(self._translated[key].translator.shared, arch)
        return self._translated[key]


@dataclass(frozen=True, slots=True)
class _Request:
    """A checked launch, to run with any seed."""

    arch: Architecture
    shape: _Shape
    options: LaunchOptions
    kernel: _Kernel
    values: list[Any]
    addresses: AddressSpace
    outputs: tuple[Array, ...]
    registers: int
    recorder: Recorder | None

    def run(self, seed: int) -> SimulationResult:
        """Run the launch with one seed. Findings are in the result."""
        options, shape, arch, printed = self.options, self.shape, self.arch, list[str]()
        in_groups = seed == 0 if options.in_groups is None else options.in_groups
        launch = Launch(
            arch,
            shape.grid,
            shape.block,
            shape.cluster,
            cast("Mode", options.numerics),
            Counters(),
            DiagnosticCollector(),
            random.Random(seed),
            Timeline(options.timeline_blocks),
            options.max_iterations,
            _printer(printed, options.print_to),
            in_groups=in_groups,
            addresses=self.addresses,
            time_limit=options.time_limit,
            seed=seed,
            takes_turns=bool(seed) and not in_groups and self.recorder is None,
            registers=self.registers,
            recorder=self.recorder,
        )
        shared_bytes = self.kernel.translator.shared.total_bytes
        held = occupancy(arch, shape.threads, shared_bytes, options.registers)
        started = time.perf_counter()
        completed = _run(launch, self.kernel, self.values, _resident(launch, held, options))
        return SimulationResult(
            outputs=self.outputs,
            text="".join(printed),
            counters=launch.counters,
            timeline=launch.timeline,
            diagnostics=tuple(launch.collector.diagnostics),
            occupancy=held,
            shared_bytes=shared_bytes,
            seconds=time.perf_counter() - started,
            completed=completed,
            seed=seed,
            arch=arch.name,
            block=shape.block,
        )


def _under_all(request: _Request, memory: Sequence[Buffer]) -> SimulationResult:
    """Run the launch with each seed from the same memory, up to the first with an error; returns the last result."""
    first, *others = request.options.schedules
    kept = [(b, b.data.copy()) for b in memory if not b.read_only] if others else []
    result = request.run(first)
    for seed in others:
        if result.errors:
            break
        for buffer, data in kept:
            buffer.data[...] = data
        result = request.run(seed)
    return result


def _arrays(args: Sequence[Any]) -> tuple[Array, ...]:
    return tuple(arg for arg in args if isinstance(arg, np.ndarray))


def _printer(
    printed: list[str], print_to: Callable[[str], object] | None
) -> Callable[[str], object]:
    """Returns a callback that keeps printed texts and passes them on."""

    def emit(text: str) -> None:
        printed.append(text)
        if print_to is not None:
            print_to(text)

    return emit


@dataclass(frozen=True, slots=True)
class _Shape:
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]

    @classmethod
    def of(cls, grid: Extents, block: Extents, cluster: Extents) -> _Shape:
        return cls(_extents(grid, "grid"), _extents(block, "block"), _extents(cluster, "cluster"))

    @property
    def threads(self) -> int:
        x, y, z = self.block
        return x * y * z

    def check(self, arch: Architecture, function: FuncOp) -> None:
        """Raise ``Fault`` for a shape that no GPU can launch."""
        if self.threads > MAX_THREADS:
            raise Fault(codes.ARGUMENT, f"a block has up to {MAX_THREADS} threads: {self.block}")
        if any(g > most for g, most in zip(self.grid, _MAX_GRID)):
            raise Fault(
                codes.ARGUMENT,
                f"a grid has at most {_MAX_GRID[0]:,} blocks in x and {_MAX_GRID[1]:,} in y and in z, "
                f"got {self.grid}",
            )
        if self.cluster != (1, 1, 1):
            if not arch.has(Requirement(90)):
                raise Fault(codes.ARCHITECTURE, f"{arch} has no clusters; they require sm_90")
            if any(g % c for g, c in zip(self.grid, self.cluster)):
                raise Fault(
                    codes.ARGUMENT,
                    f"the grid {self.grid} is not a multiple of the cluster {self.cluster}",
                )
            x, y, z = self.cluster
            if x * y * z > _MAX_CLUSTER:
                raise Fault(codes.ARGUMENT, f"a cluster has up to {_MAX_CLUSTER} blocks")
        known = function.attributes.get("gpu.known_block_size")
        wanted = None if known is None else tuple(known.get_values())  # pyright: ignore[reportAttributeAccessIssue]
        if wanted not in (None, self.block):
            raise Fault(
                codes.ARGUMENT, f"the kernel requires blocks of {wanted} threads, got {self.block}"
            )


def _extents(given: Extents, name: str) -> tuple[int, int, int]:
    found = (given,) if isinstance(given, int) else tuple(given)
    if not 1 <= len(found) <= 3 or not all(isinstance(n, int) and n >= 1 for n in found):
        raise Fault(codes.ARGUMENT, f"expected one to three extents of the {name}, got {given!r}")
    x, y, z = (*found, 1, 1)[:3]
    return x, y, z


def _check_shared(layout: SharedLayout, arch: Architecture) -> None:
    if layout.total_bytes > arch.block_shared_bytes:
        raise Fault(
            codes.ARGUMENT,
            f"a block needs {layout.total_bytes} bytes of shared memory, but {arch} allows "
            f"{arch.block_shared_bytes}",
        )


def _translate(t: Translator, function: FuncOp) -> _Kernel:
    t.pending = pending_values(function)
    parameters = t.slots(function.arguments)
    t.fixed.update(parameters)
    private: list[tuple[int, Callable[[], Any]]] = []
    for argument in function.workgroup:
        ty: Any = argument.type
        name = argument.name_hint or "workgroup"
        offset = t.shared.named(f"%{name}", memory_size(ty), _WORKGROUP_ALIGNMENT)
        t.each_block(argument, shared_value(offset, ty))
    for argument in function.private:
        name = argument.name_hint or "private"
        private.append((t.slot(argument), local_value(argument.type, f"%{name}")))  # pyright: ignore[reportArgumentType]
    body = body_of(function.body, t, is_kernel=True)
    if isinstance(body, Nested):
        body = _suspending(body)
    return _Kernel(t, body, parameters, private)


def _suspending(body: Nested) -> Suspending:
    """A kernel that never waits, as a suspending step."""

    def start(warp: Warp) -> Coroutine:
        body.run(warp)
        yield from ()

    return Suspending(start)


def _resident(launch: Launch, held: Occupancy, options: LaunchOptions) -> int:
    """The number of clusters that are live at once: for ``resident`` blocks, by default those that the GPU holds."""
    blocks = options.resident
    if blocks is None:
        blocks = held.blocks * launch.arch.multiprocessors
    x, y, z = launch.cluster
    return max(blocks // (x * y * z), 1)


def _run(launch: Launch, kernel: _Kernel, values: list[Any], resident: int) -> bool:
    """Run all clusters. False if a fault ended the launch."""

    def begin(corner: Corner) -> Schedule:
        cluster = _cluster(launch, kernel, values, corner)
        return Schedule(cluster, kernel.body, kernel.translator.fixed, kernel.registers)

    launch.proxies = GlobalProxies.of(launch, values)
    try:
        # Infinities and NaNs are ordinary results.
        with np.errstate(all="ignore"):
            Grid(launch, begin, _corners(launch), resident).run()
    except Fault as fault:
        launch.collector.diagnostics.append(fault.diagnostic())
        return False
    return True


def _corners(launch: Launch) -> Iterable[tuple[int, int, int]]:
    """The first block of each cluster to run."""
    if launch.recorder is not None:
        inside = zip(*launch.recorder.blocks, strict=True)
        parts = [[n // c * c for n in axis] for axis, c in zip(inside, launch.cluster)]
        return dict.fromkeys(zip(*parts, strict=True))
    starts = [range(0, g, c) for g, c in zip(launch.grid, launch.cluster)]
    return ((x, y, z) for z, y, x in product(*reversed(starts)))


def _cluster(
    launch: Launch, kernel: _Kernel, values: list[Any], corner: tuple[int, int, int]
) -> Cluster:
    x, y, z = (i // c for i, c in zip(corner, launch.cluster))
    cluster = Cluster(launch, (x, y, z))
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    warps = -(-threads // WARP_SIZE)
    barriers = sum(count for _, count in kernel.translator.barrier_groups)
    members = list(product(*(range(c) for c in reversed(launch.cluster))))
    clock_entries = len(members) * (warps + barriers)
    for rank, (dz, dy, dx) in enumerate(members):
        index = corner[0] + dx, corner[1] + dy, corner[2] + dz
        first = rank * (warps + barriers)
        block = _block(launch, kernel, cluster, index, rank, warps, first, clock_entries)
        cluster.blocks.append(block)
        _start(launch, kernel, values, block, threads, warps)
    return cluster


def _block(
    launch: Launch,
    kernel: _Kernel,
    cluster: Cluster,
    index: tuple[int, int, int],
    rank: int,
    warps: int,
    first: int,
    clock_entries: int,
) -> Block:
    size = kernel.translator.shared.buffer_bytes
    shared = Buffer(np.full(size, _GARBAGE, np.uint8), SHARED, "shared memory")
    shadow = Shadow(size, warps, first, clock_entries, launch.collector)
    return Block(
        cluster,
        index,
        rank,
        shared,
        shadow,
        clock_entries,
        first,
        clocks_before_barriers=first + warps,
    )


def _start(
    launch: Launch, kernel: _Kernel, values: list[Any], block: Block, threads: int, warps: int
) -> None:
    """Create the warps of a block, with their registers."""
    block.warps = []
    registers = list(kernel.translator.registers)
    for slot, value in zip(kernel.parameters, values):
        registers[slot] = value
    for number in range(warps):
        linear = np.arange(number * WARP_SIZE, (number + 1) * WARP_SIZE)
        exists = linear < threads
        clock_index = block.first_clock_index + number
        clock = block.new_clock()
        clock[clock_index] = 1
        warp = Warp(
            launch,
            block,
            number,
            clock_index,
            [],
            exists,
            exists,
            int(exists.sum()),
            clock,
            block.new_clock(),
            thread=_thread(linear, launch.block),
        )
        block.warps.append(warp)
    for slot, make in kernel.translator.block_values:
        registers[slot] = make(block)
    block.registers = registers
    for warp in block.warps:
        warp.regs = list(registers)
        warp.register_count = launch.registers
        for slot, make in kernel.private:
            warp.regs[slot] = make()


def _thread(linear: Array, block: tuple[int, int, int]) -> tuple[Any, Any, Any]:
    """The coordinates of the threads of a warp, each as a number if it is uniform."""
    x, rest = linear % block[0], linear // block[0]
    y, z = rest % block[1], rest // block[1]
    found = [int(n[0]) if (n == n[0]).all() else n for n in (x, y, z)]
    return found[0], found[1], found[2]
