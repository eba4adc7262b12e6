"""Which GPUs there are: one."""

from __future__ import annotations

from typing import Any

import torch


def check_index(device: Any = None) -> None:
    """There is one GPU, of number 0: RuntimeError for another number, with CUDA's message."""
    if device is None:
        return
    index = device if isinstance(device, int) else torch.device(device).index
    if index not in (None, 0, -1):
        raise RuntimeError("CUDA error: invalid device ordinal")
