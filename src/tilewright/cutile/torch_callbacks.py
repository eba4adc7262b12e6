"""Functions of a program that torch calls while a call of that program is served.

torch takes a mode off while the mode serves a call, and whatever that call runs is not seen by it: backward
functions, kernels of operations of a program's own, functions that pack saved tensors. For those the mode is
to hold.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class Holding:
    """Makes functions hold a mode, once however deep they are nested."""

    def __init__(self, mode: type[TorchFunctionMode]) -> None:
        self._mode = mode

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, run with the mode on."""

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._is_on():
                return function(*args, **kwargs)
            with self._mode():
                return function(*args, **kwargs)

        return call

    def _is_on(self) -> bool:
        depth = torch._C._len_torch_function_stack()
        modes = (torch._C._get_function_stack_at(level) for level in range(depth))
        return any(isinstance(mode, self._mode) for mode in modes)


def tables(holding: Holding) -> list[tuple[Any, Mapping[str, Any]]]:
    """Owners in torch, and what stands in them instead, by name."""
    backward: Callable[..., Any] = getattr(torch.autograd, "_engine_run_backward")  # noqa: B009
    return [
        (torch.autograd, {"_engine_run_backward": holding(backward)}),
        (torch.autograd.graph.saved_tensors_hooks, {"__init__": _saving(holding)}),
    ]


def _saving(holding: Holding) -> Callable[..., None]:
    """Activation checkpoints save tensors through such functions, and compare their devices."""
    native = torch.autograd.graph.saved_tensors_hooks.__init__

    def initialize(
        hooks: Any, pack_hook: Callable[..., Any], unpack_hook: Callable[..., Any]
    ) -> None:
        native(hooks, holding(pack_hook), holding(unpack_hook))

    return initialize
