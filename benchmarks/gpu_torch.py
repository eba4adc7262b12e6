"""What torch (cuBLAS, SDPA and its own kernels) does for the kernels of ``gpu_cases``, where it has a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.gpu_cases import Case


def _attention(causal: bool) -> Callable[..., Any]:
    def run(torch: Any, q: Any, k: Any, v: Any) -> Any:
        function = torch.nn.functional.scaled_dot_product_attention
        return function(q[None], k[None], v[None], is_causal=causal)[0]

    return run


def _matmul(torch: Any, a: Any, b: Any) -> Any:
    return torch.matmul(a, b)


def _fused(torch: Any, a: Any, b: Any, bias: Any, residual: Any) -> Any:
    return torch.nn.functional.silu(torch.addmm(bias, a, b)) + residual


def _convolution(torch: Any, image: Any, filters: Any) -> Any:
    # Channels last, as the case has them.
    found = torch.nn.functional.conv2d(
        image.permute(0, 3, 1, 2), filters.permute(3, 2, 0, 1), padding=1
    )
    return found.permute(0, 2, 3, 1)


#: By the name of the kernel: from the inputs, the first output.
PEERS: Mapping[str, Callable[..., Any]] = {
    "vector_add": lambda torch, x, y: x + y,
    "gelu": lambda torch, x: torch.nn.functional.gelu(x, approximate="tanh"),
    "transpose": lambda torch, x: x.t().contiguous(),
    "softmax": lambda torch, x: torch.softmax(x, 1),
    "softmax_in_chunks": lambda torch, x: torch.softmax(x, 1),
    "layer_norm": lambda torch, x, w, b: torch.nn.functional.layer_norm(
        x, (x.shape[1],), w, b, 1e-5
    ),
    "rms_norm": lambda torch, x, w: torch.nn.functional.rms_norm(x, (x.shape[1],), w, 1e-6),
    "column_sums": lambda torch, x: x.sum(0, dtype=torch.float32),
    "prefix_sum": lambda torch, x: x.cumsum(1),
    "top_k": lambda torch, x: torch.topk(x, 8, 1)[0],
    "sort": lambda torch, x: torch.sort(x, 1)[0],
    "embedding": lambda torch, table, ids: torch.nn.functional.embedding(ids, table),
    "product": _matmul,
    "product_tf32": _matmul,
    "product_transposed": lambda torch, a, b: a @ b.t(),
    "product_fused": _fused,
    "product_batched": _matmul,
    "product_persistent": _matmul,
    "product_split_k": lambda torch, a, b: torch.matmul(a, b).float(),
    "convolution": _convolution,
    "attention": _attention(False),
    "attention_causal": _attention(True),
}


def peer_of(case: Case) -> Callable[..., Any] | None:
    """What torch has for a case; None where it has nothing, as for floats of 8 bits without scales."""
    if " f8 " in case.name:
        return None
    return PEERS.get(case.kernel._pyfunc.__name__)


def why_not() -> str:
    """Why torch cannot be measured here; empty where it can."""
    if find_spec("torch") is None:
        return "torch is not installed"
    import torch

    return "" if torch.cuda.is_available() else "this torch has no GPU"


def tensor(array: np.ndarray[Any, Any], device: str) -> Any:
    """An array as a tensor of torch on a device."""
    import torch

    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).to(device)
    return torch.from_numpy(array).to(device)


def job_of(case: Case, inputs: list[np.ndarray[Any, Any]]) -> Callable[[], float] | None:
    """A job that gives the seconds of torch's function on the GPU."""
    function = peer_of(case)
    if function is None or why_not():
        return None
    import torch

    torch.backends.cuda.matmul.allow_tf32 = "tf32" in case.name
    tensors = [tensor(array, "cuda") for array in inputs]

    def run() -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        function(torch, *tensors)
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3

    return run
