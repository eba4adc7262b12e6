"""TorchScript on a GPU that is only pretended: its interpreter is native, and knows only devices that there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
import torch.jit
from torch.utils._pytree import tree_leaves

_NAME = "torch.jit.ScriptFunction"


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
    """A native function, whose results are in host memory where its tensors are."""

    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        result = native(function, *args, **kwargs)
        tensors = _tensors((args, kwargs))
        if tensors and all(tensor in host for tensor in tensors):
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
