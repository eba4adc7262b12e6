"""The arguments of a launch as bytes, one parameter of the PTX after the other."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import AnyFloat, MemRefType
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import Attribute

from tilewright.diagnostics import TileIRError
from tilewright.diagnostics.tracebacks import hides_frames
from tilewright.dialects.nvgpu.types import TensorMapDescriptorType
from tilewright.dialects.upstream.base.shapes import bit_width
from tilewright.gpu.abi import Parameter
from tilewright.gpu.codegen import layout
from tilewright.gpu.codegen.ir import floating
from tilewright.gpu.codes import LAUNCH
from tilewright.gpu.device_arrays import DeviceArray, StandIn, device_array
from tilewright.gpu.driver import Gpu
from tilewright.gpu.host_memory import HostMemory, Span
from tilewright.gpu.tensor_maps import plan_map
from tilewright.launching.array_interchange import as_array
from tilewright.numerics.arrays import Array
from tilewright.numerics.strides import row_major

__tracebackhide__ = hides_frames


@dataclass(frozen=True, slots=True)
class Scratch:
    """``size`` bytes of GPU memory that live as long as the launch."""

    size: int


@dataclass(frozen=True, slots=True)
class Table:
    """64-bit words with the addresses of arrays. ``make`` is given the function that translates a host address to the
    GPU.
    """

    make: Callable[[Callable[[int], int]], Array]


@dataclass(frozen=True, slots=True)
class Stream:
    """A GPU and a stream, for a kernel. It implements the transfers of ``host_memory``."""

    gpu: Gpu
    handle: int
    kernel: str

    def allocate(self, size: int) -> int:
        """Allocate ``size`` bytes of device memory in stream order; returns the address.

        Raises ``TileIRError`` (``gpu-out-of-memory``).
        """
        return self.gpu.memory.allocate(size, self.gpu.device, self.handle, self.kernel)

    def free(self, address: int) -> None:
        """Free memory that ``allocate`` returned, in stream order."""
        self.gpu.memory.free(address, self.handle)

    def send(self, address: int, source: int, size: int) -> None:
        """Copy ``size`` bytes of host memory at ``source`` to device memory at ``address``, in stream order.

        The host memory must stay as it is until the copy has been made.
        """
        call = "cuMemcpyHtoDAsync", address, source, size, self.handle
        self.gpu.call(*call, kernel=self.kernel)

    def fetch(self, target: int, address: int, size: int) -> None:
        """Copy ``size`` bytes of device memory at ``address`` to host memory at ``target``, and wait for the copy."""
        self.gpu.call("cuMemcpyDtoHAsync", target, address, size, self.handle, kernel=self.kernel)
        self.gpu.call("cuStreamSynchronize", self.handle, kernel=self.kernel)


@dataclass(slots=True)
class Arguments:
    """The arguments of a launch: the bytes of each parameter, and the memory they point to.

    ``read`` finds the arrays without a GPU; ``send`` then copies them and packs the parameters.
    """

    parameters: Sequence[Parameter]
    values: list[Any] = field(default_factory=list[Any])
    _fields: list[Any] = field(default_factory=list[Any])
    _host: HostMemory | None = None
    _allocated: list[int] = field(default_factory=list[int])

    @classmethod
    def read(cls, parameters: Sequence[Parameter], args: Sequence[Any]) -> Arguments:
        """The arguments, with their arrays, which are not copied.

        Raises ``TileIRError`` (``gpu-launch``) for a value that is no array where one is taken.
        """
        made = cls(parameters)
        for parameter, arg in zip(parameters, args, strict=True):
            takes_array = isinstance(
                parameter.type, TensorMapDescriptorType | MemRefType | LLVMPointerType
            )
            made.values.append(_found(arg, parameter.name) if takes_array else arg)
        return made

    @property
    def streams(self) -> list[int]:
        """The handles of the streams that have pending work on the arrays, without duplicates."""
        named = [v.stream for v in self.values if isinstance(v, DeviceArray)]
        return list(dict.fromkeys(stream for stream in named if stream is not None))

    def send(
        self,
        stream: Stream,
        fixed: Sequence[Span] = (),
        reached: Sequence[Array] = (),
        written: frozenset[int] | None = None,
    ) -> None:
        """Copy host arrays to the GPU, and pack the parameters.

        ``fixed``: host memory that is on the GPU already. ``reached``: arrays that the kernel accesses by address.
        ``written``: the parameters that it may write through, by default all. Raises ``TileIRError`` (``gpu-launch``)
        for arrays that do not fit their parameters, and for those that overlap fixed memory without being within it.
        """
        host = self._host = HostMemory(stream, fixed)
        for number, value in enumerate(self.values):
            if isinstance(value, np.ndarray):
                host.add(value, is_written=written is None or number in written)
        for array in reached:
            host.add(array)
        try:
            host.send()
        except ValueError as error:
            raise _bad(str(error)) from None
        for parameter, value in zip(self.parameters, self.values, strict=True):
            self._bind(stream, parameter, value)

    def add_address(self, address: int) -> None:
        """Append a parameter with an address."""
        self._add(struct.pack("<Q", address))

    def fetch(self) -> None:
        """Copy back the memory that the kernel may have written; waits for the kernel."""
        if self._host is not None:
            self._host.fetch()

    def free(self, stream: Stream) -> None:
        """Free the memory of the launch."""
        if self._host is not None:
            self._host.free()
        while self._allocated:
            stream.free(self._allocated.pop())

    def pointers(self) -> Any:
        """The array of pointers to parameters, as the driver takes it."""
        kinds = ctypes.c_void_p * max(len(self._fields), 1)
        return kinds(*(ctypes.addressof(each) for each in self._fields))

    def _add(self, data: bytes) -> None:
        self._fields.append(ctypes.create_string_buffer(data, len(data)))

    def _bind(self, stream: Stream, parameter: Parameter, value: Any) -> None:
        ty, name = parameter.type, parameter.name
        if isinstance(ty, TensorMapDescriptorType):
            self._add(encoded_map(stream.gpu, ty, self._array(value, name), name))
        elif isinstance(ty, MemRefType):
            array = _unpacked(ty, self._array(value, name))
            _check_memref(ty, array, name)
            for number in (array.address, array.address, 0, *array.shape, *array.strides):
                self._add(struct.pack("<q", number))
        elif isinstance(ty, LLVMPointerType) and not isinstance(value, int | np.integer):
            self._add(struct.pack("<Q", self._pointer(stream, value, name)))
        else:
            self._add(pack_number(ty, value, name))

    def _pointer(self, stream: Stream, value: Any, name: str) -> int:
        if isinstance(value, Scratch):
            self._allocated.append(stream.allocate(value.size))
            return self._allocated[-1]
        if isinstance(value, Table):
            table = value.make(lambda address: self._translated(address, name))
            self._allocated.append(stream.allocate(table.nbytes))
            if table.nbytes:
                stream.send(self._allocated[-1], int(table.ctypes.data), table.nbytes)
            return self._allocated[-1]
        array = self._array(value, name)
        size = array.bits // 8
        if size and array.address % size:
            raise _bad(f"the array for '{name}' is not aligned to its elements of {size} bytes")
        return array.address

    def _translated(self, address: int, name: str) -> int:
        assert self._host is not None
        found = self._host.address(address)
        # An address outside of host memory is one of the GPU, or of an empty array.
        return address if found is None else found

    def _array(self, value: Any, name: str) -> DeviceArray:
        """An array with its address on the GPU."""
        if isinstance(value, DeviceArray):
            return value
        if not isinstance(value, np.ndarray):
            raise _bad(f"'{name}' takes an array, got {type(value).__name__} {value!r:.40}")
        assert self._host is not None
        start, size = int(value.ctypes.data), value.itemsize
        if start % size:
            raise _bad(f"the array for '{name}' is not aligned to its elements of {size} bytes")
        if any(s % size for s, n in zip(value.strides, value.shape, strict=True) if n > 1):
            raise _bad(
                f"the array for '{name}' has strides of {value.strides} bytes, which are not "
                f"multiples of its element size, {size} bytes"
            )
        strides = tuple(step // size for step in value.strides)
        if value.flags.c_contiguous:
            # NumPy's strides of dimensions of extent 1 are arbitrary.
            strides = row_major(value.shape)
        kind = value.dtype.kind if value.dtype.kind in "iufb" else "f"
        address = (self._host.address(start) or 0) if value.size else 0
        shape = tuple(value.shape)
        return DeviceArray(address, shape, strides, 8 * size, kind, value, value.dtype)


def _bad(message: str) -> TileIRError:
    return TileIRError.single(LAUNCH, message)


def _found(arg: Any, name: str) -> Any:
    """A host array as NumPy's, a GPU array as ``DeviceArray``; other values unchanged."""
    if isinstance(arg, StandIn):
        return arg.stands_for
    if isinstance(arg, np.ndarray | int | np.integer | Scratch | Table | DeviceArray):
        return arg
    try:
        return device_array(arg, name)
    except TileIRError:
        found = as_array(arg, f"'{name}'")
        if isinstance(found, np.ndarray):
            return found
        raise


def _unpacked(ty: MemRefType, array: DeviceArray) -> DeviceArray:
    """An array of bytes with packed elements, with extents and strides in elements."""
    if not layout.is_packed(ty.element_type) or not array.shape:
        return array
    count = 8 // bit_width(ty.element_type)
    *outer, inner = array.shape
    strides = (*(count * stride for stride in array.strides[:-1]), array.strides[-1])
    return replace(array, shape=(*outer, count * inner), strides=strides)


def _check_memref(ty: MemRefType, array: DeviceArray, name: str) -> None:
    """Raises ``TileIRError`` if an array does not fit a memref type."""
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
    """The bytes of a number of a type, lowest first, rounded once if it is a float.

    Raises ``TileIRError`` (``gpu-launch``) if it is no number of the type's kind, or an integer out of range.
    """
    size = layout.element_bytes(ty)
    if isinstance(ty, AnyFloat):
        spelled = layout.scalar(ty)
        if spelled not in ("half", "bfloat", "float", "double") or not isinstance(
            arg, int | float | np.generic
        ):
            raise _bad(f"'{name}' takes a number of {ty}, got {arg!r:.40}")
        if spelled in ("float", "double"):
            return np.array(arg, f"<f{size}").tobytes()
        # The digits after 0xH and 0xR are the bits.
        return int(floating(spelled, float(arg)).ref[3:], 16).to_bytes(2, "little")
    if isinstance(arg, np.generic):
        arg = arg.item()
    bits = bit_width(ty) or 64
    if not isinstance(arg, int) or not -(1 << (bits - 1)) <= arg < 1 << bits:
        raise _bad(f"'{name}' takes an integer of {bits} bits, got {arg!r:.40}")
    return (arg & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def encoded_map(gpu: Gpu, ty: TensorMapDescriptorType, array: DeviceArray, name: str) -> bytes:
    """The 128 bytes of a tensor map, encoded by the driver (``cuTensorMapEncodeTiled``).

    Raises ``TileIRError`` (``gpu-launch``) if the array violates a rule of tensor maps.
    """
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
