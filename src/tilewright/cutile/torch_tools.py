"""What programs use around their computing: pools and records of memory, ranges for profilers, the CUDA
runtime, nested tensors and compiled functions, for a GPU that is only pretended."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.utils.dlpack
from numpy.typing import NDArray

from tilewright.cutile import torch_native
from tilewright.cutile.torch_devices import check_index
from tilewright.cutile.torch_memory import device_memory
from tilewright.cutile.torch_programs import Host

_CYCLES_PER_SECOND = 1_965_000_000
_SUCCESS = 0


def _sleep(cycles: int) -> None:
    """Wait for as long as the GPU would take for so many cycles."""
    time.sleep(cycles / _CYCLES_PER_SECOND)


def _snapshot(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """The memory of a GPU, of which nothing is in use."""
    return {"segments": [], "device_traces": [[]], "allocator_settings": {}}


def _dump_snapshot(filename: str = "dump_snapshot.pickle", *args: Any, **kwargs: Any) -> None:
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Nothing: there is no memory of a GPU to watch."""


class MemPool:
    """A pool of memory; tensors come from the host's all the same."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.id = (0, 1)

    def use_count(self) -> int:
        """One: the program's own."""
        return 1

    def snapshot(self, include_traces: bool = True) -> list[Any]:
        """No segments."""
        return []


@contextmanager
def _unchanged(*args: Any, **kwargs: Any) -> Iterator[None]:
    yield


@contextmanager
def _range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A range that no profiler sees; a context and a decorator, as that of torch."""
    msg.format(*args, **kwargs)
    yield


class _EmitNvtx:
    """Ranges around operations, which no profiler sees."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled, self.record_shapes = enabled, record_shapes

    def __enter__(self) -> Any:
        return self if self.enabled else None

    def __exit__(self, *exception: Any) -> None: ...


def _runtime() -> SimpleNamespace:
    """``torch.cuda.cudart()``: what torch shows of the CUDA runtime."""

    def succeed(*args: Any) -> int:
        return _SUCCESS

    return SimpleNamespace(
        cudaError=SimpleNamespace(success=_SUCCESS),
        cudaProfilerStart=succeed,
        cudaProfilerStop=succeed,
        cudaHostRegister=succeed,
        cudaHostUnregister=succeed,
        cudaStreamCreate=succeed,
        cudaStreamDestroy=succeed,
        cudaMemGetInfo=lambda device=0: torch.cuda.mem_get_info(device),
        cudaGetErrorString=lambda code: "no error" if code == _SUCCESS else "unknown error",
    )


def cuda() -> Mapping[str, Any]:
    """Functions and classes of ``torch.cuda``, by name."""
    runtime = _runtime()
    return {
        "_sleep": _sleep,
        "cudart": lambda: runtime,
        "MemPool": MemPool,
        "use_mem_pool": _unchanged,
        "caching_allocator_enable": _nothing,
        "reset_peak_host_memory_stats": _nothing,
        "reset_accumulated_host_memory_stats": _nothing,
        "current_blas_handle": lambda: 0,
        "current_solver_handle": lambda: 0,
    }


def in_submodules(replaced: Mapping[str, Any]) -> list[tuple[Any, Mapping[str, Any]]]:
    """The same replacements where ``torch.cuda`` has its functions from, such as ``torch.cuda.memory``."""
    parts = [torch.cuda.memory, torch.cuda.random, torch.cuda.streams, torch.cuda.graphs]
    return [
        (part, {name: value for name, value in replaced.items() if hasattr(part, name)})
        for part in parts
    ]


def _compile(model: Any = None, **options: Any) -> Any:
    """``torch.compile``: the function or module itself, which computes what its compiled form would."""
    return (lambda function: function) if model is None else model


def _nested(native: Callable[..., torch.Tensor], host: Host) -> Callable[..., torch.Tensor]:
    """Makers of nested tensors, which torch's modes do not see."""

    def make(source: Any, *args: Any, device: Any = None, **kwargs: Any) -> torch.Tensor:
        parts = [source] if isinstance(source, torch.Tensor) else source
        if device is None:
            on_host = not any(isinstance(part, torch.Tensor) and part.is_cuda for part in parts)
        else:
            on_host = not isinstance(device, int) and torch.device(device).type == "cpu"
            if not on_host:
                check_index(device)
                # What is jagged is made by calls that the mode sees.
                device = "cuda" if kwargs.get("layout") == torch.jagged else "cpu"
        made = native(source, *args, device=device, **kwargs)
        if on_host and not isinstance(source, torch.Tensor):
            host.add(made)
        return made

    return make


def _from_dlpack(host: Host) -> Callable[..., torch.Tensor]:
    """``torch.from_dlpack``: what it gives is where its elements are."""
    native = torch.from_dlpack

    def from_dlpack(ext_tensor: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        made = native(ext_tensor, *args, **kwargs)
        if isinstance(ext_tensor, torch.Tensor):
            on_host = not ext_tensor.is_cuda
        else:
            on_host = not device_memory.holds(made.data_ptr())
        if on_host:
            host.add(made)
        return made

    return from_dlpack


CUDA_INTERFACE = "__cuda_array_interface__"
_own_interface: Any = getattr(torch.Tensor, CUDA_INTERFACE).__get__


def cuda_interface(tensor: torch.Tensor, on_host: bool) -> Mapping[str, Any]:
    """``Tensor.__cuda_array_interface__``; an AttributeError for a tensor in host memory, as torch has it."""
    if on_host or tensor.is_sparse or tensor.requires_grad:
        return _own_interface(tensor)
    size = tensor.element_size()
    return {
        "typestr": tensor.detach().numpy().dtype.str,
        "shape": tuple(tensor.shape),
        "strides": None
        if tensor.is_contiguous()
        else tuple(stride * size for stride in tensor.stride()),
        "data": (tensor.data_ptr() if tensor.numel() else 0, False),
        "version": 2,
    }


class _HostView:
    """Elements that an object says to have on a GPU, in host memory, where they are; keeps the object."""

    def __init__(self, owner: Any) -> None:
        self._owner = owner
        fields = getattr(owner, CUDA_INTERFACE)
        self.__array_interface__ = {**fields, "version": 3}


def host_view(owner: Any) -> NDArray[Any]:
    """An array over the elements of an object that has ``__cuda_array_interface__``, whose memory is that of the
    host.
    """
    return np.asarray(_HostView(owner))


_native_parse_to: Callable[..., Any] = getattr(torch._C._nn, "_parse_to")  # noqa: B009


def parse_to(*args: Any, **kwargs: Any) -> Any:
    """What ``Module.to`` is asked for: a number is that of a GPU."""
    if args and isinstance(args[0], int) and not isinstance(args[0], bool):
        args = (torch.device("cuda", args[0]), *args[1:])
    elif isinstance(kwargs.get("device"), int):
        kwargs = {**kwargs, "device": torch.device("cuda", kwargs["device"])}
    return _native_parse_to(*args, **kwargs)


def _native_parts() -> Mapping[str, Any]:
    """What torch's own modules import from its native part where it is built for CUDA, if it is not."""
    parts = {
        "_cuda_CUDAAllocator_AllocatorState": type("AllocatorState", (), {}),
        "_set_cached_tensors_enabled": _nothing,
    }
    missing = {name: part for name, part in parts.items() if not hasattr(torch._C, name)}
    return {**missing, **torch_native.parts()}


_native_grouped: Callable[..., Any] = getattr(torch._C, "_group_tensors_by_device_and_dtype")  # noqa: B009


def _grouped(host: Host) -> Callable[..., Any]:
    """Tensors by device and type, as optimizers group them: the device is that of the first tensor, as the program sees it."""

    def group(lists: Any, *args: Any) -> Any:
        return {
            (_seen(device, found[0][0]), dtype): (found, indices)
            for (device, dtype), (found, indices) in _native_grouped(lists, *args).items()
        }

    def _seen(device: torch.device, tensor: torch.Tensor) -> torch.device:
        on_device = device.type == "cpu" and tensor not in host
        return torch.device("cuda", 0) if on_device else device

    return group


def tables(host: Host) -> list[tuple[Any, Mapping[str, Any]]]:
    """Owners in torch, and what stands in them instead, by name."""
    memory = {
        "_record_memory_history": _nothing,
        "_set_memory_metadata": _nothing,
        "_snapshot": _snapshot,
        "_dump_snapshot": _dump_snapshot,
    }
    from_dlpack = {"from_dlpack": _from_dlpack(host)}
    return [
        (torch, {"compile": _compile, **from_dlpack}),
        (torch.utils.dlpack, from_dlpack),
        (torch.backends.cuda, {"is_built": lambda: True}),
        (torch.cuda.memory, memory),
        (torch.cuda.nvtx, {"range": _range}),
        (torch.cuda.profiler, {"cudart": cuda()["cudart"], "check_error": _nothing}),
        (torch.autograd.profiler, {"emit_nvtx": _EmitNvtx}),
        (torch._C, {**_native_parts(), "_group_tensors_by_device_and_dtype": _grouped(host)}),
        (torch._C._nn, {"_parse_to": parse_to}),
        (
            torch.nested,
            {
                name: _nested(getattr(torch.nested, name), host)
                for name in ("nested_tensor", "as_nested_tensor")
            },
        ),
    ]
