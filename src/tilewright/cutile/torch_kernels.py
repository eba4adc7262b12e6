"""Kernels that torch lacks where it is not built for GPUs, for operations that its native code calls by itself.

What TorchScript runs asks for the device ``cuda`` where no mode of torch sees it: there, too, the device is served by the CPU.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from tilewright.cutile import torch_attention
from tilewright.cutile.torch_devices import check_index
from tilewright.cutile.torch_memory import device_memory


class _OfThread(threading.local):
    made = 0


of_thread = _OfThread()
"""``made`` counts the tensors that native code has made on the device."""


def _on_cpu(operation: Any) -> Callable[..., torch.Tensor]:
    def make(*args: Any, device: Any = None, pin_memory: Any = None, **kwargs: Any) -> torch.Tensor:
        check_index(device)
        with torch._C.DisableTorchFunction():
            made = operation(*args, device="cpu", **kwargs)
            device_memory.add(made.untyped_storage())
        of_thread.made += 1
        return made

    return make


def _factories() -> Mapping[str, Callable[..., Any]]:
    """What all other operations that make tensors call."""
    aten = torch.ops.aten
    return {
        "empty.memory_format": _on_cpu(aten.empty.memory_format),
        "empty_strided": _on_cpu(aten.empty_strided.default),
        "_efficientzerotensor": _on_cpu(aten._efficientzerotensor.default),
        "tril_indices": _on_cpu(aten.tril_indices.default),
        "triu_indices": _on_cpu(aten.triu_indices.default),
    }


_users = 0


@contextmanager
def kernels_of_gpus() -> Iterator[None]:
    """torch has the kernels inside."""
    global _users
    with ExitStack() as stack:
        if not _users:
            library = torch.library.Library("aten", "IMPL")
            stack.callback(library._destroy)
            for name, kernel in torch_attention.KERNELS.items():
                if hasattr(torch.ops.aten, name):
                    library.impl(name, kernel, "CPU")
            for name, kernel in _factories().items():
                if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "CUDA"):
                    library.impl(name, kernel, "CUDA")
        _users += 1
        try:
            yield
        finally:
            _users -= 1
