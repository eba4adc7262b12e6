"""Launches on a GPU: arguments in the order of the PTX, tensor maps by the driver, the kernel's time."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import AnyFloat, MemRefType
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import Attribute

from tilewright.diagnostics import TileIRError
from tilewright.diagnostics.tracebacks import hides_frames
from tilewright.dialects.nvgpu.shapes import bit_width
from tilewright.dialects.nvgpu.types import TensorMapDescriptorType
from tilewright.gpu.abi import Parameter
from tilewright.gpu.codegen import layout
from tilewright.gpu.codegen.ir import floating
from tilewright.gpu.codes import LAUNCH
from tilewright.gpu.compile import CompiledKernel
from tilewright.gpu.device_arrays import DeviceArray, dense_strides, device_array
from tilewright.gpu.driver import Gpu, open_gpu
from tilewright.gpu.tensor_maps import plan_map
from tilewright.launching.result import RunResult

__tracebackhide__ = hides_frames

_STATIC_LIMIT = 48 << 10
_MAX_GRID_YZ = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchResult(RunResult):
    """``text`` is empty: what kernels print, the driver writes. ``milliseconds`` is what the kernel took, by the GPU's own clock."""

    device: str
    milliseconds: float


@dataclass(slots=True)
class _Arguments:
    """What a launch passes: the bytes of each parameter, and what must live until it has ended."""

    fields: list[Any] = field(default_factory=list)
    kept: list[object] = field(default_factory=list)
    #: Host arrays: each with its dense copy and the memory of the GPU that stands for it.
    host: list[tuple[np.ndarray, np.ndarray, int]] = field(default_factory=list)

    def add(self, data: bytes) -> None:
        self.fields.append(ctypes.create_string_buffer(data, len(data)))

    def pointers(self) -> Any:
        """The array of pointers that the driver takes."""
        kinds = ctypes.c_void_p * max(len(self.fields), 1)
        return kinds(*(ctypes.addressof(each) for each in self.fields))


def launch(
    kernel: CompiledKernel,
    grid: int | Sequence[int],
    args: Sequence[Any],
    *,
    block: int | Sequence[int] | None = None,
    cluster: int | Sequence[int] | None = None,
    dynamic_shared_bytes: int = 0,
    device: int = 0,
) -> LaunchResult:
    """Run a kernel on a GPU, and wait for it.

    ``args``: an array for each memref and each tensor map, an array or an address of the GPU for each
    pointer, a number for each other parameter. Arrays
    are of torch, CuPy or whatever speaks DLPack, on the GPU; NumPy's are copied there and back.
    ``block`` and ``cluster`` may be left out where the kernel says them. ``dynamic_shared_bytes`` is
    for `gpu.dynamic_shared_memory`.

    Raises TileIRError where there is no GPU that can run it, where an argument does not fit, and where
    the kernel fails.
    """
    extents = _extents(kernel.block, block, "block")
    blocks = _three(grid)
    grouped = _three(cluster or kernel.cluster or 1)
    _check_count(kernel, args)
    if any(n % c for n, c in zip(blocks, grouped, strict=True)):
        raise _bad(f"a grid of {blocks} blocks is not made of clusters of {grouped}")
    if max(blocks[1:]) > _MAX_GRID_YZ:
        raise TileIRError.single(
            LAUNCH,
            f"a grid has at most {_MAX_GRID_YZ:,} blocks in y and in z, got {blocks}",
            help="put the largest extent of the grid first: x takes up to 2,147,483,647",
        )
    gpu = open_gpu(device)
    gpu.check(kernel.arch, kernel.isa)
    gpu.call("cuCtxSetCurrent", gpu.context)
    module = gpu.call("cuModuleLoadData", kernel.ptx.encode() + b"\0")
    try:
        function = gpu.call("cuModuleGetFunction", module, kernel.name.encode())
        shared = kernel.dynamic_shared_bytes + dynamic_shared_bytes
        if shared + kernel.shared_bytes > _STATIC_LIMIT and shared:
            kind = gpu.api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            gpu.call("cuFuncSetAttribute", function, kind, shared)
        with _bound(gpu, kernel.parameters, args) as arguments:
            config = _configuration(gpu, blocks, extents, grouped, shared)
            milliseconds = _timed(gpu, config, function, arguments)
    finally:
        gpu.release("cuModuleUnload", module)
    outputs = tuple(arg for arg in args if isinstance(arg, np.ndarray))
    return LaunchResult(outputs=outputs, device=gpu.name, milliseconds=milliseconds)


def _bad(message: str) -> TileIRError:
    return TileIRError.single(LAUNCH, message)


def _three(extents: int | Sequence[int]) -> tuple[int, int, int]:
    given = (extents,) if isinstance(extents, int) else tuple(extents)
    x, y, z = [*given, 1, 1][:3]
    if min(x, y, z) < 1 or len(given) > 3:
        raise _bad(f"expected one to three extents of at least 1, got {given}")
    return x, y, z


def _extents(
    known: tuple[int, ...] | None, given: int | Sequence[int] | None, what: str
) -> tuple[int, int, int]:
    if given is None and known is None:
        raise _bad(f"the kernel does not say its {what}: the launch must")
    found = _three(known if given is None else given)  # pyright: ignore[reportArgumentType]
    if known is not None and found != _three(known):
        raise _bad(f"the kernel is for a {what} of {_three(known)}, got {found}")
    return found


def _check_count(kernel: CompiledKernel, args: Sequence[Any]) -> None:
    if len(args) != len(kernel.parameters):
        listed = ", ".join(parameter.name for parameter in kernel.parameters)
        raise _bad(
            f"the kernel takes {len(kernel.parameters)} arguments ({listed}), got {len(args)}"
        )


# Arguments


@contextmanager
def _bound(gpu: Gpu, parameters: Sequence[Parameter], args: Sequence[Any]) -> Iterator[_Arguments]:
    """The arguments; host arrays are copied to the GPU, and back where the block ends well."""
    arguments = _Arguments()
    try:
        for parameter, arg in zip(parameters, args, strict=True):
            _bind(gpu, parameter, arg, arguments)
        yield arguments
        for array, dense, address in arguments.host:
            if array.flags.writeable:
                gpu.call("cuMemcpyDtoH", dense.ctypes.data, address, dense.nbytes)
                if dense is not array:
                    array[...] = dense
    finally:
        for _, _, address in arguments.host:
            gpu.release("cuMemFree", address)


def _bind(gpu: Gpu, parameter: Parameter, arg: Any, arguments: _Arguments) -> None:
    ty = parameter.type
    if isinstance(ty, TensorMapDescriptorType):
        array = _array(gpu, parameter, arg, arguments)
        arguments.add(_encoded(gpu, ty, array, parameter.name))
    elif isinstance(ty, MemRefType):
        array = _unpacked(ty, _array(gpu, parameter, arg, arguments))
        _check_memref(ty, array, parameter.name)
        for number in (array.address, array.address, 0, *array.shape, *array.strides):
            arguments.add(struct.pack("<q", number))
    elif isinstance(ty, LLVMPointerType) and not isinstance(arg, int | np.integer):
        arguments.add(struct.pack("<q", _array(gpu, parameter, arg, arguments).address))
    else:
        arguments.add(pack_number(ty, arg, parameter.name))


def _array(gpu: Gpu, parameter: Parameter, arg: Any, arguments: _Arguments) -> DeviceArray:
    if not isinstance(arg, np.ndarray):
        array = device_array(arg, parameter.name)
        arguments.kept.append(array)
        return array
    dense = arg if arg.flags.c_contiguous else np.ascontiguousarray(arg)
    address = int(gpu.call("cuMemAlloc", max(dense.nbytes, 1)))
    arguments.host.append((arg, dense, address))
    gpu.call("cuMemcpyHtoD", address, dense.ctypes.data, dense.nbytes)
    kind = dense.dtype.kind if dense.dtype.kind in "iufb" else "f"
    shape = tuple(dense.shape)
    return DeviceArray(address, shape, dense_strides(shape), 8 * dense.itemsize, kind, dense)


def _unpacked(ty: MemRefType, array: DeviceArray) -> DeviceArray:
    """An array of bytes that several elements share, with extents and strides in elements."""
    if not layout.is_packed(ty.element_type) or not array.shape:
        return array
    count = 8 // bit_width(ty.element_type)
    *outer, inner = array.shape
    strides = (*(count * stride for stride in array.strides[:-1]), array.strides[-1])
    return replace(array, shape=(*outer, count * inner), strides=strides)


def _check_memref(ty: MemRefType, array: DeviceArray, name: str) -> None:
    """Raise a TileIRError where an array is not what the type of a memref says."""
    found = layout.memref_layout(ty)
    assert found is not None
    size = layout.element_bytes(found.element)
    is_float = isinstance(found.element, AnyFloat)
    if len(array.shape) != len(found.sizes):
        raise _bad(f"'{name}' takes an array of rank {len(found.sizes)}, got {array.shape}")
    if array.bits != 8 * size or (is_float and size > 1 and array.kind != "f"):
        raise _bad(f"'{name}' takes elements of {found.element}, got {array.kind}{array.bits}")
    for what, known, given in (
        ("extent", found.sizes, array.shape),
        ("stride", found.strides, array.strides),
    ):
        for axis, (wanted, got) in enumerate(zip(known, given, strict=True)):
            if wanted not in (None, got) and not (what == "stride" and array.shape[axis] <= 1):
                raise _bad(f"'{name}' takes an array of {what} {wanted} in axis {axis}, got {got}")
    if array.address % size:
        raise _bad(f"the array for '{name}' is not aligned to {size} bytes")


def pack_number(ty: Attribute, arg: Any, name: str) -> bytes:
    """The bytes of a number of a type; a TileIRError for what is no such number."""
    size = layout.element_bytes(ty)
    if isinstance(ty, AnyFloat):
        spelled = layout.scalar(ty)
        if spelled not in ("half", "bfloat", "float", "double") or not isinstance(
            arg, int | float | np.generic
        ):
            raise _bad(f"'{name}' takes a number of {ty}, got {arg!r:.40}")
        if spelled in ("float", "double"):
            return np.array(arg, f"<f{size}").tobytes()
        # The digits behind 0xH and 0xR are the bits.
        return int(floating(spelled, float(arg)).ref[3:], 16).to_bytes(2, "little")
    if isinstance(arg, np.generic):
        arg = arg.item()
    bits = bit_width(ty) or 64
    if not isinstance(arg, int) or not -(1 << (bits - 1)) <= arg < 1 << bits:
        raise _bad(f"'{name}' takes an integer of {bits} bits, got {arg!r:.40}")
    return (arg & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def _encoded(gpu: Gpu, ty: TensorMapDescriptorType, array: DeviceArray, name: str) -> bytes:
    """The 128 bytes of a tensor map, which the driver makes."""
    plan, api = plan_map(ty, array, name), gpu.api
    rank = len(plan.box)
    made = gpu.call(
        "cuTensorMapEncodeTiled",
        api.CUtensorMapDataType(plan.element),
        rank,
        plan.address,
        [api.cuuint64_t(n) for n in plan.extents],
        [api.cuuint64_t(n) for n in plan.strides],
        [api.cuuint32_t(n) for n in plan.box],
        [api.cuuint32_t(1)] * rank,
        api.CUtensorMapInterleave(plan.interleave),
        api.CUtensorMapSwizzle(plan.swizzle),
        api.CUtensorMapL2promotion(plan.l2promo),
        api.CUtensorMapFloatOOBfill(plan.oob),
    )
    return b"".join(int(word).to_bytes(8, "little") for word in made.opaque)


# The launch


def _configuration(
    gpu: Gpu, grid: Sequence[int], block: Sequence[int], cluster: Sequence[int], shared: int
) -> Any:
    config = gpu.api.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid
    config.blockDimX, config.blockDimY, config.blockDimZ = block
    config.sharedMemBytes = shared
    config.hStream = 0
    if tuple(cluster) != (1, 1, 1):
        attribute = gpu.api.CUlaunchAttribute()
        attribute.id = gpu.api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        value = attribute.value
        value.clusterDim.x, value.clusterDim.y, value.clusterDim.z = cluster
        attribute.value = value
        config.attrs, config.numAttrs = [attribute], 1
    else:
        config.numAttrs = 0
    return config


def _timed(gpu: Gpu, config: Any, function: Any, arguments: _Arguments) -> float:
    """Launch, wait, and give the milliseconds between two events around it."""
    pointers = arguments.pointers()
    start, end = (gpu.call("cuEventCreate", 0) for _ in range(2))
    try:
        gpu.call("cuEventRecord", start, 0)
        gpu.call("cuLaunchKernelEx", config, function, ctypes.addressof(pointers), 0)
        gpu.call("cuEventRecord", end, 0)
        gpu.call("cuEventSynchronize", end)
        return float(gpu.call("cuEventElapsedTime", start, end))
    finally:
        for event in (start, end):
            gpu.release("cuEventDestroy", event)
