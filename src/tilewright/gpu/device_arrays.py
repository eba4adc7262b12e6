"""Arrays of other libraries as memory of a GPU: pointer, shape, strides, by DLPack."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from tilewright.diagnostics import TileIRError
from tilewright.gpu.codes import LAUNCH

_CUDA, _CUDA_MANAGED = 2, 13
#: The letters of kinds of numbers, by DLPack's code; codes above are floats of few bits.
_KINDS = {0: "i", 1: "u", 2: "f", 4: "f", 6: "b"}


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


@dataclass(frozen=True, slots=True)
class DeviceArray:
    """Memory of a GPU. ``strides`` are in elements; ``owner`` keeps the memory alive.

    ``kind`` is a letter as NumPy has it: i, u, f or b.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    bits: int
    kind: str
    owner: object


def dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of an array without gaps, last dimension innermost."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= extent
    return tuple(strides)


def device_array(value: Any, name: str) -> DeviceArray:
    """A torch or CuPy array, or whatever speaks DLPack, that lies on a GPU.

    A TileIRError for other values, and for arrays in host memory.
    """
    if not hasattr(value, "__dlpack__") or not hasattr(value, "__dlpack_device__"):
        raise TileIRError.single(
            LAUNCH, f"'{name}' takes an array, got {type(value).__name__} {value!r:.40}"
        )
    if int(value.__dlpack_device__()[0]) not in (_CUDA, _CUDA_MANAGED):
        raise TileIRError.single(LAUNCH, f"the array for '{name}' does not lie on a GPU")
    if getattr(value, "requires_grad", False):
        value = value.detach()
    try:
        # The kernel comes behind the work on the stream that others use by default.
        capsule = value.__dlpack__(stream=1)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TileIRError.single(
            LAUNCH, f"the array for '{name}' cannot be shared: {error}"
        ) from None
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _DLTensor.from_address(get(capsule, b"dltensor"))
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = (
        tuple(tensor.strides[i] for i in range(tensor.ndim))
        if tensor.strides
        else dense_strides(shape)
    )
    return DeviceArray(
        (tensor.data or 0) + tensor.byte_offset,
        shape,
        strides,
        tensor.bits * tensor.lanes,
        _KINDS.get(tensor.code, "f"),
        (capsule, value),
    )
