"""torch's types of tensors, such as ``torch.cuda.FloatTensor``, and tensors as text, for a GPU that is
only pretended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch

_DTYPES = {
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "ShortTensor": torch.int16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "BoolTensor": torch.bool,
}
#: torch's own types of tensors in host memory, by name.
_NATIVE: Mapping[str, Any] = {name: getattr(torch, name) for name in _DTYPES}


class Host(Protocol):
    """The tensors that a program keeps in host memory."""

    def add(self, tensor: torch.Tensor) -> None:
        """The tensor is one of host memory, as are its views."""

    def __contains__(self, tensor: torch.Tensor) -> bool: ...


class TensorType(type):
    """The type of tensors of one element type on one device: made by a call, asked by ``isinstance``."""

    dtype: torch.dtype
    is_cuda: bool
    host: Host

    def __instancecheck__(cls, instance: object) -> bool:
        if not isinstance(instance, torch.Tensor) or instance.dtype != cls.dtype:
            return False
        return (instance in cls.host) != cls.is_cuda

    def __call__(cls, *args: Any, device: Any = None) -> torch.Tensor:
        made = _NATIVE[cls.__name__](*args)
        if not cls.is_cuda and not any(isinstance(arg, torch.Tensor) for arg in args):
            cls.host.add(made)
        return made


def _type(name: str, module: str, host: Host) -> TensorType:
    members = {"__module__": module, "dtype": _DTYPES[name], "host": host}
    return TensorType(name, (), members | {"is_cuda": module == "torch.cuda"})


def tensor_types(module: str, host: Host) -> Mapping[str, TensorType]:
    """The types of ``torch`` or of ``torch.cuda``, by name."""
    return {name: _type(name, module, host) for name in _DTYPES}


def named_type(wanted: object) -> tuple[torch.dtype, bool] | None:
    """The element type that a type, or its full name, stands for, and whether its tensors are on the GPU;
    None for what is neither."""
    if isinstance(wanted, TensorType):
        return wanted.dtype, wanted.is_cuda
    if isinstance(wanted, str):
        module, _, name = wanted.rpartition(".")
        if name in _DTYPES and module in ("torch", "torch.cuda"):
            return _DTYPES[name], module == "torch.cuda"
    return None


def type_method(host: Host) -> Callable[..., Any]:
    """``Tensor.type``: the name of a tensor's type, or the tensor in another."""
    plain = torch.Tensor.type

    def call(tensor: torch.Tensor, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        on_host = tensor in host
        if dtype is None:
            name = plain(tensor)
            return name if on_host else name.replace("torch.", "torch.cuda.", 1)
        found = named_type(dtype)
        if found is None:
            made = plain(tensor, dtype, *args, **kwargs)
            to_cuda = not on_host
        else:
            wanted, to_cuda = found
            # Between host and device data are copied.
            made = tensor.to(wanted, copy=on_host == to_cuda)
        if not to_cuda:
            host.add(made)
        return made

    return call


def initializer(host: Host) -> Callable[..., None]:
    """``Tensor.__init__``: what ``torch.Tensor(3)`` makes is in host memory."""

    def call(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> None:
        if type(tensor) is torch.Tensor and not any(isinstance(a, torch.Tensor) for a in args):
            host.add(tensor)

    return call


class _Shown(threading.local):
    """Whether the tensor that this thread writes out is on the GPU."""

    on_cuda = False


_shown = _Shown()
_add_suffixes: Callable[..., str] = torch._tensor_str._add_suffixes


def add_suffixes(text: str, suffixes: list[str], *args: Any, **kwargs: Any) -> str:
    """What torch writes behind the numbers of a tensor, with the device where it is the GPU."""
    told = ["device='cuda:0'"] if _shown.on_cuda else []
    return _add_suffixes(text, [*told, *suffixes], *args, **kwargs)


def representation(tensor: torch.Tensor, on_cuda: bool, **kwargs: Any) -> str:
    """``repr`` of a tensor that may be on the GPU; its device is told by :func:`add_suffixes`."""
    outer, _shown.on_cuda = _shown.on_cuda, on_cuda
    try:
        return torch.Tensor.__repr__(tensor, **kwargs)
    finally:
        _shown.on_cuda = outer
