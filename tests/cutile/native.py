"""cuTile's own reading of launch arguments, as an oracle: its extension, with a driver of paper.

The extension loads the CUDA driver when it first looks at arguments, but for looking at them it
needs nothing from it. Here it gets functions that say yes. Run in a process of its own: the extension
keeps what it has loaded.
"""

from __future__ import annotations

import ctypes
import sys
import types
from collections.abc import Callable
from typing import Any

_kept: list[object] = []


def _function(result: Any, *arguments: Any) -> Callable[[Callable[..., int]], int]:
    def made(python: Callable[..., int]) -> int:
        callback = ctypes.CFUNCTYPE(result, *arguments)(python)
        _kept.append(callback)
        address = ctypes.cast(callback, ctypes.c_void_p).value
        assert address is not None
        return address

    return made


_P, _I = ctypes.c_void_p, ctypes.c_int


def install_paper_driver() -> None:
    """Make cuTile's extension find a driver of which every function succeeds and does nothing."""
    succeed = _function(_I, _P, _P, _P, _P, _P, _P)(lambda *_: 0)

    @_function(_I, _P)
    def driver_version(out: int) -> int:
        ctypes.cast(out, ctypes.POINTER(_I))[0] = 13000
        return 0

    @_function(_I, _P, _P, ctypes.c_uint64)
    def pointer_attribute(out: int, _attribute: int, _pointer: int) -> int:
        ctypes.cast(out, ctypes.POINTER(_P))[0] = 0x1000
        return 0

    special = {
        b"cuDriverGetVersion": driver_version,
        b"cuPointerGetAttribute": pointer_attribute,
    }

    @_function(_I, ctypes.c_char_p, ctypes.POINTER(_P), _I, ctypes.c_uint64, _P)
    def get_procedure(name: bytes, out: Any, _version: int, _flags: int, _status: int) -> int:
        out[0] = special.get(name, succeed)
        return 0

    holder = ctypes.c_void_p(get_procedure)
    _kept.append(holder)
    module = types.ModuleType("cuda.tile._load_libcuda")
    module.__dict__["cuGetProcAddress_v2_ptrptr"] = ctypes.addressof(holder)
    sys.modules["cuda.tile._load_libcuda"] = module


class OnDevice:
    """A NumPy array that says that it is in the memory of a GPU."""

    def __init__(self, array: Any):
        self.array = array

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        fields = dict(self.array.__array_interface__)
        # NumPy has no code for bfloat16; cuTile reads a void of that size as one.
        if self.array.dtype.name == "bfloat16":
            fields["typestr"] = "<V2"
        return fields


def on_device(value: Any) -> Any:
    """The argument with every NumPy array in it put on the device."""
    import numpy as np

    if isinstance(value, np.ndarray):
        return OnDevice(value)
    if type(value) in (list, tuple):
        return type(value)(on_device(item) for item in value)
    return value
