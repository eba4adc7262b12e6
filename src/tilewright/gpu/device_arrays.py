"""Arrays that are on a GPU already, of any library: the CUDA array interface, and DLPack."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from math import prod
from typing import Any, cast

import ml_dtypes
import numpy as np

from tilewright.diagnostics import TileIRError
from tilewright.gpu.codes import LAUNCH
from tilewright.launching import dlpack
from tilewright.numerics.arrays import Array
from tilewright.numerics.strides import row_major

_CUDA, _CUDA_MANAGED = 2, 13
#: NumPy's kinds by DLPack's type code; higher codes are narrow floats.
_KINDS = {0: "i", 1: "u", 2: "f", 4: "f", 6: "b"}
#: NumPy's types by DLPack's type code and bits.
_DTYPES: dict[tuple[int, int], np.dtype[Any]] = {
    **{(0, bits): np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{(1, bits): np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)},
    **{(2, bits): np.dtype(f"f{bits // 8}") for bits in (16, 32, 64)},
    (4, 16): np.dtype(ml_dtypes.bfloat16),
    (6, 8): np.dtype(np.bool_),
    (10, 8): np.dtype(ml_dtypes.float8_e4m3fn),
    (12, 8): np.dtype(ml_dtypes.float8_e5m2),
    (14, 8): np.dtype(ml_dtypes.float8_e8m0fnu),
}
_READ_ONLY = 1
#: The names of capsules with and without a version.
_VERSIONED, _PLAIN = b"dltensor_versioned", b"dltensor"
#: The legacy default stream, in the numbering of both interfaces.
LEGACY_STREAM = 1


@dataclass(frozen=True, slots=True)
class DeviceArray:
    """An array in GPU memory. ``strides`` are in elements; ``owner`` keeps the memory alive.

    ``kind`` is NumPy's letter: i, u, f or b. ``dtype`` is NumPy's type, if there is one. ``stream`` has pending work on
    the array that a launch must wait for; None if there is none.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    bits: int
    kind: str
    owner: object
    dtype: np.dtype[Any] | None = None
    is_writable: bool = True
    stream: int | None = None
    device: int | None = None


def is_on_gpu(value: object) -> bool:
    """Whether a value is an array on a GPU."""
    if isinstance(value, np.ndarray | np.generic | int | float) or value is None:
        return isinstance(value, StandIn)
    if isinstance(value, DeviceArray) or _interface(value) is not None:
        return True
    try:
        return int(cast("Any", value).__dlpack_device__()[0]) in (_CUDA, _CUDA_MANAGED)
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError):
        return False


def device_array(value: Any, name: str) -> DeviceArray:
    """A GPU array of torch, CuPy, or any library with the CUDA array interface or DLPack.

    The array interface is preferred, as it has streams and writability; but DLPack for torch, as only that has torch's
    streams. Raises ``TileIRError`` for other values, and for arrays in host memory.
    """
    if isinstance(value, DeviceArray):
        return value
    if isinstance(value, StandIn):
        return value.stands_for
    if getattr(value, "requires_grad", False):
        value = value.detach()
    torch = sys.modules.get("torch")
    is_torch = torch is not None and isinstance(value, torch.Tensor)
    if not is_torch and (found := _interface(value)) is not None:
        return _from_interface(found, value, name)
    if not hasattr(value, "__dlpack__") or not hasattr(value, "__dlpack_device__"):
        raise _bad(f"'{name}' takes an array, got {type(value).__name__} {value!r:.40}")
    if int(value.__dlpack_device__()[0]) not in (_CUDA, _CUDA_MANAGED):
        raise _bad(f"the array for '{name}' is not on a GPU")
    return _from_dlpack(value, name)


def _bad(message: str) -> TileIRError:
    return TileIRError.single(LAUNCH, message)


# The CUDA array interface


def _interface(value: object) -> dict[str, Any] | None:
    try:
        found = getattr(value, "__cuda_array_interface__", None)
    except (RuntimeError, TypeError, ValueError):  # torch's, for what it cannot describe
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def _from_interface(fields: dict[str, Any], owner: object, name: str) -> DeviceArray:
    try:
        shape = tuple(int(n) for n in fields["shape"])
        typestr, (address, is_read_only) = str(fields["typestr"]), fields["data"]
        stream, steps = fields.get("stream"), fields.get("strides")
        if typestr[:1] == ">":
            raise _bad(f"the array for '{name}' is big-endian")
        dtype = _BFLOAT if typestr in ("<V2", "|V2") else np.dtype(typestr)
        if steps is not None and len(steps) != len(shape):
            raise ValueError("strides and shape differ in length")
    except (KeyError, TypeError, ValueError) as error:
        raise _bad(f"the array for '{name}' has an invalid array interface: {error}") from None
    if fields.get("mask") is not None:
        raise _bad(f"the array for '{name}' has a mask")
    if stream == 0:
        raise _bad(f"the array for '{name}' names the stream 0, which the interface forbids")
    size = dtype.itemsize
    if steps is None:
        strides = row_major(shape)
    else:
        pairs = list(zip(steps, shape, strict=True))
        if any(step % size and extent > 1 for step, extent in pairs):
            raise _bad(
                f"the array for '{name}' has strides of {tuple(steps)} bytes, which are not multiples of {size}"
            )
        strides = tuple(int(step) // size for step, _ in pairs)
    kind = dtype.kind if dtype.kind in "iufb" else "f"
    return DeviceArray(
        int(address or 0),
        shape,
        strides,
        8 * size,
        kind,
        owner,
        dtype,
        not is_read_only,
        None if stream is None else int(stream),
    )


_BFLOAT = np.dtype(ml_dtypes.bfloat16)


# DLPack


def _from_dlpack(value: Any, name: str) -> DeviceArray:
    """The producer makes the legacy default stream, that of the launch, wait for its own work."""
    try:
        try:
            capsule = value.__dlpack__(stream=LEGACY_STREAM, max_version=(1, 0))
        except TypeError:  # it knows no versions
            capsule = value.__dlpack__(stream=LEGACY_STREAM)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise _bad(f"the array for '{name}' cannot be shared: {error}") from None
    flags = 0
    if dlpack.is_named(capsule, _VERSIONED):
        managed = dlpack.VersionedTensor.from_address(dlpack.address_in(capsule, _VERSIONED))
        tensor, flags = managed.tensor, managed.flags
    elif dlpack.is_named(capsule, _PLAIN):
        tensor = dlpack.Tensor.from_address(dlpack.address_in(capsule, _PLAIN))
    else:
        raise _bad(f"the array for '{name}' cannot be shared: unknown kind of DLPack capsule")
    shape = tuple(tensor.shape[i] for i in range(tensor.rank))
    strides = (
        tuple(tensor.strides[i] for i in range(tensor.rank)) if tensor.strides else row_major(shape)
    )
    return DeviceArray(
        (tensor.data or 0) + tensor.byte_offset,
        shape,
        strides,
        tensor.bits * tensor.lanes,
        _KINDS.get(tensor.code, "f"),
        (capsule, value),
        _DTYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None,
        not flags & _READ_ONLY,
        LEGACY_STREAM,
        tensor.device_id,
    )


# Stand-ins for checks that take NumPy arrays


class StandIn(np.ndarray[Any, Any]):
    """A NumPy array with the address, shape, strides and type of a GPU array. Its elements must not be read."""

    stands_for: DeviceArray

    def __repr__(self) -> str:
        return f"<array of {self.dtype} on the GPU, shape {self.shape}>"

    __str__ = __repr__


def stand_in(array: DeviceArray, name: str) -> Array:
    """A NumPy array for the checks of a launch, which do not access its elements.

    Raises ``TileIRError`` if NumPy has no such type.
    """
    if array.dtype is None:
        raise _bad(f"the array for '{name}' has elements of {array.bits} bits that no kernel takes")
    size = array.dtype.itemsize
    if not prod(array.shape):
        return np.empty(array.shape, array.dtype)
    steps = tuple(size * stride for stride in array.strides)
    reach = [(n - 1) * s for n, s in zip(array.shape, steps, strict=True)]
    low = sum(step for step in reach if step < 0)
    high = sum(step for step in reach if step > 0) + size
    buffer: Any = (ctypes.c_uint8 * (high - low)).from_address(array.address + low)
    made = StandIn(array.shape, array.dtype, buffer, -low, steps)
    made.flags.writeable = array.is_writable
    made.stands_for = array
    return made
