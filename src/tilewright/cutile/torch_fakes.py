"""Tensors without elements (torch's ``FakeTensor``) on a GPU that is only pretended.

They are on the CPU like all tensors, since torch's autograd ends the process where they are on a device that there is not.
Python code of torch that computes their forms sees them there; programs see the device.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.meta_utils import MetaTensorDescriber

#: torch's own code for tensors without elements.
_COMPUTING = "torch._subclasses."
_CUDA = torch.device("cuda", 0)


def tables(
    host: Container[torch.Tensor], is_on: Callable[[], bool]
) -> list[tuple[Any, Mapping[str, Any]]]:
    """Owners in torch, and what stands in them instead, by name; ``is_on`` tells whether it is the program that asks."""
    return [
        (MetaTensorDescriber, {"describe_tensor": _described()}),
        (FakeTensor, {"device": property(_device(host, is_on))}),
    ]


def _device(
    host: Container[torch.Tensor], is_on: Callable[[], bool]
) -> Callable[[Any], torch.device]:
    native: Any = FakeTensor.device

    def device(tensor: Any) -> torch.device:
        told: torch.device = native.fget(tensor)
        if told.type != "cpu" or not is_on() or tensor in host:
            return told
        asking = sys._getframe(1).f_globals.get("__name__", "")
        # In a backward pass, which the program's functions are part of, torch also computes forms.
        return told if asking.startswith(_COMPUTING) else _CUDA

    return device


def _described() -> Callable[..., Any]:
    """How torch describes tensors for those without elements: its native code knows only devices that there are."""
    native = MetaTensorDescriber.describe_tensor

    def describe_tensor(*args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return native(*args, **kwargs)

    return describe_tensor
