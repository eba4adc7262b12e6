"""TorchScript on a GPU that is only pretended: its interpreter is native, and knows only devices that there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
import torch.jit
from torch.utils._pytree import tree_leaves

from tilewright.cutile.torch_kernels import of_thread

_NAME = "torch.jit.ScriptFunction"
_REFUSED = (
    "Tilewright serves the device cuda by the CPU. In a scripted module, native code asks for it: there new tensors are served, but "
    "not copies to the device (x.to, x.cuda, torch.tensor) nor pinned memory. Call the module of Python instead."
)
#: What torch says where something needs a GPU after all.
_MISSING = (
    "from the 'CUDA' backend",
    "not linked with support for cuda",
    "Cannot access accelerator device",
    "Cannot initialize CUDA without",
)


class Host(Protocol):
    """The tensors that a program keeps in host memory."""

    def add(self, tensor: torch.Tensor) -> None:
        """The tensor is one of host memory, as are its views."""

    def __contains__(self, tensor: torch.Tensor) -> bool: ...


def tables(host: Host) -> list[tuple[Any, Mapping[str, Any]]]:
    """Owners in torch, and what stands in them instead, by name."""
    return [
        (torch.jit.ScriptFunction, {"__call__": _call(host)}),
        (torch.ScriptMethod, {"__call__": _placed(torch.ScriptMethod.__call__, host)}),
        (torch.jit, {"load": _load(host)}),
    ]


def _placed(native: Callable[..., Any], host: Host) -> Callable[..., Any]:
    """A native function, whose results are in host memory where its tensors are, unless it has made some on the device."""

    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        made = of_thread.made
        try:
            result = native(function, *args, **kwargs)
        except RuntimeError as error:
            if any(told in str(error) for told in _MISSING):
                raise RuntimeError(f"{_REFUSED}\n{error}") from error
            raise
        tensors = _tensors((args, kwargs))
        if tensors and made == of_thread.made and all(tensor in host for tensor in tensors):
            for tensor in _tensors(result):
                host.add(tensor)
        return result

    return call


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _call(host: Host) -> Callable[..., Any]:
    """A scripted function is called as the function of Python that it was made from, which asks for devices where they are
    served. What was traced has nothing left to ask."""
    native = _placed(torch.jit.ScriptFunction.__call__, host)

    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        told = vars(function)
        if told.get("__qualname__") == _NAME and "_torchdynamo_inline" in told:
            return told["_torchdynamo_inline"](*args, **kwargs)
        return native(function, *args, **kwargs)

    return call


def _load(host: Host) -> Callable[..., Any]:
    """``torch.jit.load``, which puts what it reads on the device, unless it is told to keep it on the host."""
    native = torch.jit.load

    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        wanted = None if map_location is None else torch.device(map_location)
        on_device = wanted is not None and wanted.type == "cuda"
        module = native(f, "cpu" if on_device else map_location, *args, **kwargs)
        if wanted is not None and wanted.type == "cpu":
            for tensor in (*module.parameters(), *module.buffers()):
                host.add(tensor)
        return module

    return load
