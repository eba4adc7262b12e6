"""Host arrays as kernels see them: an address, extents and strides, whatever library made them.

Nothing is copied. What cuTile would refuse is refused with the same class of exception.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from tilewright.launching import dlpack
from tilewright.launching.described import host_bytes
from tilewright.numerics.strides import row_major

#: The NumPy dtype of each element type of cuTile that arrays may have.
NUMPY_DTYPES: dict[str, np.dtype[Any]] = {
    "bool_": np.dtype(np.bool_),
    **{
        f"{kind}{bits}": np.dtype(f"{kind}{bits}")
        for kind in ("int", "uint")
        for bits in (8, 16, 32, 64)
    },
    **{f"float{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "float8_e8m0fnu": np.dtype(ml_dtypes.float8_e8m0fnu),
}
_NAME_OF_DTYPE = {dtype: name for name, dtype in NUMPY_DTYPES.items()}
# bfloat16 has no type code of its own in the array interface; cuTile reads a void of that size as one.
_NAME_OF_TYPESTR = {
    **{dtype.str: name for name, dtype in NUMPY_DTYPES.items() if dtype.kind in "biuf"},
    "<V2": "bfloat16",
    "|V2": "bfloat16",
}

# The type codes of DLPack.
_DL_INT, _DL_UINT, _DL_FLOAT, _DL_BFLOAT, _DL_BOOL = 0, 1, 2, 4, 6
_NAME_OF_DLPACK = {
    **{(_DL_INT, bits): f"int{bits}" for bits in (8, 16, 32, 64)},
    **{(_DL_UINT, bits): f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{(_DL_FLOAT, bits): f"float{bits}" for bits in (16, 32, 64)},
    (_DL_BFLOAT, 16): "bfloat16",
    (_DL_BOOL, 8): "bool_",
    (10, 8): "float8_e4m3fn",
    (12, 8): "float8_e5m2",
    (14, 8): "float8_e8m0fnu",
}
#: Devices of DLPack whose memory the host can read: the CPU, and pinned and managed CUDA memory.
_HOST_DEVICES = frozenset({1, 3, 13})
_CUDA = 2


class RawArray(NamedTuple):
    """Where the elements of an array lie. ``strides`` count elements; ``dtype`` is cuTile's name.

    ``is_on_gpu``: in memory of a GPU, which only the machine ``cuda`` takes.
    """

    address: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    writable: bool = True
    is_on_gpu: bool = False


Reader = Callable[[Any], RawArray]


def find_reader(kind: type, value: object) -> Reader | None:
    """What reads arrays of the type ``kind``, of which ``value`` is one; None if it is no array."""
    if issubclass(kind, np.ndarray):
        return read_numpy
    if issubclass(kind, np.generic | bytes | str | type):
        return None  # cuTile takes none of them, although some have a buffer or the names of one
    torch = sys.modules.get("torch")
    if torch is not None and issubclass(kind, torch.Tensor):
        return read_torch
    for attribute, reader in _PROTOCOLS.items():
        if hasattr(value, attribute):
            return reader
    return read_buffer if _has_buffer(value) else None


def _has_buffer(value: object) -> bool:
    try:
        memoryview(value)  # pyright: ignore[reportArgumentType]
    except TypeError:
        return False
    return True


def read_numpy(array: np.ndarray[Any, Any]) -> RawArray:
    """Address, element type, extents and strides of a NumPy array; strides are in elements.

    Raises cuTile's TypeError for a dtype that tiles do not have, ValueError for strides that are no multiples of an
    element.
    """
    dtype = array.dtype
    name = _NAME_OF_DTYPE.get(dtype)
    if name is None:
        raise _bad_dtype(dtype)
    return RawArray(
        address_of(array),
        name,
        array.shape,
        # What the array interface says: the strides of dimensions of one element mean nothing.
        row_major(array.shape)
        if array.flags.c_contiguous
        else _element_strides(array.shape, array.strides, dtype.itemsize),
        array.flags.writeable,
    )


def _address_in_structure(array: np.ndarray[Any, Any]) -> int:
    return ctypes.c_size_t.from_address(id(array) + object.__basicsize__).value


def _address_by_interface(array: np.ndarray[Any, Any]) -> int:
    return array.__array_interface__["data"][0]


def _fastest_address() -> Callable[[np.ndarray[Any, Any]], int]:
    """What tells addresses, in the fastest way that this Python and this NumPy allow.

    An array is, in C, what all objects begin with, and then a pointer to its first element
    (``PyArrayObject``). The array interface says the same, but builds a dictionary first, which takes
    six times as long.
    """
    if sys.implementation.name != "cpython":
        return _address_by_interface
    probe = np.zeros(8, np.uint8)[3:]
    is_there = _address_in_structure(probe) == _address_by_interface(probe)
    return _address_in_structure if is_there else _address_by_interface


#: The address of the first element of a NumPy array.
address_of = _fastest_address()


def _bad_dtype(dtype: np.dtype[Any]) -> TypeError:
    if dtype.byteorder == ">" and dtype.newbyteorder("=") in _NAME_OF_DTYPE:
        return TypeError("Only little-endian types are supported")
    return TypeError(f"Unsupported array dtype '{dtype}'")


def _element_strides(
    shape: Sequence[int], byte_strides: Sequence[int], itemsize: int
) -> tuple[int, ...]:
    """Strides in elements."""
    strides: list[int] = []
    for extent, stride in zip(shape, byte_strides, strict=True):
        elements, rest = divmod(stride, itemsize)
        if rest and extent > 1:
            raise ValueError(
                f"Array strides of {tuple(byte_strides)} bytes are not multiples of the element "
                f"size, {itemsize} bytes"
            )
        strides.append(elements)
    return tuple(strides)


_torch_names: dict[object, str] = {}


def _names_of_torch_dtypes() -> dict[object, str]:
    if not _torch_names:
        torch = sys.modules["torch"]
        for name in NUMPY_DTYPES:
            dtype = getattr(torch, name.removesuffix("_"), None)
            if dtype is not None:
                _torch_names[dtype] = name
    return _torch_names


def is_plain_tensor(tensor: Any) -> bool:
    """Whether a tensor needs no other look, but at its dtype, to be launched on.

    To be called where functions of torch are not overridden.
    """
    torch = sys.modules["torch"]
    if not tensor.is_cpu or tensor.layout is not torch.strided or tensor.is_neg():
        return False
    pretended = sys.modules.get("tilewright.cutile.torch_cuda")
    return pretended is None or not pretended.is_pretended() or not pretended.is_on_host(tensor)


def read_torch(tensor: Any) -> RawArray:
    """The same of a torch tensor, without the user's modes and subclasses.

    Raises ValueError for memory that the machine does not take, TypeError for a dtype or a layout that no kernel
    takes, as cuTile does.
    """
    torch = sys.modules["torch"]
    # Neither the user's modes and subclasses nor ours are to see what is asked here.
    with torch._C.DisableTorchFunction():
        is_on_gpu = tensor.device.type == "cuda" and _takes_gpu_memory()
        if tensor.device.type != "cpu" and not is_on_gpu:
            raise ValueError(
                f"Input array is on the device '{tensor.device}'; this machine takes host memory"
            )
        if tensor.layout is not torch.strided:
            raise TypeError(f"Input array has the layout {tensor.layout}, not torch.strided")
        pretended = sys.modules.get("tilewright.cutile.torch_cuda")
        if pretended is not None and pretended.is_pretended() and pretended.is_on_host(tensor):
            raise ValueError("Input array is not on a CUDA device")
        name = (_torch_names or _names_of_torch_dtypes()).get(tensor.dtype)
        if name is None:
            raise TypeError(f"Unsupported array dtype '{tensor.dtype}'")
        if tensor.is_conj() or tensor.is_neg():
            raise TypeError("Input array is a lazy conjugate or negative; call resolve_neg() first")
        shape, strides = tuple(tensor.shape), tensor.stride()
        return RawArray(tensor.data_ptr(), name, shape, strides, True, is_on_gpu)


def _takes_gpu_memory() -> bool:
    """Whether launches go to a GPU, which is not only pretended."""
    from tilewright.cutile.settings import current

    settings = current()
    return settings.machine.partition(":")[0] == "cuda" and not settings.cuda_is_host


def read_interface(value: Any) -> RawArray:
    """The same of what has NumPy's ``__array_interface__``. Raises TypeError for a dtype that tiles do not have."""
    return _from_interface(value.__array_interface__, "__array_interface__")


def read_cuda_interface(value: Any) -> RawArray:
    """The same of what has ``__cuda_array_interface__``.

    Raises ValueError where the machine takes host memory, TypeError for a dtype that tiles do not have.
    """
    from tilewright.cutile.settings import current

    is_on_gpu = _takes_gpu_memory()
    if not current().cuda_is_host and not is_on_gpu:
        raise ValueError(
            "Input array is in the memory of a CUDA device; this machine takes host memory"
        )
    found = _from_interface(value.__cuda_array_interface__, "__cuda_array_interface__")
    return found._replace(is_on_gpu=is_on_gpu)


def _from_interface(fields: Any, what: str) -> RawArray:
    if not isinstance(fields, dict):
        raise TypeError(f"{what} returned a non-dictionary object")
    for key in ("typestr", "shape", "data"):
        if key not in fields:
            raise TypeError(f"{what} is missing the '{key}' key")
    typestr, shape, data = fields["typestr"], fields["shape"], fields["data"]
    if not isinstance(typestr, str):
        raise TypeError(f"{what}['typestr'] is not a string")
    if typestr[:1] not in ("<", "|"):
        raise TypeError("Only little-endian types are supported")
    name = _NAME_OF_TYPESTR.get(typestr)
    if name is None:
        raise TypeError(f"Unsupported array dtype '{typestr}'")
    if not isinstance(data, tuple) or len(data) != 2:
        raise TypeError(f"{what}['data'] is not a tuple of length 2")
    if not isinstance(data[0], int):
        raise TypeError(f"{what}['data'][0] is not an integer")
    if not isinstance(shape, tuple):
        raise TypeError(f"{what}['shape'] is not a tuple")
    strides = fields.get("strides")
    if strides is None:
        steps = row_major(shape)
    elif isinstance(strides, tuple):
        steps = _element_strides(shape, strides, NUMPY_DTYPES[name].itemsize)
    else:
        raise TypeError(f"{what}['strides'] can only be absent, None, or a tuple")
    return RawArray(data[0], name, shape, steps, not data[1])


def read_buffer(value: Any) -> RawArray:
    """The same of what has Python's buffer protocol. Raises TypeError as ``read_numpy`` does."""
    return read_numpy(np.asarray(memoryview(value)))


def read_dlpack(value: Any) -> RawArray:
    # CuPy and others have both; what lies on a GPU says more of itself by the other interface.
    """The same of what has ``__dlpack__``; the memory stays the value's.

    Raises ValueError for memory that the machine does not take, TypeError for a dtype that no kernel takes.
    """
    on_gpu = _takes_gpu_memory() and int(value.__dlpack_device__()[0]) == _CUDA
    if on_gpu and hasattr(value, "__cuda_array_interface__"):
        return read_cuda_interface(value)
    # The capsule is dropped unconsumed, which frees it; the memory belongs to ``value``.
    capsule = value.__dlpack__()
    tensor = dlpack.Tensor.from_address(dlpack.address_in(capsule, b"dltensor"))
    if tensor.device_type not in _HOST_DEVICES and not on_gpu:
        raise ValueError(
            f"Input array is on the DLPack device {tensor.device_type}; this machine takes host memory"
        )
    if tensor.lanes != 1:
        raise TypeError("Array dtypes with multiple lanes are not supported")
    name = _NAME_OF_DLPACK.get((tensor.code, tensor.bits))
    if name is None:
        raise TypeError(f"Unsupported array dtype: DLPack code {tensor.code}, {tensor.bits} bits")
    shape = tuple(tensor.shape[: tensor.rank])
    strides = tuple(tensor.strides[: tensor.rank]) if tensor.strides else row_major(shape)
    return RawArray((tensor.data or 0) + tensor.byte_offset, name, shape, strides, True, on_gpu)


_PROTOCOLS: dict[str, Reader] = {
    "__dlpack__": read_dlpack,
    "__cuda_array_interface__": read_cuda_interface,
    "__array_interface__": read_interface,
}


def as_numpy(raw: RawArray) -> np.ndarray[Any, Any]:
    """A NumPy array over the same elements, of a rank and strides like theirs. The caller keeps their owner alive."""
    dtype = NUMPY_DTYPES[raw.dtype]
    low, high = byte_bounds(raw.shape, raw.strides, dtype.itemsize)
    if low == high:
        return np.empty(raw.shape, dtype)
    buffer = host_bytes(raw.address + low, high - low)
    byte_strides = tuple(stride * dtype.itemsize for stride in raw.strides)
    array: np.ndarray[Any, Any] = np.ndarray(raw.shape, dtype, buffer.data, -low, byte_strides)
    array.flags.writeable = raw.writable
    return array


def byte_bounds(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, int]:
    """The first byte of an array and the one after its last, counted from its first element; ``strides`` count
    elements of ``itemsize`` bytes. Both are 0 for an array without elements.
    """
    low = high = 0
    for extent, stride in zip(shape, strides, strict=True):
        if extent == 0:
            return 0, 0
        reach = (extent - 1) * stride * itemsize
        low, high = low + min(reach, 0), high + max(reach, 0)
    return low, high + itemsize
