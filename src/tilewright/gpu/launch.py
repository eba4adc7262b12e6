"""Launches on a GPU: checks beforehand, the launch itself, and the wait for its end."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tilewright.diagnostics import TileIRError
from tilewright.diagnostics.tracebacks import hides_frames
from tilewright.gpu import tools
from tilewright.gpu.arguments import Arguments, Stream
from tilewright.gpu.arguments import pack_number as pack_number
from tilewright.gpu.codes import LAUNCH
from tilewright.gpu.compile import CompiledKernel
from tilewright.gpu.device_arrays import LEGACY_STREAM, DeviceArray
from tilewright.gpu.driver import CUDA_OF_PTX, Gpu, open_gpu
from tilewright.gpu.host_memory import Span
from tilewright.gpu.messages import Messages
from tilewright.gpu.modules import LoadedKernel
from tilewright.launching.assertions import assertion_error
from tilewright.launching.result import RunResult
from tilewright.launching.time_limits import TIME_LIMIT, over_message
from tilewright.numerics.arrays import Array

__tracebackhide__ = hides_frames

_STATIC_LIMIT = 48 << 10
_MAX_GRID_X, _MAX_GRID_YZ = 2**31 - 1, 65_535
_MAX_THREADS = 1024
#: The cluster sizes, in blocks, that every GPU with clusters supports, and that may be requested.
_PORTABLE_CLUSTER, _MAX_CLUSTER = 8, 16
#: The time of busy waiting, and the longest interval between polls after, in seconds.
_SPIN, _LONGEST_NAP = 2e-4, 1e-3
#: Appended if more was printed, or more assertions failed, than the buffer holds.
CUT = "... further output of the launch was dropped\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchResult(RunResult):
    """The result of a launch. ``milliseconds`` is measured on the GPU.

    ``text`` is that of kernels compiled to record it; for others the driver prints.
    """

    device: str
    milliseconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSettings:
    """The settings of a launch besides its grid and arguments.

    ``block`` and ``cluster`` may be omitted if the kernel specifies them; ``dynamic_shared_bytes`` is for
    `gpu.dynamic_shared_memory`. ``time_limit``: seconds after which the launch is abandoned. ``check_asserts``: raise
    failed assertions. ``print_to`` is called with each text. ``fixed``, ``reached`` and ``written`` as for
    ``Arguments.send``. ``after_all``: wait for all work on the GPU first. ``folded``: the grid that is launched as one
    row of blocks.
    """

    block: int | Sequence[int] | None = None
    cluster: int | Sequence[int] | None = None
    dynamic_shared_bytes: int = 0
    device: int | None = None
    time_limit: float | None = None
    check_asserts: bool = True
    print_to: Callable[[str], object] | None = None
    fixed: Sequence[Span] = ()
    reached: Sequence[Array] = ()
    written: frozenset[int] | None = None
    after_all: bool = False
    folded: tuple[int, int, int] | None = None


def launch(
    kernel: CompiledKernel,
    grid: int | Sequence[int],
    args: Sequence[Any],
    *,
    block: int | Sequence[int] | None = None,
    cluster: int | Sequence[int] | None = None,
    dynamic_shared_bytes: int = 0,
    device: int | None = None,
) -> LaunchResult:
    """Run a kernel on a GPU, and wait for it.

    ``args``: an array for each memref and tensor map, an array or a GPU address for each pointer, a number for each
    other parameter. GPU arrays of torch, CuPy, or any library with the CUDA array interface or DLPack are used in place
    if they are on that GPU. Host arrays are copied there and back; those that share memory share it on the GPU.
    ``block`` and ``cluster`` may be omitted if the kernel specifies them. ``dynamic_shared_bytes`` is for
    `gpu.dynamic_shared_memory`. ``device``: by default the GPU of the arrays, else the first one.

    Raises ``TileIRError`` if no GPU can run the kernel, if an argument does not fit, or if the kernel fails.
    """
    settings = LaunchSettings(
        block=block, cluster=cluster, dynamic_shared_bytes=dynamic_shared_bytes, device=device
    )
    return launch_with(kernel, grid, args, settings)


def launch_with(
    kernel: CompiledKernel, grid: int | Sequence[int], args: Sequence[Any], settings: LaunchSettings
) -> LaunchResult:
    """:func:`launch`, with settings; arguments and errors are the same.

    Raises ``TileIRError`` also for failed assertions, unless the settings say otherwise, and after the time limit,
    when the kernel goes on and its memory stays allocated until it ends.
    """
    shape = _Shape.of(kernel, grid, settings)
    _check_count(kernel, args)
    own = kernel.parameters[:-1] if kernel.sites else kernel.parameters
    gpu = None if settings.device is None else open_gpu(settings.device)
    arguments = Arguments.read(own, args)
    gpu = gpu or open_gpu(_device_of(arguments))
    _check_device(gpu, arguments, settings.device)
    gpu.check(kernel.arch, kernel.isa)
    gpu.enter()
    gpu.reap()
    first, *others = sorted(arguments.streams, key=lambda s: s == LEGACY_STREAM) or [LEGACY_STREAM]
    stream = Stream(gpu, first, kernel.name)
    with ExitStack() as stack:
        loaded = stack.enter_context(_loaded(gpu, kernel))
        _prepare(gpu, kernel, loaded, shape)
        _come_behind(stream, others, settings.after_all)
        stack.callback(arguments.free, stream)
        arguments.send(stream, settings.fixed, settings.reached, settings.written)
        buffer = None
        if kernel.sites:
            buffer = stack.enter_context(gpu.messages.taken())
            arguments.add_address(buffer.device)
        events: list[Any] = []
        said = Messages()
        try:
            _start(stack, stream, shape, loaded.function, arguments, events)
            _wait(gpu, events[1], kernel.name, settings.time_limit)
            arguments.fetch()
        except TileIRError as error:
            if error.diagnostics[0].code == TIME_LIMIT:
                gpu.abandon(events[1], stack.pop_all())
            elif (
                buffer is not None and (said := buffer.read(kernel.sites, settings.folded)).failures
            ):
                # The first failure tells more than what followed from it.
                found = [*assertion_error(said.failures).diagnostics, *error.diagnostics]
                raise TileIRError(found) from None
            raise
        except KeyboardInterrupt:
            if len(events) == 2:
                gpu.abandon(events[1], stack.pop_all())
            raise
        milliseconds = float(gpu.call("cuEventElapsedTime", *events))
        if buffer is not None:
            said = buffer.read(kernel.sites, settings.folded)
    return _result(gpu, args, said, milliseconds, settings)


def _result(
    gpu: Gpu,
    args: Sequence[Any],
    said: Messages,
    milliseconds: float,
    settings: LaunchSettings,
) -> LaunchResult:
    texts = [*said.texts, *([CUT] if said.is_cut else [])]
    if settings.print_to is not None:
        for text in texts:
            settings.print_to(text)
    if said.failures and settings.check_asserts:
        raise assertion_error(said.failures)
    return LaunchResult(
        outputs=tuple(arg for arg in args if isinstance(arg, np.ndarray)),
        text="".join(texts),
        failures=said.failures,
        device=gpu.name,
        milliseconds=milliseconds,
    )


def _bad(message: str, help: str = "") -> TileIRError:
    return TileIRError.single(LAUNCH, message, help=help)


# Checks before a launch


@dataclass(frozen=True, slots=True)
class _Shape:
    """The grid, block and cluster extents, and the dynamic shared memory of a launch."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared: int

    @classmethod
    def of(
        cls, kernel: CompiledKernel, grid: int | Sequence[int], settings: LaunchSettings
    ) -> _Shape:
        block = _extents(kernel.block, settings.block, "block")
        if kernel.cluster is not None or settings.cluster is not None:
            cluster = _extents(kernel.cluster, settings.cluster, "cluster")
        else:
            cluster = (1, 1, 1)
        blocks, shared = _three(grid), kernel.dynamic_shared_bytes + settings.dynamic_shared_bytes
        if any(n % c for n, c in zip(blocks, cluster, strict=True)):
            raise _bad(f"a grid of {blocks} blocks is not a multiple of the cluster {cluster}")
        if blocks[0] > _MAX_GRID_X or max(blocks[1:]) > _MAX_GRID_YZ:
            raise _bad(
                f"a grid has at most {_MAX_GRID_YZ:,} blocks in y and in z and {_MAX_GRID_X:,} in x, "
                f"got {blocks}",
                f"put the largest extent of the grid first: x takes up to {_MAX_GRID_X:,}",
            )
        threads = block[0] * block[1] * block[2]
        if threads > _MAX_THREADS or block[2] > 64:
            raise _bad(f"a block has at most {_MAX_THREADS:,} threads, and 64 in z, got {block}")
        if (blocks_of := cluster[0] * cluster[1] * cluster[2]) > _MAX_CLUSTER:
            raise _bad(f"a cluster has at most {_MAX_CLUSTER} blocks, got {blocks_of}")
        if blocks_of > 1 and kernel.arch.number < 90:
            raise _bad(f"{kernel.arch.name} has no clusters; they require sm_90")
        static = 0 if kernel.dynamic_shared_bytes else kernel.shared_bytes
        if static + shared > kernel.arch.shared_limit:
            raise _bad(
                f"kernel '{kernel.name}' is to have {static + shared:,} bytes of shared memory, and a "
                f"block of {kernel.arch.name} has at most {kernel.arch.shared_limit:,}"
            )
        return cls(blocks, block, cluster, shared)

    @property
    def threads(self) -> int:
        x, y, z = self.block
        return x * y * z


def _three(extents: int | Sequence[int]) -> tuple[int, int, int]:
    given = (extents,) if isinstance(extents, int | np.integer) else tuple(extents)
    x, y, z = (int(n) for n in [*given, 1, 1][:3])
    if min(x, y, z) < 1 or len(given) > 3:
        raise _bad(f"expected one to three extents of at least 1, got {given}")
    return x, y, z


def _extents(
    known: tuple[int, ...] | None, given: int | Sequence[int] | None, what: str
) -> tuple[int, int, int]:
    if given is None and known is None:
        raise _bad(f"the kernel does not state its {what}; the launch must")
    found = _three(known if given is None else given)  # pyright: ignore[reportArgumentType]
    if known is not None and found != _three(known):
        raise _bad(f"the kernel requires a {what} of {_three(known)}, got {found}")
    return found


def _check_count(kernel: CompiledKernel, args: Sequence[Any]) -> None:
    own = kernel.parameters[:-1] if kernel.sites else kernel.parameters
    if len(args) != len(own):
        listed = ", ".join(parameter.name for parameter in own)
        raise _bad(f"the kernel takes {len(own)} arguments ({listed}), got {len(args)}")


def _device_of(arguments: Arguments) -> int:
    """The GPU of the arrays, if any names it, else 0."""
    named = (v.device for v in arguments.values if isinstance(v, DeviceArray))
    return next((number for number in named if number is not None), 0)


def _check_device(gpu: Gpu, arguments: Arguments, asked: int | None) -> None:
    wanted = _device_of(arguments) if asked is None else asked
    for parameter, value in zip(arguments.parameters, arguments.values, strict=True):
        if isinstance(value, DeviceArray) and value.device not in (None, wanted):
            raise _bad(
                f"the array for '{parameter.name}' is on GPU {value.device}, but the launch is on "
                f"GPU {wanted}, {gpu.name}"
            )


def _prepare(gpu: Gpu, kernel: CompiledKernel, loaded: LoadedKernel, shape: _Shape) -> None:
    """Set the shared memory and cluster attributes of a kernel. Raises ``TileIRError`` for blocks that do not fit."""
    static = 0 if kernel.dynamic_shared_bytes else kernel.shared_bytes
    if shape.shared and static + shape.shared > _STATIC_LIMIT:
        limit = gpu.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
        if static + shape.shared > limit:
            raise _bad(
                f"kernel '{kernel.name}' is to have {static + shape.shared:,} bytes of shared memory, "
                f"and a block of {gpu.name} has at most {limit:,}"
            )
        loaded.set(gpu.driver, "MAX_DYNAMIC_SHARED_SIZE_BYTES", shape.shared, kernel.name)
    x, y, z = shape.cluster
    if x * y * z > _PORTABLE_CLUSTER:
        loaded.set(gpu.driver, "NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1, kernel.name)
    most = loaded.attribute(gpu.driver, "MAX_THREADS_PER_BLOCK")
    if shape.threads > most:
        registers = loaded.attribute(gpu.driver, "NUM_REGS")
        raise _bad(
            f"kernel '{kernel.name}' takes {registers} registers per thread, so a block has at "
            f"most {most} threads, got {shape.threads}",
            "use smaller tiles or fewer warps, or limit the registers (`nvvm.maxnreg`)",
        )


# The launch


def _loaded(gpu: Gpu, kernel: CompiledKernel) -> Any:
    """A context manager for the kernel loaded on the GPU."""
    key = kernel.ptx, kernel.name
    return gpu.modules.using(key, lambda: image_of(kernel, gpu.version), kernel.name)


def image_of(kernel: CompiledKernel, version: int) -> bytes:
    """What a driver loads: machine code by ptxas, else PTX, which the driver assembles.

    ``version`` is the driver's CUDA, 13050 for 13.5. ptxas is used where it is installed, knows the PTX, and is not
    of a younger generation than the driver. Raises ``TileIRError`` as ``tools.assemble``.
    """
    ptxas = tools.ptxas_version()
    if ptxas is not None and CUDA_OF_PTX[kernel.isa] <= ptxas and ptxas // 1000 <= version // 1000:
        return _assembled(kernel.ptx, kernel.arch.name)
    return kernel.ptx.encode() + b"\0"


@lru_cache(maxsize=256)
def _assembled(ptx: str, arch: str) -> bytes:
    return tools.assemble(ptx, arch).cubin


def _come_behind(stream: Stream, others: Sequence[int], after_all: bool) -> None:
    """Make the stream wait for the work on other streams."""
    gpu = stream.gpu
    if after_all:
        gpu.call("cuCtxSynchronize")
    for other in others:
        event = gpu.call("cuEventCreate", 0)
        try:
            gpu.call("cuEventRecord", event, other)
            gpu.call("cuStreamWaitEvent", stream.handle, event, 0)
        finally:
            gpu.release("cuEventDestroy", event)


def _configuration(gpu: Gpu, shape: _Shape, stream: int) -> Any:
    config = gpu.api.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = shape.grid
    config.blockDimX, config.blockDimY, config.blockDimZ = shape.block
    config.sharedMemBytes = shape.shared
    config.hStream = stream
    if shape.cluster != (1, 1, 1):
        attribute = gpu.api.CUlaunchAttribute()
        attribute.id = gpu.api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        value = attribute.value
        value.clusterDim.x, value.clusterDim.y, value.clusterDim.z = shape.cluster
        attribute.value = value
        config.attrs, config.numAttrs = [attribute], 1
    else:
        config.numAttrs = 0
    return config


def _start(
    stack: ExitStack,
    stream: Stream,
    shape: _Shape,
    function: Any,
    arguments: Arguments,
    events: list[Any],
) -> None:
    """Launch; appends the events before and after the kernel to ``events``."""
    gpu, kernel = stream.gpu, stream.kernel
    pointers = arguments.pointers()
    config = _configuration(gpu, shape, stream.handle)
    for _ in range(2):
        events.append(gpu.call("cuEventCreate", 0))
        stack.callback(gpu.release, "cuEventDestroy", events[-1])
    gpu.call("cuEventRecord", events[0], stream.handle)
    address = ctypes.addressof(pointers)
    gpu.call("cuLaunchKernelEx", config, function, address, 0, kernel=kernel)
    gpu.call("cuEventRecord", events[1], stream.handle, kernel=kernel)


def _wait(gpu: Gpu, event: Any, kernel: str, time_limit: float | None) -> None:
    """Wait for an event while Ctrl-C still works. Raises ``TileIRError`` (``time-limit``)."""
    started = time.perf_counter()
    nap = 0.0
    while not gpu.driver.is_done(event, kernel):
        spent = time.perf_counter() - started
        if time_limit is not None and spent > time_limit:
            raise TileIRError.single(
                TIME_LIMIT,
                over_message(
                    time_limit, f"kernel '{kernel}' keeps running, because a GPU cannot be stopped"
                ),
                help="end the process to end the kernel; host arrays are unchanged",
            )
        if spent > _SPIN:
            nap = min(nap + _SPIN, _LONGEST_NAP)
            time.sleep(nap)
