"""Functions of a program that torch calls while a call of that program is served.

torch takes a mode off while the mode serves a call, and whatever that call runs is not seen by it: backward
functions, kernels of operations of a program's own, functions that pack saved tensors. For those the mode is
to hold.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from tilewright.cutile.torch_memory import device_memory


class _OfThread(threading.local):
    is_checking = False


_of_thread = _OfThread()


class Holding:
    """Makes functions hold a mode, once however deep they are nested."""

    def __init__(self, mode: type[TorchFunctionMode]) -> None:
        self._mode = mode

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, run with the mode on."""

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self.is_on():
                return function(*args, **kwargs)
            with self._mode():
                return function(*args, **kwargs)

        return call

    def unless_checked(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same, but not while torch compares what an operation gives with tensors without elements, which are on
        the CPU."""
        held = self(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return (function if _of_thread.is_checking else held)(*args, **kwargs)

        return call

    def is_on(self) -> bool:
        """Whether calls of torch are seen by the mode here: they are the program's, not torch's own."""
        depth = torch._C._len_torch_function_stack()
        modes = (torch._C._get_function_stack_at(level) for level in range(depth))
        return any(isinstance(mode, self._mode) for mode in modes)


def tables(holding: Holding) -> list[tuple[Any, Mapping[str, Any]]]:
    """Owners in torch, and what stands in them instead, by name."""
    backward: Callable[..., Any] = getattr(torch.autograd, "_engine_run_backward")  # noqa: B009
    return [
        (torch.library, {"opcheck": _opcheck()}),
        (torch.autograd, {"_engine_run_backward": _counting(holding(backward), holding(_look))}),
        (torch.autograd.graph.saved_tensors_hooks, {"__init__": _saving(holding)}),
    ]


def _opcheck() -> Callable[..., Any]:
    """``torch.library.opcheck`` compares tensors with some without elements, which are on the CPU: so are all, but for
    the program's own kernels."""
    native = torch.library.opcheck

    def opcheck(*args: Any, **kwargs: Any) -> Any:
        outer, _of_thread.is_checking = _of_thread.is_checking, True
        try:
            with torch.overrides._pop_mode_temporarily():
                return native(*args, **kwargs)
        finally:
            _of_thread.is_checking = outer

    return opcheck


def _look(leaves: Sequence[torch.Tensor]) -> None:
    for leaf in leaves:
        _ = leaf.grad  # The mode counts what it gives.


def _counting(backward: Callable[..., Any], look: Callable[..., None]) -> Callable[..., Any]:
    """Gradients are in the memory of the device as soon as they are made, for programs that ask for it."""

    def run(roots: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        leaves = _leaves(roots) if device_memory.is_asked_for else []
        results = backward(roots, *args, **kwargs)
        look(leaves)
        return results

    return run


def _leaves(roots: Sequence[Any]) -> list[torch.Tensor]:
    """The tensors whose gradients a backward pass from here adds to."""
    waiting = [getattr(root, "grad_fn", None) or getattr(root, "node", None) for root in roots]
    seen: set[Any] = set()
    leaves: list[torch.Tensor] = []
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            leaves.append(node.variable)
        waiting += [following for following, _ in node.next_functions]
    return leaves


def _saving(holding: Holding) -> Callable[..., None]:
    """Activation checkpoints save tensors through such functions, and compare their devices."""
    native = torch.autograd.graph.saved_tensors_hooks.__init__

    def initialize(
        hooks: Any, pack_hook: Callable[..., Any], unpack_hook: Callable[..., Any]
    ) -> None:
        native(hooks, holding(pack_hook), holding(unpack_hook))

    return initialize
