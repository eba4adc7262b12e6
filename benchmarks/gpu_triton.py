"""Triton kernels beside those of ``gpu_cases``: a sum, a softmax of rows, and products."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.gpu_cases import Case
from benchmarks.gpu_torch import tensor
from benchmarks.gpu_torch import why_not as no_torch

_NAMES = ("vector_add", "softmax", "product")


def peer_of(case: Case) -> str | None:
    """The kernel for a case; None where there is none."""
    name = case.kernel._pyfunc.__name__
    return name if name in _NAMES and " f8 " not in case.name else None


def why_not() -> str:
    """Why Triton cannot be measured here; empty where it can."""
    return no_torch() or ("" if find_spec("triton") else "triton is not installed")


@cache
def _kernels() -> Any:
    from benchmarks.peers import triton_kernels

    return triton_kernels


def launch_of(case: Case, inputs: list[Any], out: Any) -> Callable[[], object]:
    """What launches the kernel of a case on tensors."""
    name, kernels = peer_of(case), _kernels()
    if name == "vector_add":
        size, tile = out.numel(), min(4096, out.numel())
        return lambda: kernels.add[(size // tile,)](*inputs, out, size, tile, num_warps=8)
    if name == "softmax":
        rows, width = out.shape
        return lambda: kernels.softmax[(rows,)](*inputs, out, width, num_warps=8)
    (m, k), n = inputs[0].shape, out.shape[1]
    tm, tn, tk = (argument[0] for argument in case.arguments[-3:])
    grid = (m // tm, n // tn)
    warps = 8 if tm * tn > 128 * 64 else 4
    return lambda: kernels.product[grid](
        *inputs, out, n, k, tm, tn, tk, num_warps=warps, num_stages=3
    )


def job_of(case: Case, inputs: list[np.ndarray[Any, Any]]) -> Callable[[], float]:
    """A job that gives the seconds of Triton's kernel on the GPU."""
    import torch

    tensors = [tensor(array, "cuda") for array in inputs]
    out = output_of(case, tensors)
    run = launch_of(case, tensors, out)
    run()

    def job() -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3

    return job


def output_of(case: Case, tensors: list[Any]) -> Any:
    """An empty output for the inputs of a case."""
    torch = sys.modules["torch"]
    if peer_of(case) != "product":
        return torch.empty_like(tensors[0])
    shape = (tensors[0].shape[0], tensors[1].shape[1])
    is_wide = str(case.arguments[2][0]).endswith("float32")
    dtype = torch.float32 if is_wide else tensors[0].dtype
    return torch.empty(shape, dtype=dtype, device=tensors[0].device)
