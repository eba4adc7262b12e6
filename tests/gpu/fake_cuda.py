"""A CUDA driver without a GPU: memory of the host stands for that of the device, the simulator for its cores.

``FakeCuda`` has the functions of ``cuda.bindings.driver`` that launches use, with their signatures and what
they return. It refuses what CUDA refuses (a missing context, addresses outside of allocations, grids, blocks
and shared memory beyond the limits, streams and events that there are not), reads the parameters of a kernel
from its cubin or PTX, runs the code of threads that the kernel was made of on the simulator, and answers
every call behind a failed kernel with its error. Addresses of the device are those of buffers of its own, so
that an address of a host array that reaches a kernel is an access to memory that is not allocated.
"""

from __future__ import annotations

import ctypes
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.gpu.support import EXACT
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.dialects.llvm import LLVMPointerType

from tilewright import LaunchOptions
from tilewright.diagnostics import TileIRError
from tilewright.dialects.nvgpu.types import TensorMapDescriptorType
from tilewright.dialects.upstream.base.shapes import bit_width
from tilewright.dialects.upstream.gpu.kernels import FuncOp
from tilewright.gpu.codegen.layout import is_packed
from tilewright.gpu.recording import record_messages
from tilewright.model.elf import read_cubin_file
from tilewright.simulator.launch import Program
from tilewright.simulator.values import element_of

_INVALID, _NO_MEMORY, _NO_CONTEXT, _BAD_IMAGE, _NO_BINARY = 1, 2, 201, 200, 209
_BAD_HANDLE, _NOT_FOUND, _NOT_READY, _TOO_MANY = 400, 500, 600, 701
_ILLEGAL, _ASSERT, _MISALIGNED, _FAILED = 700, 710, 716, 719
_NAMES = {
    _INVALID: "CUDA_ERROR_INVALID_VALUE",
    _NO_MEMORY: "CUDA_ERROR_OUT_OF_MEMORY",
    _BAD_IMAGE: "CUDA_ERROR_INVALID_IMAGE",
    _NO_CONTEXT: "CUDA_ERROR_INVALID_CONTEXT",
    _NO_BINARY: "CUDA_ERROR_NO_BINARY_FOR_GPU",
    _BAD_HANDLE: "CUDA_ERROR_INVALID_HANDLE",
    _NOT_FOUND: "CUDA_ERROR_NOT_FOUND",
    _ILLEGAL: "CUDA_ERROR_ILLEGAL_ADDRESS",
    _TOO_MANY: "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
    _ASSERT: "CUDA_ERROR_ASSERT",
    _MISALIGNED: "CUDA_ERROR_MISALIGNED_ADDRESS",
    _FAILED: "CUDA_ERROR_LAUNCH_FAILED",
}
#: What a finding of the simulator would be on a GPU.
_FAULTS = {
    "sim-out-of-bounds": _ILLEGAL,
    "sim-misaligned": _MISALIGNED,
    "sim-assertion": _ASSERT,
}
_STATIC_SHARED, _RESERVED = 48 << 10, 1 << 10
_OPT_IN = {80: 163 << 10, 90: 227 << 10, 100: 227 << 10, 120: 99 << 10}


class _Attributes(IntEnum):
    """Properties of the device, by the driver's numbers."""

    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1
    CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16
    CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
    CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115


class _FunctionAttributes(IntEnum):
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0
    CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1
    CU_FUNC_ATTRIBUTE_NUM_REGS = 4
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
    CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14


class _LaunchAttributes(IntEnum):
    CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4


class _AllocationTypes(IntEnum):
    CU_MEM_ALLOCATION_TYPE_PINNED = 1


class _Handles(IntEnum):
    CU_MEM_HANDLE_TYPE_NONE = 0


class _Locations(IntEnum):
    CU_MEM_LOCATION_TYPE_DEVICE = 1


class _PoolAttributes(IntEnum):
    CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4


@dataclass(slots=True)
class _Dim:
    x: int = 1
    y: int = 1
    z: int = 1


@dataclass(slots=True)
class _Value:
    clusterDim: _Dim = field(default_factory=_Dim)


@dataclass(slots=True)
class _LaunchAttribute:
    id: Any = None
    value: _Value = field(default_factory=_Value)


@dataclass(slots=True)
class _Config:
    gridDimX: int = 0
    gridDimY: int = 0
    gridDimZ: int = 0
    blockDimX: int = 0
    blockDimY: int = 0
    blockDimZ: int = 0
    sharedMemBytes: int = 0
    hStream: int = 0
    attrs: list[_LaunchAttribute] = field(default_factory=list)
    numAttrs: int = 0


@dataclass(slots=True)
class _Location:
    type: Any = None
    id: int = -1


@dataclass(slots=True)
class _PoolProps:
    allocType: Any = None
    handleTypes: Any = None
    location: _Location = field(default_factory=_Location)
    maxSize: int = 0


@dataclass(slots=True, eq=False)
class _Map:
    """A tensor map: what the 128 bytes stand for."""

    opaque: list[int]
    address: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]


@dataclass(slots=True, eq=False)
class _Function:
    """A kernel that is loaded; ``sizes`` are those of its parameters."""

    name: str
    source: tuple[ModuleOp, str]
    sizes: tuple[int, ...]
    block: tuple[int, int, int] | None
    registers: int
    shared: int
    attributes: dict[int, int] = field(default_factory=dict)
    launches: int = 0


@dataclass(slots=True, eq=False)
class _Module:
    functions: dict[str, _Function]
    loaded: bool = True


@dataclass(slots=True, eq=False)
class _Event:
    time: float | None = None
    questions: int = 0
    alive: bool = True


def _whole(function: Any) -> Any:
    """A function of the driver: counted, with the checks that all of them make."""
    name = function.__name__

    def call(self: FakeCuda, *args: Any) -> tuple[Any, ...]:
        self.counts[name] += 1
        self.calls.append((name, args))
        if (planned := self.failures.get(name)) and planned[0] == 0:
            return _failed(name, planned[1])
        if planned:
            self.failures[name] = (planned[0] - 1, planned[1])
        if getattr(self._here, "context", None) is None and name not in _FREE:
            return _failed(name, _NO_CONTEXT)
        if self.lost and name not in _FREE:
            return _failed(name, self.lost)
        with self._lock:
            return function(self, *args)

    return call


def _failed(name: str, status: int) -> tuple[Any, ...]:
    """What a function returns that fails: None for a result, where it has one."""
    return (status, None) if re.search("Create|Get|Alloc|Encode|Load|Elapsed", name) else (status,)


_FREE = frozenset(
    {
        *("cuInit", "cuDriverGetVersion", "cuDeviceGet", "cuDevicePrimaryCtxRetain"),
        *("cuCtxSetCurrent", "cuDeviceGetAttribute", "cuDeviceGetName"),
    }
)


class FakeCuda:
    """One GPU of a compute capability (times ten), with so many bytes of memory.

    ``counts`` has how often each function was called, ``calls`` all calls. ``lost`` is the error of a kernel
    that failed. ``failures`` plans errors: by function, how many calls succeed and the status of the next ones.
    ``unfinished`` questions for an event are answered with "not ready". ``on_launch``: the error that every
    kernel ends with.
    """

    CUdevice_attribute = _Attributes
    CUfunction_attribute = _FunctionAttributes
    CUlaunchAttributeID = _LaunchAttributes
    CUmemAllocationType = _AllocationTypes
    CUmemAllocationHandleType = _Handles
    CUmemLocationType = _Locations
    CUmemPool_attribute = _PoolAttributes
    CUlaunchConfig = _Config
    CUlaunchAttribute = _LaunchAttribute
    CUmemPoolProps = _PoolProps
    CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP = 1, 2
    cuuint32_t = cuuint64_t = int
    #: The code of threads by the PTX that was made of it, and PTX by the cubin, of all fakes: what is compiled
    #: may be kept longer than one of them.
    sources: ClassVar[dict[str, tuple[ModuleOp, str]]] = {}
    ptx_of: ClassVar[dict[bytes, str]] = {}
    CUtensorMapDataType = CUtensorMapInterleave = CUtensorMapSwizzle = int
    CUtensorMapL2promotion = CUtensorMapFloatOOBfill = int

    def __init__(
        self, capability: int = 90, version: int = 13050, memory: int = 1 << 30, pools: bool = True
    ) -> None:
        self.capability, self.version, self.memory, self.pools = capability, version, memory, pools
        self.counts: Counter[str] = Counter()
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.failures: dict[str, tuple[int, int]] = {}
        self.lost = 0
        self.fault: TileIRError | None = None
        self.unfinished = 0
        self.on_query: Any = None
        self.on_launch = 0
        self.seed = 0
        #: Memory by its address; that which the host has, too.
        self.allocations: dict[int, Any] = {}
        self.pinned: dict[int, Any] = {}
        self.modules: list[_Module] = []
        self.streams = {0, 1, 2}
        self.maps: list[_Map] = []
        self._programs: dict[int, Program] = {}
        self._here = threading.local()
        # One call at a time, kernels too: neither the memory here nor the simulator is for several threads.
        self._lock = threading.RLock()

    # For tests.

    @property
    def used(self) -> int:
        """The bytes that are allocated."""
        return sum(len(memory) for memory in self.allocations.values())

    @property
    def loaded(self) -> int:
        """The modules that are loaded."""
        return sum(module.loaded for module in self.modules)

    def new_stream(self) -> int:
        self.streams.add(1000 + len(self.streams))
        return max(self.streams)

    def array(self, values: Any) -> tuple[int, np.ndarray[Any, Any]]:
        """An array on the device: its address, and a view by which the test sees it."""
        held = np.ascontiguousarray(values)
        self._here.context = "test"
        _, address = self.cuMemAlloc(held.nbytes)
        memory = (ctypes.c_uint8 * held.nbytes).from_address(address)
        view = np.frombuffer(memory, held.dtype).reshape(held.shape)
        view[...] = held
        self._here.context = None
        self.counts.clear()
        return address, view

    def _holds(self, address: int, size: int) -> bool:
        """Whether bytes lie in one allocation of the device."""
        return any(
            start <= address and address + size <= start + len(memory)
            for start, memory in self.allocations.items()
        )

    # The device.

    @_whole
    def cuInit(self, flags: int) -> tuple[Any, ...]:
        return (0,)

    @_whole
    def cuDriverGetVersion(self) -> tuple[Any, ...]:
        return (0, self.version)

    @_whole
    def cuDeviceGet(self, ordinal: int) -> tuple[Any, ...]:
        return (0, 0) if ordinal == 0 else (101, None)

    @_whole
    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[Any, ...]:
        return (0, "primary")

    @_whole
    def cuCtxSetCurrent(self, context: Any) -> tuple[Any, ...]:
        self._here.context = context
        return (0,)

    @_whole
    def cuCtxSynchronize(self) -> tuple[Any, ...]:
        return (0,)

    @_whole
    def cuDeviceGetName(self, size: int, device: int) -> tuple[Any, ...]:
        return (0, b"Fake GPU\0" + bytes(size - 9))

    @_whole
    def cuDeviceGetAttribute(self, kind: _Attributes, device: int) -> tuple[Any, ...]:
        values = {
            _Attributes.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: 1024,
            _Attributes.CU_DEVICE_ATTRIBUTE_CLOCK_RATE: 1_755_000,
            _Attributes.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: 4,
            _Attributes.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: 50 << 20,
            _Attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: self.capability // 10,
            _Attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: self.capability % 10,
            _Attributes.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: self.opt_in,
            _Attributes.CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: int(self.pools),
        }
        return (0, values[kind])

    @property
    def opt_in(self) -> int:
        return _OPT_IN[self.capability]

    def cuGetErrorName(self, status: int) -> tuple[Any, ...]:
        return (0, _NAMES.get(int(status), f"CUDA_ERROR_{int(status)}").encode())

    def cuGetErrorString(self, status: int) -> tuple[Any, ...]:
        return (0, b"as the driver describes it")

    # Memory.

    def _allocate(self, size: int) -> tuple[Any, ...]:
        if size <= 0:
            return (_INVALID, None)
        if self.used + size > self.memory:
            return (_NO_MEMORY, None)
        # With a margin between, so that what runs over an end is outside.
        room = (ctypes.c_uint8 * (size + 1024))()
        start = ctypes.addressof(room)
        address = start + -start % 256
        memory = (ctypes.c_uint8 * size).from_buffer(room, address - start)
        ctypes.memset(address, 0xFF, size)
        self.allocations[address] = memory
        return (0, address)

    @_whole
    def cuMemAlloc(self, size: int) -> tuple[Any, ...]:
        return self._allocate(size)

    @_whole
    def cuMemFree(self, address: int) -> tuple[Any, ...]:
        return (0,) if self.allocations.pop(address, None) is not None else (_INVALID,)

    @_whole
    def cuMemPoolCreate(self, props: _PoolProps) -> tuple[Any, ...]:
        right = props.allocType == 1 and props.location.type == 1 and props.location.id == 0
        return (0, "pool") if right and self.pools else (_INVALID, None)

    @_whole
    def cuMemPoolSetAttribute(self, pool: str, kind: Any, value: int) -> tuple[Any, ...]:
        return (0,) if pool == "pool" and kind == 4 and value >= 0 else (_INVALID,)

    @_whole
    def cuMemAllocFromPoolAsync(self, size: int, pool: str, stream: int) -> tuple[Any, ...]:
        if pool != "pool" or stream not in self.streams:
            return (_BAD_HANDLE, None)
        return self._allocate(size)

    @_whole
    def cuMemFreeAsync(self, address: int, stream: int) -> tuple[Any, ...]:
        if stream not in self.streams or self.allocations.pop(address, None) is None:
            return (_INVALID,)
        return (0,)

    @_whole
    def cuMemHostAlloc(self, size: int, flags: int) -> tuple[Any, ...]:
        memory = (ctypes.c_uint8 * size)()
        self.pinned[ctypes.addressof(memory)] = memory
        return (0, ctypes.addressof(memory)) if flags == 3 else (_INVALID, None)

    @_whole
    def cuMemHostGetDevicePointer(self, address: int, flags: int) -> tuple[Any, ...]:
        return (0, address) if address in self.pinned and not flags else (_INVALID, None)

    @_whole
    def cuMemcpyHtoDAsync(self, target: int, source: int, size: int, stream: int) -> Any:
        if stream not in self.streams or not self._holds(target, size):
            return (_INVALID,)
        assert not self._holds(source, 1), "a source on the device is given as one of the host"
        ctypes.memmove(target, source, size)
        return (0,)

    @_whole
    def cuMemcpyDtoHAsync(self, target: int, source: int, size: int, stream: int) -> Any:
        if stream not in self.streams or not self._holds(source, size):
            return (_INVALID,)
        assert not self._holds(target, 1), "a target on the device is given as one of the host"
        ctypes.memmove(target, source, size)
        return (0,)

    @_whole
    def cuMemsetD8Async(self, target: int, value: int, size: int, stream: int) -> Any:
        if stream not in self.streams or not self._holds(target, size) or not 0 <= value < 256:
            return (_INVALID,)
        ctypes.memset(target, value, size)
        return (0,)

    # Streams and events.

    @_whole
    def cuStreamSynchronize(self, stream: int) -> tuple[Any, ...]:
        return (0,) if stream in self.streams else (_BAD_HANDLE,)

    @_whole
    def cuStreamWaitEvent(self, stream: int, event: _Event, flags: int) -> tuple[Any, ...]:
        right = stream in self.streams and event.alive and event.time is not None and not flags
        return (0,) if right else (_BAD_HANDLE,)

    @_whole
    def cuEventCreate(self, flags: int) -> tuple[Any, ...]:
        return (0, _Event())

    @_whole
    def cuEventDestroy(self, event: _Event) -> tuple[Any, ...]:
        alive, event.alive = event.alive, False
        return (0,) if alive else (_BAD_HANDLE,)

    @_whole
    def cuEventRecord(self, event: _Event, stream: int) -> tuple[Any, ...]:
        if not event.alive or stream not in self.streams:
            return (_BAD_HANDLE,)
        event.time = time.perf_counter()
        return (0,)

    @_whole
    def cuEventQuery(self, event: _Event) -> tuple[Any, ...]:
        if not event.alive or event.time is None:
            return (_BAD_HANDLE,)
        if self.on_query is not None:
            self.on_query()
        event.questions += 1
        return (0,) if event.questions > self.unfinished else (_NOT_READY,)

    @_whole
    def cuEventSynchronize(self, event: _Event) -> tuple[Any, ...]:
        return (0,) if event.alive and event.time is not None else (_BAD_HANDLE,)

    @_whole
    def cuEventElapsedTime(self, start: _Event, end: _Event) -> tuple[Any, ...]:
        if not (start.alive and end.alive) or start.time is None or end.time is None:
            return (_BAD_HANDLE, None)
        return (0, 1000 * (end.time - start.time))

    # Code.

    @_whole
    def cuModuleLoadData(self, image: bytes) -> tuple[Any, ...]:
        functions = self._from_cubin(image) if image[:4] == b"\x7fELF" else self._from_ptx(image)
        if isinstance(functions, int):
            return (functions, None)
        self.modules.append(_Module({f.name: f for f in functions}))
        return (0, self.modules[-1])

    def _from_cubin(self, image: bytes) -> list[_Function] | int:
        file = read_cubin_file(image)
        if file.compute != self.capability:
            return _NO_BINARY
        ptx = self.ptx_of.get(image)
        if ptx is None:  # another machine's, as far as the driver knows
            return _BAD_IMAGE
        source = self.sources[ptx]
        return [
            _Function(
                k.name,
                source,
                tuple(p.size for p in k.parameters),
                k.threads if k.exact_threads else None,
                k.registers,
                k.shared_bytes,
            )
            for k in file.kernels
        ]

    def _from_ptx(self, image: bytes) -> list[_Function] | int:
        if image[-1:] != b"\0":
            return _BAD_IMAGE
        text = image[:-1].decode()
        target = re.search(r"\.target sm_(\d+)(a?)", text)
        if target is None or int(target[1]) > self.capability:
            return 218
        entry = re.search(r"\.entry ([\w$]+)\((.*?)\)\n(.*?)\{", text, re.S)
        assert entry is not None
        sizes = [_size(line) for line in entry[2].splitlines() if ".param" in line]
        block = re.search(r"\.reqntid (\d+), (\d+), (\d+)", entry[3])
        shared = sum(int(n) for n in re.findall(r"\.shared .*?\.b8 [\w$]+\[(\d+)\]", text))
        known = tuple(int(n) for n in block.groups()) if block else None
        return [_Function(entry[1], self.sources[text], tuple(sizes), known, 32, shared)]  # pyright: ignore[reportArgumentType]

    @_whole
    def cuModuleUnload(self, module: _Module) -> tuple[Any, ...]:
        loaded, module.loaded = module.loaded, False
        return (0,) if loaded else (_BAD_HANDLE,)

    @_whole
    def cuModuleGetFunction(self, module: _Module, name: bytes) -> tuple[Any, ...]:
        found = module.functions.get(name.decode()) if module.loaded else None
        return (0, found) if found is not None else (_NOT_FOUND, None)

    @_whole
    def cuFuncSetAttribute(self, function: _Function, kind: int, value: int) -> tuple[Any, ...]:
        if kind == 8 and value + function.shared > self.opt_in:
            return (_INVALID,)
        function.attributes[int(kind)] = value
        return (0,)

    @_whole
    def cuFuncGetAttribute(self, kind: int, function: _Function) -> tuple[Any, ...]:
        return (0, {0: self._most_threads(function), 4: function.registers}[int(kind)])

    def _most_threads(self, function: _Function) -> int:
        if function.block is not None:
            x, y, z = function.block
            return x * y * z
        return min(1024, (1 << 16) // max(function.registers, 1) // 32 * 32)

    # Tensor maps.

    @_whole
    def cuTensorMapEncodeTiled(
        self,
        element: int,
        rank: int,
        address: int,
        extents: list[int],
        strides: list[int],
        box: list[int],
        steps: list[int],
        interleave: int,
        swizzle: int,
        promotion: int,
        oob: int,
    ) -> tuple[Any, ...]:
        size = {0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 8, 9: 2, 10: 4, 11: 4}[element]
        row = box[0] * size
        limit = {0: row, 1: 32, 2: 64, 3: 128}[swizzle]
        lengths = {len(extents), len(strides) + 1, len(box), len(steps), rank}
        if (
            len(lengths) > 1
            or not 1 <= rank <= 5
            or address % 16
            or any(s % 16 or not 0 < s < 1 << 40 for s in strides)
            or any(not 1 <= n <= 256 for n in box)
            or any(n < 1 for n in extents)
            or row % 16
            or row > limit
            or any(step != 1 for step in steps)
            or interleave
        ):
            return (_INVALID, None)
        found = _Map(
            [0x7151 + len(self.maps), *range(15)],
            address,
            tuple(extents),
            (size, *strides),
            tuple(box),
        )
        self.maps.append(found)
        return (0, found)

    # Launches.

    @_whole
    def cuLaunchKernelEx(
        self, config: _Config, function: _Function, parameters: int, extra: int
    ) -> tuple[Any, ...]:
        grid = config.gridDimX, config.gridDimY, config.gridDimZ
        block = config.blockDimX, config.blockDimY, config.blockDimZ
        if config.hStream not in self.streams:
            return (_BAD_HANDLE,)
        if any(not 1 <= n <= most for n, most in zip(grid, (2**31 - 1, 65535, 65535), strict=True)):
            return (_INVALID,)
        threads = block[0] * block[1] * block[2]
        if not 1 <= threads <= 1024 or (function.block or block) != block:
            return (_INVALID,)
        if threads > self._most_threads(function):
            return (_TOO_MANY,)
        allowed = max(function.attributes.get(8, 0), _STATIC_SHARED - function.shared)
        if config.sharedMemBytes > allowed:
            return (_INVALID,)
        cluster = (1, 1, 1)
        assert len(config.attrs) == config.numAttrs
        for attribute in config.attrs:
            assert attribute.id == _LaunchAttributes.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            dim = attribute.value.clusterDim
            cluster = dim.x, dim.y, dim.z
        blocks = cluster[0] * cluster[1] * cluster[2]
        most = 16 if function.attributes.get(14) else 8
        if blocks > most or any(g % c for g, c in zip(grid, cluster, strict=True)):
            return (_INVALID,)
        if blocks > 1 and self.capability < 90:
            return (_INVALID,)
        function.launches += 1
        if self.on_launch:
            self.lost = self.on_launch
            return (0,)
        self._run(function, grid, block, cluster, config.sharedMemBytes, parameters)
        return (0,)

    def _run(
        self,
        function: _Function,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        cluster: tuple[int, int, int],
        shared: int,
        parameters: int,
    ) -> None:
        module, symbol = function.source
        program = self._programs.setdefault(
            id(module), Program(module, f"sm_{self.capability}{'a' * (self.capability >= 90)}")
        )
        op = program.kernel(symbol)
        table = (ctypes.c_void_p * len(function.sizes)).from_address(parameters)
        held = [
            ctypes.string_at(address, size)  # pyright: ignore[reportArgumentType]
            for address, size in zip(table, function.sizes, strict=True)
        ]
        memory = [np.frombuffer(each, np.uint8) for each in self.allocations.values()]
        memory += [np.frombuffer(each, np.uint8) for each in self.pinned.values()]
        # What a kernel with more than 48 KiB has of its own comes from the launch, too.
        own = shared if function.shared or not _own_shared(op) else max(shared - _own_shared(op), 0)
        options = LaunchOptions(
            block=block, cluster=cluster, dynamic_shared_bytes=own, seed=self.seed
        )
        try:
            args = self._arguments(op, held)
            program.simulate(op, grid, args, options, block=block, memory=memory)
        except TileIRError as error:
            self.lost = _FAULTS.get(error.diagnostics[0].code, _FAILED)
            self.fault = error

    def _arguments(self, op: FuncOp, held: list[bytes]) -> list[Any]:
        found: list[Any] = []
        rest = iter(held)
        for argument in op.arguments:
            ty = argument.type
            if isinstance(ty, TensorMapDescriptorType):
                found.append(self._mapped(next(rest), ty))
            elif isinstance(ty, MemRefType):
                rank = len(ty.get_shape())
                numbers = [int.from_bytes(next(rest), "little", signed=True) for _ in range(3)]
                sizes = [int.from_bytes(next(rest), "little", signed=True) for _ in range(rank)]
                steps = [int.from_bytes(next(rest), "little", signed=True) for _ in range(rank)]
                found.append(self._memref(ty, numbers, sizes, steps))
            elif isinstance(ty, LLVMPointerType):
                found.append(int.from_bytes(next(rest), "little"))
            else:
                found.append(_number(ty, next(rest)))
        assert next(rest, None) is None, "the kernel has more parameters than its arguments are"
        return found

    def _memref(self, ty: Any, numbers: list[int], sizes: list[int], steps: list[int]) -> Any:
        allocated, aligned, offset = numbers
        assert allocated == aligned and offset == 0
        element = element_of(ty.element_type)
        dtype = np.dtype(np.uint8) if element.bits == 1 else np.dtype(element.dtype)
        if is_packed(ty.element_type):
            count = 8 // bit_width(ty.element_type)
            sizes = [*sizes[:-1], sizes[-1] // count]
            steps = [*(step // count for step in steps[:-1]), steps[-1]]
            dtype = np.dtype(np.uint8)
        if 0 in sizes:
            return np.empty(sizes, dtype)
        reach = [(n - 1) * s * dtype.itemsize for n, s in zip(sizes, steps, strict=True)]
        size = sum(reach) + dtype.itemsize
        if not self._holds(aligned, size):
            raise TileIRError.single("sim-out-of-bounds", "a memref lies outside of memory")
        memory = (ctypes.c_uint8 * size).from_address(aligned)
        return np.ndarray(sizes, dtype, memory, 0, [s * dtype.itemsize for s in steps])

    def _mapped(self, data: bytes, ty: TensorMapDescriptorType) -> Any:
        assert len(data) == 128
        found = self.maps[int.from_bytes(data[:8], "little") - 0x7151]
        assert found.box == tuple(reversed(ty.tensor.get_shape()))
        dtype = np.dtype(element_of(ty.tensor).dtype)
        shape, strides = found.extents[::-1], found.strides[::-1]
        size = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + dtype.itemsize
        if not self._holds(found.address, size):
            raise TileIRError.single("sim-out-of-bounds", "a tensor map leads outside of memory")
        memory = (ctypes.c_uint8 * size).from_address(found.address)
        return np.ndarray(shape, dtype, memory, 0, strides)


def _own_shared(op: FuncOp) -> int:
    return sum(
        int(np.prod(a.type.get_shape())) * max(bit_width(a.type.element_type), 8) // 8  # pyright: ignore
        for a in op.workgroup
    )


def _number(ty: Any, data: bytes) -> Any:
    element = element_of(ty)
    if element.is_float:
        return float(np.frombuffer(data, element.dtype)[0])
    if element.bits == 1:
        return bool(data[0])
    return int.from_bytes(data, "little", signed=True)


def _size(line: str) -> int:
    """The bytes of a parameter of PTX."""
    if (array := re.search(r"\.b8 [\w$]+\[(\d+)\]", line)) is not None:
        return int(array[1])
    word = re.search(r"\.param \.[a-z](\d+)", line)
    assert word is not None, line
    return int(word[1]) // 8


@contextmanager
def installed(fake: FakeCuda) -> Iterator[FakeCuda]:
    """Inside, the machine ``cuda`` is the fake."""
    from tilewright.gpu import compile as compiling
    from tilewright.gpu import driver, launch, tiles, tools

    def compile_kernel(
        module: ModuleOp,
        arch: str,
        entry: str | None = None,
        options: compiling.CompileOptions = EXACT,
    ) -> compiling.CompiledKernel:
        made = plain_compile(module, arch, entry, options)
        op = compiling._kernel(module, entry)  # pyright: ignore[reportPrivateUsage]
        if options.record:
            recorded = record_messages(module, op)
            module, op = recorded.module, recorded.kernel
        fake.sources[made.ptx] = module, op.symbol
        return made

    def assemble(ptx: str, arch: str) -> tools.Assembled:
        made = plain_assemble(ptx, arch)
        fake.ptx_of[made.cubin] = ptx
        return made

    plain_compile, plain_assemble = compiling.compile_kernel, tools.assemble
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "driver_api", lambda: fake)
        for module in (compiling, tiles):
            patch.setattr(module, "compile_kernel", compile_kernel)
        for module in (tools, compiling):
            patch.setattr(module, "assemble", assemble)
        _forget(driver, launch)
        try:
            yield fake
        finally:
            _forget(driver, launch)


def _forget(driver: Any, launch: Any) -> None:
    driver.forget_gpus()
    launch._assembled.cache_clear()
