"""What the benchmark of a GPU does with the driver: memory, code, launches, and their times."""

from __future__ import annotations

import ctypes
import statistics
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.diagnostics import TileIRError
from tilewright.dialects.upstream.base.shapes import bit_width
from tilewright.gpu.arguments import Stream, encoded_map
from tilewright.gpu.codes import ASSEMBLER_FAILED
from tilewright.gpu.device_arrays import LEGACY_STREAM, DeviceArray
from tilewright.gpu.driver import Gpu, open_gpu
from tilewright.lowering.nvgpu.tensor_maps import TensorMapPlan
from tilewright.model.elf import KernelFile, read_cubin_file

#: The bytes that are written between two samples, so that none finds its data in the L2, and how often: while
#: the GPU is busy with that (some 200 us), the launch that is timed is asked for, so that the time between its two
#: events is the kernel's, and not that of Python, torch or Triton on the way to it.
FLUSH_BYTES, FLUSHES = 128 << 20, 4
_STATIC_SHARED = 48 << 10
#: How kernels of NVIDIA's tile compiler are launched: the driver knows how many threads they have.
TILE_KERNEL_BLOCK = (1, 1, 1)


@dataclass(frozen=True, slots=True)
class Code:
    """A kernel as machine code, the shared and scratch memory that a launch gives, and the tensor maps
    that it makes. ``block``: the threads that a launch asks for; by default those that the code says.
    ``ptx``: what the driver assembles itself where it does not take the machine code, because it is older."""

    cubin: bytes
    dynamic_shared_bytes: int = 0
    scratch_bytes: int = 0
    maps: tuple[TensorMapPlan, ...] = ()
    block: tuple[int, int, int] | None = None
    ptx: str = ""


class Device:
    """One GPU, for launches of machine code on arrays that stay there. Give back by ``close``."""

    def __init__(self, flush_bytes: int = FLUSH_BYTES) -> None:
        self.gpu: Gpu = open_gpu()
        self.gpu.enter()
        self._stream = Stream(self.gpu, LEGACY_STREAM, "")
        self._held: list[int] = []
        self._flush_bytes = flush_bytes
        self._flush = self.allocate(flush_bytes)

    def allocate(self, size: int) -> int:
        """Memory of the GPU, until ``free_all``."""
        self._held.append(self._stream.allocate(size))
        return self._held[-1]

    def put(self, array: np.ndarray[Any, Any], address: int | None = None) -> int:
        """The address of a copy of an array."""
        held = np.ascontiguousarray(array)
        address = self.allocate(held.nbytes) if address is None else address
        self._stream.send(address, int(held.ctypes.data), held.nbytes)
        self.synchronize()
        return address

    def get(self, address: int, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """What lies at an address, of the shape and type of another array."""
        found = np.empty(like.shape, like.dtype)
        self._stream.fetch(int(found.ctypes.data), address, found.nbytes)
        return found

    def free_all(self) -> None:
        """Give back all memory but what the device keeps for itself."""
        while len(self._held) > 1:
            self._stream.free(self._held.pop())

    def close(self) -> None:
        self.free_all()
        self._stream.free(self._held.pop())
        self.gpu.modules.clear()

    def synchronize(self) -> None:
        self.gpu.call("cuStreamSynchronize", LEGACY_STREAM)

    def launcher(
        self, code: Code, grid: Sequence[int], scalars: Sequence[tuple[int, Any]]
    ) -> Launcher:
        """What launches a kernel: ``scalars`` are its parameters as (bytes, value)."""
        (kernel,) = read_cubin_file(code.cubin).kernels
        given = list(scalars)
        if code.scratch_bytes:
            blocks = grid[0] * grid[1] * grid[2]
            given.append((8, self.allocate(code.scratch_bytes * blocks)))
        values = [value for _, value in scalars]
        given += [(128, self._map(plan, values)) for plan in code.maps]
        sizes = [size for size, _ in given]
        if sizes != [parameter.size for parameter in kernel.parameters]:
            raise RuntimeError(
                f"the kernel takes parameters of {[p.size for p in kernel.parameters]} bytes, and the case "
                f"has {sizes}"
            )
        fields, image = [_packed(*each) for each in given], self._image(code, kernel.name)
        return Launcher(self, code, kernel, image, tuple(grid), fields)  # pyright: ignore[reportArgumentType]

    def _image(self, code: Code, name: str) -> bytes:
        """What the driver loads of a kernel."""
        try:
            with self.gpu.modules.using(code.cubin, lambda: code.cubin, name):
                return code.cubin
        except TileIRError as error:
            if error.diagnostics[0].code != ASSEMBLER_FAILED or not code.ptx:
                raise
            return code.ptx.encode() + b"\0"

    def _map(self, plan: TensorMapPlan, values: Sequence[Any]) -> bytes:
        """A tensor map of an argument, for these values of the arguments."""
        extents, strides = plan.numbers(values)
        bits = bit_width(plan.type.tensor.element_type)
        array = DeviceArray(values[plan.array], extents, strides, bits, "f", None)
        return encoded_map(self.gpu, plan.type, array, f"argument {plan.array}")

    def flush(self) -> None:
        """Drop what the L2 holds, and keep the GPU busy for a while."""
        for _ in range(FLUSHES):
            self.gpu.call("cuMemsetD8Async", self._flush, 0, self._flush_bytes, LEGACY_STREAM)


@dataclass(slots=True)
class Launcher:
    """A launch that can be repeated."""

    device: Device
    code: Code
    kernel: KernelFile
    image: bytes
    grid: tuple[int, int, int]
    fields: list[bytes]

    def run(self, count: int = 1) -> float:
        """Launch so many times, and wait; the seconds of all together, by the GPU's clock."""
        gpu = self.device.gpu
        threads = self.code.block or self.kernel.threads or (128, 1, 1)
        held = [ctypes.create_string_buffer(each, len(each)) for each in self.fields]
        table = (ctypes.c_void_p * max(len(held), 1))(*(ctypes.addressof(h) for h in held))
        config = gpu.api.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = self.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = threads
        config.sharedMemBytes = self.code.dynamic_shared_bytes
        config.hStream = LEGACY_STREAM
        config.numAttrs = 0
        name = self.kernel.name
        with gpu.modules.using(self.image, lambda: self.image, name) as loaded:
            shared = self.code.dynamic_shared_bytes
            if shared + self.kernel.shared_bytes > _STATIC_SHARED and shared:
                loaded.set(gpu.driver, "MAX_DYNAMIC_SHARED_SIZE_BYTES", shared, name)
            start, end = (gpu.call("cuEventCreate", 0) for _ in range(2))
            try:
                gpu.call("cuEventRecord", start, LEGACY_STREAM)
                for _ in range(count):
                    call = "cuLaunchKernelEx", config, loaded.function, ctypes.addressof(table), 0
                    gpu.call(*call, kernel=name)
                gpu.call("cuEventRecord", end, LEGACY_STREAM)
                gpu.call("cuEventSynchronize", end, kernel=name)
                return float(gpu.call("cuEventElapsedTime", start, end)) / 1e3
            finally:
                for event in (start, end):
                    gpu.release("cuEventDestroy", event)


def _packed(size: int, value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, float):
        return struct.pack("<f", value)
    return int(value).to_bytes(size, "little")


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of samples."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def samples(
    device: Device, jobs: Mapping[str, Callable[[], float]], count: int
) -> tuple[dict[str, Times], dict[str, str]]:
    """Samples of jobs, in turn, each with a cold L2; every job gives its seconds. One round goes first.

    A job that fails takes part no longer: why stands in the second dictionary, and the others go on.
    """
    found: dict[str, list[float]] = {name: [] for name in jobs}
    failures: dict[str, str] = {}
    for round_ in range(count + 1):
        for name, job in jobs.items():
            if name in failures:
                continue
            try:
                device.flush()
                seconds = job()
            except Exception as error:  # noqa: BLE001 (whatever a peer raises is its failure)
                failures[name] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
                continue
            if round_:
                found[name].append(seconds)
    times = {n: Times(tuple(held)) for n, held in found.items() if n not in failures}
    return times, failures
