"""What a row of the suite ``unseen`` is, and what rows share."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import cuda.tile as ct
import numpy as np
import torch

from tilewright.cutile import on

Job = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Row:
    """A kernel of cuTile on this CPU, beside others that do the same.

    ``outputs`` are what the kernel writes and ``expected`` what must be in them after one launch on
    arrays that ``clear`` has prepared; ``bound`` is the error allowed, relative to the largest
    expected magnitude (0: equal bits). ``peers`` run the same on arrays of their own.
    """

    name: str
    kernel: Any
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    outputs: tuple[torch.Tensor, ...]
    expected: Callable[[], tuple[torch.Tensor, ...]]
    peers: dict[str, Job]
    bound: float = 0.0
    clear: Job = field(default=lambda: None)

    def job(self) -> Job:
        """Our launch, checked once. Raises ValueError where the result is wrong."""

        def launch() -> None:
            ct.launch(0, self.grid, self.kernel, self.arguments)

        self.clear()
        with on("cpu"):
            launch()
        for position, (found, right) in enumerate(zip(self.outputs, self.expected(), strict=True)):
            off = (found.double() - right.double()).abs().max().item()
            if not off <= self.bound * right.double().abs().max().item():
                raise ValueError(f"{self.name}: output {position} is off by {off:g}")
        return launch


def compiled(function: Callable[..., object], *tensors: torch.Tensor) -> Job:
    """A function of tensors by ``torch.compile``, which the first call compiles."""
    made: list[Callable[..., object]] = []

    def job() -> object:
        if not made:
            os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
            torch._dynamo.reset()  # else what was compiled for other rows counts as recompiling
            made.append(torch.compile(function))
        return made[0](*tensors)

    return job


def numba() -> Any:
    """numba, where it is installed; else None."""
    try:
        return import_module("numba")
    except ImportError:
        return None


def normal(*dims: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Normally distributed numbers, the same each time."""
    made = torch.randn(*dims, generator=torch.Generator().manual_seed(sum(dims)))
    return made.to(dtype)


def integers(high: int, *dims: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    """Integers from 0 up to ``high``, the same each time."""
    generator = torch.Generator().manual_seed(high)
    return torch.randint(high, dims, generator=generator).to(dtype)


def array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """The same memory for NumPy."""
    return tensor.numpy()
